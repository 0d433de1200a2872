"""A file is replaced whole or not at all, and nothing is left beside it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onepos._utils.files import replaced_when_done, write_durably
from onepos.exceptions import DataFileError


def test_replaces_and_returns_the_path(tmp_path):
    path = tmp_path / "a.txt"
    assert write_durably(path, b"old") == path
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, place):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync") if place == "fsync" else (Path, "replace")), fail)
        with pytest.raises(OSError, match="disk full"):
            write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


_KILLED = """
import os, signal, sys
from pathlib import Path
from onepos._utils.files import replaced_when_done
with replaced_when_done(Path(sys.argv[1])) as part:
    part.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_part_of_a_killed_process_is_removed_a_day_later(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False).returncode < 0
    left = next(tmp_path.glob(".*.part"))
    assert left.read_bytes() == b"half"
    write_durably(tmp_path / "other.txt", b"new")
    assert left.exists()  # perhaps somebody still writes to it
    yesterday = time.time() - 100_000
    os.utime(left, (yesterday, yesterday))
    write_durably(tmp_path / "other.txt", b"newer")
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "other.txt"]
    assert path.read_bytes() == b"old"


def test_old_parts_of_other_programs_stay(tmp_path):
    others = [tmp_path / ".b.txt.0123456789abcdef.part", tmp_path / "b.txt.part"]
    for other in others:
        other.write_bytes(b"theirs")
        os.utime(other, (0, 0))
    write_durably(tmp_path / "a.txt", b"new")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "a.txt", *others])


@pytest.mark.skipif(os.name != "posix", reason="modes, links and pipes of POSIX")
class TestWhatStandsThere:
    def test_a_file_keeps_its_mode(self, tmp_path):
        path = tmp_path / "a.txt"
        path.touch(0o600)
        with replaced_when_done(path) as part:
            assert part.stat().st_mode & 0o777 == 0o600
            part.write_bytes(b"new")
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)
        write_durably(path, b"newer")
        assert path.stat().st_mode & 0o777 == 0o644

    def test_a_link_is_followed(self, tmp_path):
        (tmp_path / "real").mkdir()
        for name in ("there", "new"):
            (tmp_path / name).symlink_to(tmp_path / "real" / name)
        (tmp_path / "real" / "there").write_bytes(b"old")
        for name in ("there", "new"):
            write_durably(tmp_path / name, b"content")
            assert (tmp_path / name).is_symlink()
            assert (tmp_path / "real" / name).read_bytes() == b"content"

    def test_a_pipe_or_a_device_is_refused(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", Path("/dev/null")):
            with pytest.raises(DataFileError, match="a device or a pipe"):
                write_durably(path, b"content")
            assert not path.is_file()

    def test_a_name_of_the_longest_length(self, tmp_path):
        path = tmp_path / ("ä" * 127)
        assert write_durably(path, b"content").read_bytes() == b"content"
        with pytest.raises(OSError, match="too long"):
            write_durably(tmp_path / ("a" * 256), b"content")
