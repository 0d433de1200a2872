"""Disks that are full, folders that may not be written, files that vanish, two writers at once."""

import http.server
import os
import resource
import signal
import subprocess
import sys
import threading
from hashlib import sha256

import numpy as np
import pytest

import onepos
from onepos.datasets import _fetch
from onepos.datasets._catalogue import RemoteFile
from onepos.datasets._fetch import check_intact
from onepos.exceptions import ChecksumError, DownloadError, ModelFileError

posix = pytest.mark.skipif(os.name != "posix", reason="limits and mode bits of POSIX")


@pytest.fixture
def model():
    return onepos.FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])


def _child(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@posix
def test_a_full_disk_leaves_the_old_model_and_no_rest(model, tmp_path):
    """A limit on the size of files stands for the full disk: the write fails half-way."""
    path = model.save(tmp_path / "model.onepos")
    before = path.read_bytes()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
        with pytest.raises(OSError, match="too large"):
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, previous)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onepos"]
    onepos.load(path)


def test_a_half_written_model_is_never_believed(model, tmp_path):
    content = model.save(tmp_path / "whole").read_bytes()
    for length in range(0, len(content), max(1, len(content) // 40)):
        (tmp_path / "half").write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="truncated or corrupt"):
            onepos.load(tmp_path / "half")


def test_a_folder_that_is_a_file(model, tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(OSError, match="folder"):
        model.save(tmp_path / "folder" / "model.onepos")


class _Served:
    """A small web server that counts who asks."""

    def __init__(self, content):
        self.visits = 0
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.visits += 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/set.arff"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def _remote(content, *urls):
    return RemoteFile("set.arff", len(content), sha256(content).hexdigest(), mirrors=tuple(urls))


CONTENT = b"0123456789" * 50_000
_FILL = """
import sys
from pathlib import Path
from onepos.datasets import _fetch
from onepos.datasets._catalogue import RemoteFile
home, url, digest, size = sys.argv[1:]
file = RemoteFile("set.arff", int(size), digest, mirrors=(url,))
print(_fetch._fetch(file, None, Path(home), offline=False, progress=False, force=False).stat().st_size)
"""


@posix
def test_two_processes_fill_one_cache(tmp_path):
    pytest.importorskip("pooch")
    file = _remote(CONTENT)
    with _Served(CONTENT) as served:
        command = [sys.executable, "-c", _FILL, str(tmp_path), served.url, file.sha256, str(file.bytes)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        ended = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    assert [out.strip() for out, _ in ended] == [b"500000"] * 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["set.arff"]
    check_intact(tmp_path / "set.arff", file)


def test_a_cached_file_that_was_cut_off_is_not_believed(tmp_path):
    file = _remote(CONTENT)
    (tmp_path / "set.arff").write_bytes(CONTENT[:1000])
    with pytest.raises(ChecksumError, match="Delete it, or fetch it again"):
        _fetch._fetch(file, None, tmp_path, offline=True, progress=False, force=False)


@posix
def test_a_read_only_cache_is_said_to_be_one(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o555)
    try:
        with pytest.raises(DownloadError, match=r"that folder is read-only\. Set ONEPOS_DATA"):
            _fetch._fetch(
                _remote(CONTENT, "http://127.0.0.1:9/x"), None, home, offline=False, progress=False, force=False
            )
    finally:
        home.chmod(0o755)
    assert list(home.iterdir()) == []


@posix
def test_a_table_that_cannot_be_written_leaves_the_old_one(run, tmp_path):
    """The command says in one line what is wrong, and nothing is half there."""
    table = tmp_path / "photos.csv"
    table.write_text("a,tag\n" + "".join(f"{i % 7},{'sea' if i % 2 else 'sun'}\n" for i in range(30)))
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    code, _, err = run("fit", table, "--label", "tag", "--method", "frequency", "--out", taken / "model.onepos")
    assert code != 0
    assert "Traceback" not in err
    assert "taken" in err
    assert taken.read_text() == "a file, not a folder"
