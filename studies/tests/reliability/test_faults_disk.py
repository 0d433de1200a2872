"""Full and read-only disks: a study goes on where it stopped, a cache says what is wrong."""

import subprocess
import sys
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

import onepos
from onepos_studies.datasets import _fetch
from onepos_studies.datasets._catalogue import RemoteFile
from onepos_studies.exceptions import DownloadError
from onepos_studies.study import ResultsFolder, load_results, parse_study, run_study
from tiny_study import stable, study_text

FREE = "no space is left on this disk; what was stored before is intact. Free some, then try again"

READ_ONLY = "this disk may only be read. Choose another place"

TEXT = study_text("frequency", "wan").replace("trials = 2", "trials = 12")


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    settings = {"max_epochs": 1, "batch_size": 50, "random_state": 0}
    return onepos.make_classifier("an", **settings).fit(rng.normal(size=(50, 200)), np.eye(5)[np.arange(50) % 5])


def test_a_study_on_a_full_disk_goes_on_where_it_stopped(make_disk, tmp_path):
    """Some rows find room, then none does; with room again, the rest is run and the finished cells are not."""
    disk = make_disk()
    study, out = parse_study(TEXT), disk.path / "out"
    disk.fill(leave=150_000)
    quick = {"jobs": 1, "methods": ("frequency",)}
    with pytest.raises(OSError, match=FREE):
        run_study(study, TEXT, ResultsFolder(out), **quick)
    frame = load_results(out)  # readable as it is
    assert 1 <= len(frame) < 12
    assert set(frame["status"]) == {"ok"}
    assert not list(out.rglob("*.part"))
    stored = {path.name: path.read_bytes() for path in (out / "rows").iterdir()}
    disk.empty()
    assert run_study(study, TEXT, ResultsFolder(out), **quick) == (12, 0)
    assert {name: (out / "rows" / name).read_bytes() for name in stored} == stored
    run_study(study, TEXT, ResultsFolder(tmp_path / "whole"), **quick)
    pd.testing.assert_frame_equal(stable(load_results(out)), stable(load_results(tmp_path / "whole")))


def test_half_a_note_of_a_running_cell_is_cleared_away(tmp_path):
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "a.json").write_text('{"cell": "a", "pi')
    run_study(parse_study(TEXT), TEXT, ResultsFolder(tmp_path), jobs=1, methods=("frequency",))
    assert not list((tmp_path / "running").iterdir())


_SERVE = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = b"0123456789" * 60_000
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        print(self.path, flush=True)
        self.wfile.write(content)
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_a_data_cache_on_a_full_disk(make_disk):
    """The message is about room, not about sources, and nothing stays behind."""
    pytest.importorskip("pooch")
    disk = make_disk()
    disk.fill(leave=200_000)
    content = b"0123456789" * 60_000
    with subprocess.Popen([sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            port = int(server.stdout.readline())
            urls = [f"http://127.0.0.1:{port}/{name}" for name in ("first", "second")]
            file = RemoteFile("set.arff", len(content), sha256(content).hexdigest(), mirrors=tuple(urls))
            path = disk.path / file.file
            with pytest.raises(OSError, match="no space is left on this disk"):
                _fetch._download(file, path, "", offline=False, progress=False)
            assert not [entry for entry in disk.path.iterdir() if entry.name.startswith(("set", "tmp"))]
            disk.empty()
            _fetch._download(file, path, "", offline=False, progress=False)
            assert path.read_bytes() == content
        finally:
            server.kill()
        asked = server.stdout.read().split()
    assert asked == [b"/first", b"/first"]  # the second source was not asked for what has no room
    assert [entry.name for entry in disk.path.iterdir()] == ["set.arff"]


def test_a_read_only_disk(run, photos, model, make_disk):
    """Stored results can be read; whatever would write says so before it begins to work."""
    disk = make_disk()
    path = model.save(disk.path / "model.onepos")
    (disk.path / "tiny.toml").write_text(TEXT)
    run_study(parse_study(TEXT), TEXT, ResultsFolder(disk.path / "out"), jobs=1, methods=("frequency",))
    frame = load_results(disk.path / "out")
    disk.protect()
    onepos.load(path)
    pd.testing.assert_frame_equal(load_results(disk.path / "out"), frame)
    assert run("bench", "status", disk.path / "out")[0] == 0
    with pytest.raises(OSError, match=f"{READ_ONLY}: '{path}'"):
        model.save(path)
    code, _, err = run("fit", *photos, "--out", disk.path / "new.onepos")
    assert code == 2
    assert (
        err == f"onepos: cannot write {disk.path / 'new.onepos'}: no permission in {disk.path}. Choose another place.\n"
    )
    for out in ("out", "new"):
        code, _, err = run("bench", "run", disk.path / "tiny.toml", "--out", disk.path / out)
        assert code == 2
        assert err.splitlines()[-1] == f"onepos: {disk.path / out / '.lock'}: {READ_ONLY}"
    file = RemoteFile("set.arff", 1, "0" * 64, mirrors=("http://127.0.0.1:9/x",))
    with pytest.raises(DownloadError, match=r"that folder is read-only\. Set ONEPOS_DATA"):
        _fetch._download(file, disk.path / file.file, "", offline=False, progress=False)
