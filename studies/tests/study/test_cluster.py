"""Studies on a real Dask cluster on loopback: the rows of the local run, whatever happens to workers."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from onepos_studies.study import ResultsFolder, load_results
from tiny_study import stable, study_text

TEXT = study_text("frequency", "an", "smile", rules=("clean", "single-positive"))
#: Seconds until a run counts as stuck: many times what it takes, as the machine may be busy with other tests.
PATIENCE = 600
PROGRAMS = Path(sys.executable).parent


class Cluster:
    """Processes that this test started, and that end with it."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        # Workers have an empty data folder and must not fill it: the embedded sets need none.
        self.environment = os.environ | {"ONEPOS_DATA": str(folder / "empty"), "ONEPOS_OFFLINE": "1"}
        (folder / "empty").mkdir()
        file = folder / "scheduler.json"
        self.start(
            "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file
        )
        deadline = time.monotonic() + PATIENCE
        while not file.exists():
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.1)
        self.address = json.loads(file.read_text())["address"]
        for _ in range(2):
            self.join()

    def join(self):
        self.start("dask", "worker", self.address, "--nthreads", 1, "--no-nanny", "--no-dashboard")

    def start(self, *command):
        process = psutil.Popen(
            [str(PROGRAMS / command[0]), *map(str, command[1:])],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)

    def close(self):
        tree = []
        for process in self.processes:
            if process.is_running():
                tree += [*process.children(recursive=True), process]
        for process in tree:
            if process.is_running():
                process.kill()
        for process in self.processes:
            process.wait()
        psutil.wait_procs(tree, timeout=10)

    def owns(self, pid):
        family = [child.pid for process in self.processes for child in [process, *_children(process)]]
        return pid in family


def _children(process):
    return process.children(recursive=True) if process.is_running() else []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("distributed", reason="onepos-studies[dask] is not installed")
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Rows of a run in a process of its own, as those that they are compared with."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "tiny.toml").write_text(TEXT)
    process = start(folder / "tiny.toml", folder / "out", "--jobs", 1)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return stable(load_results(folder / "out"))


def start(study, out, *options):
    command = [sys.executable, "-m", "onepos", "bench", "run", str(study), "--out", str(out), *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_a_new_one_finds_work(cluster, local, tmp_path):
    (tmp_path / "tiny.toml").write_text(TEXT)
    out = tmp_path / "out"
    process = start(tmp_path / "tiny.toml", out, "--cluster", cluster.address)
    victims = []
    while not victims and process.poll() is None:
        notes = ResultsFolder(out).running() if out.exists() else []
        victims = [note["pid"] for note in notes if cluster.owns(note["pid"])]
        time.sleep(0.01)
    assert victims, "the study ended before any worker could be killed"
    psutil.Process(victims[0]).kill()
    cluster.join()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    pd.testing.assert_frame_equal(stable(load_results(out)), local)
    assert not list((out / "running").iterdir())


@pytest.mark.slow
def test_a_cell_whose_worker_lacks_the_data_is_stored_with_the_reason(cluster, tmp_path):
    (tmp_path / "cal.toml").write_text(TEXT.replace("known-posterior", "CAL500"))
    out = tmp_path / "out"
    options = ("--cluster", cluster.address, "--methods", "frequency")
    process = start(tmp_path / "cal.toml", out, *options)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    frame = load_results(out)
    assert set(frame["status"]) == {"failed"}
    assert frame["error"].str.contains(f"is not in {cluster.folder / 'empty'}", regex=False).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cluster", "tcp://127.0.0.1:9", "--jobs", 2), "--jobs counts processes"),
        (("--cluster", "tcp://127.0.0.1:9"), "no Dask scheduler answers at tcp://127.0.0.1:9"),
        (("--cluster", "tcp://"), "no Dask scheduler answers at tcp:// (it names no host)"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(run, tmp_path, options, message):
    _check_mistake(run, tmp_path, options, message)


def test_a_missing_extra_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = '--cluster needs distributed, which is not installed: pip install "onepos-studies[dask]"'
    _check_mistake(run, tmp_path, ("--cluster", "tcp://127.0.0.1:9"), message)


def _check_mistake(run, folder, options, message):
    code, out, err = run("bench", "run", "smoke", "--out", folder / "out", *options)
    assert (code, out) == (2, "")
    assert err.startswith("onepos: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (folder / "out").exists()
