"""Fetching over a loopback server that breaks off, lies and refuses."""

import hashlib
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from onepos_studies.datasets import _catalogue as _registry
from onepos_studies.datasets import _fetch, fetch_dataset, load_dataset
from onepos_studies.datasets._catalogue import DataSetEntry, RemoteFile
from onepos_studies.datasets._fetch import data_folder as folder_in_use
from onepos_studies.datasets._fetch import is_writable
from onepos_studies.exceptions import ChecksumError, DownloadError

CONTENT = np.random.default_rng(0).bytes(300_000)
FILE = "toy/data.bin"


class Server(ThreadingHTTPServer):
    """Serves a dict path → bytes; each base path can misbehave in its own way."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {FILE: CONTENT}
        self.cuts = {}  # base → how many more answers break off, and after how many bytes
        self.requests = []
        self.sent = 0

    def base(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        base, _, file = self.path.strip("/").partition("/")
        self.server.requests.append(base)
        content = self.server.files.get(file)
        if base == "error" or content is None:
            self.send_error(500 if base == "error" else 404)
            return
        if base == "tampered":
            content = b"X" + content[1:]
        if base == "longer":
            content = content + b"more"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        times, limit = self.server.cuts.get(base, (0, 0))
        if times:
            self.server.cuts[base] = (times - 1, limit)
            content = content[:limit]
        for start in range(0, len(content), 1 << 16):
            try:
                self.server.sent += self.wfile.write(content[start : start + (1 << 16)])
            except ConnectionError:
                break
        self.close_connection = True


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def mirrors(server, monkeypatch):
    """Let files come from places on the server, or from full addresses."""

    def use(*names):
        bases = [name if "://" in name else server.base(name) for name in names]
        monkeypatch.setattr(RemoteFile, "urls", property(lambda file: tuple(f"{base}/{file.file}" for base in bases)))

    return use


@pytest.fixture
def toy(monkeypatch):
    """A data set of one file."""
    file = RemoteFile(FILE, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    entry = DataSetEntry("toy", 1, 1, 1, 1.0, files=(file,))
    monkeypatch.setattr(_registry, "registry", lambda: {"toy": entry})


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_download_then_cache(server, toy, mirrors, tmp_path):
    mirrors("good")
    (path,) = fetch_dataset("toy", data_home=tmp_path)
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == [FILE]
    fetch_dataset("toy", data_home=tmp_path)
    assert server.requests == ["good"]


def test_broken_mirrors_are_passed_over(toy, mirrors, tmp_path):
    mirrors("error", closed_port(), "tampered", "longer", "file:///etc", "good")
    (path,) = fetch_dataset("toy", data_home=tmp_path)
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == [FILE]


def test_all_sources_unreachable(toy, mirrors, tmp_path):
    mirrors("error", closed_port())
    with pytest.raises(DownloadError, match=r"500 Server Error.*refused.*Try again later"):
        fetch_dataset("toy", data_home=tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("bad", ["tampered", "longer"])
def test_tampered_download_leaves_nothing(toy, mirrors, tmp_path, bad):
    mirrors(bad, "error")
    with pytest.raises(ChecksumError, match="it is another file"):
        fetch_dataset("toy", data_home=tmp_path)
    assert files_in(tmp_path) == []


def test_a_connection_that_breaks_off_leaves_nothing(server, toy, mirrors, tmp_path):
    mirrors("good")
    server.cuts["good"] = (1, 100_000)
    with pytest.raises(DownloadError, match="Try again later"):
        fetch_dataset("toy", data_home=tmp_path)
    assert files_in(tmp_path) == []
    (path,) = fetch_dataset("toy", data_home=tmp_path)
    assert path.read_bytes() == CONTENT


def test_tampered_cached_file_and_force(server, toy, mirrors, tmp_path):
    mirrors("good")
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_bytes(b"tampered")
    with pytest.raises(ChecksumError, match="force=True"):
        fetch_dataset("toy", data_home=tmp_path)
    assert server.requests == []
    server.files = {}
    with pytest.raises(DownloadError, match="404"):
        fetch_dataset("toy", data_home=tmp_path, force=True)
    assert path.read_bytes() == b"tampered"  # replaced by something intact, or not at all
    server.files = {FILE: CONTENT}
    fetch_dataset("toy", data_home=tmp_path, force=True)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("value", ["1", "true", None])
def test_offline_mode_never_asks(server, toy, mirrors, tmp_path, monkeypatch, value):
    mirrors("good")
    if value is not None:
        monkeypatch.setenv("ONEPOS_OFFLINE", value)
    with pytest.raises(DownloadError, match="offline mode"):
        fetch_dataset("toy", data_home=tmp_path, offline=True if value is None else None)
    assert server.requests == []
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("ONEPOS_OFFLINE", "0")
    fetch_dataset("toy", data_home=tmp_path)


def test_read_only_folder_is_never_written(toy, mirrors, tmp_path):
    mirrors("good")
    tmp_path.chmod(0o555)
    try:
        assert not is_writable(tmp_path / "a" / "b")
        with pytest.raises(DownloadError, match="read-only"):
            fetch_dataset("toy", data_home=tmp_path)
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o755)


def test_stalled_server_times_out(toy, mirrors, tmp_path, monkeypatch):
    monkeypatch.setattr(_fetch, "TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        mirrors(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(DownloadError, match="timed out"):
            fetch_dataset("toy", data_home=tmp_path)


def test_user_cache_is_the_one_pooch_names(monkeypatch, tmp_path):
    import pooch

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder_in_use() == pooch.os_cache("onepos")
    monkeypatch.setenv("ONEPOS_DATA", str(tmp_path / "d"))
    assert folder_in_use() == tmp_path / "d"
    assert folder_in_use("x").name == "x"


def test_nothing_is_printed_unless_asked_for(toy, mirrors, tmp_path, capfd):
    mirrors("good")
    fetch_dataset("toy", data_home=tmp_path / "quiet")
    assert capfd.readouterr() == ("", "")


def test_several_at_once_do_not_disturb_each_other(toy, mirrors, tmp_path):
    mirrors("good")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fetch_dataset("toy", data_home=tmp_path), range(4)))
    assert found == [[tmp_path / FILE]] * 4
    assert files_in(tmp_path) == [FILE]


FILL = """
import sys
from pathlib import Path
from onepos_studies.datasets import _fetch
from onepos_studies.datasets._catalogue import RemoteFile
home, url, digest = sys.argv[1:]
file = RemoteFile("data.bin", 300_000, digest, mirrors=(url,))
_fetch._download(file, Path(home) / file.file, "", offline=False, progress=False)
"""


def test_two_processes_fill_one_cache(server, tmp_path):
    command = [
        sys.executable,
        "-c",
        FILL,
        tmp_path,
        server.base("good") + f"/{FILE}",
        hashlib.sha256(CONTENT).hexdigest(),
    ]
    running = [subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE) for _ in range(2)]
    ended = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    assert files_in(tmp_path) == ["data.bin"]
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["CAL500", "rcv1-s1", "mirflickr-tags"])
def test_real_files_over_the_wire(server, mirrors, data_folder, tmp_path, name):
    for file in _registry.get_entry(name).files:
        server.files[file.file] = (data_folder / file.file).read_bytes()
    mirrors("error", "good")
    data = load_dataset(name, data_home=tmp_path)
    assert data.Y.shape[0] == _registry.get_entry(name).instances
    assert files_in(tmp_path) == sorted(file.file for file in _registry.get_entry(name).files)
