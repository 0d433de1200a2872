"""A file is replaced whole or not at all, and nothing is left beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onepos._utils.files import replaced_when_done, sweep, write_durably


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


def test_the_part_of_a_killed_process_is_swept_by_the_next_write(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False).returncode < 0
    left = next(tmp_path.glob(".*.part"))
    assert left.read_bytes() == b"half"
    write_durably(tmp_path / "other.txt", b"new")
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "other.txt"]
    assert path.read_bytes() == b"old"


def test_parts_of_others_stay(tmp_path):
    """Of a process that runs, of another machine, of another program; and our own that are still open."""
    with replaced_when_done(tmp_path / "a.txt") as part:
        part.write_bytes(b"half")
        machine, process, number = part.name.split(".")[-2].split("-")
        others = [
            tmp_path / f".b.txt.{machine}-{os.getppid()}-{number}.part",
            tmp_path / f".b.txt.{'0' * 8}-{process}-{number}.part",
            tmp_path / ".b.txt.0123456789abcdef.part",
            tmp_path / "b.txt.part",
        ]
        for other in others:
            other.write_bytes(b"theirs")
        stale = tmp_path / f".b.txt.{machine}-{process}-{'0' * 16}.part"  # an earlier process of the same id
        stale.write_bytes(b"ours")
        assert sweep(tmp_path) == [stale]
        assert part.exists()
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "a.txt", *others])
