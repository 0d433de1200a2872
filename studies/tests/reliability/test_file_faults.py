"""A cache of data files that is filled twice, cut off or read-only."""

import http.server
import os
import subprocess
import sys
import threading
from hashlib import sha256

import pytest

from onepos_studies.datasets import _fetch
from onepos_studies.datasets._catalogue import RemoteFile
from onepos_studies.datasets._fetch import check_intact
from onepos_studies.exceptions import ChecksumError, DownloadError

posix = pytest.mark.skipif(os.name != "posix", reason="limits and mode bits of POSIX")


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
from onepos_studies.datasets import _fetch
from onepos_studies.datasets._catalogue import RemoteFile
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
        ended = [process.communicate(timeout=600) for process in running]
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
