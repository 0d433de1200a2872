"""Workers that are killed, runners that meet, clocks that jump: no row is lost, none is misled."""

import itertools
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

import onepos
from onepos_studies.exceptions import StudyError
from onepos_studies.study import Observer, ResultsFolder, load_results, parse_study, run_study
from tiny_study import stable, study_text

posix = pytest.mark.skipif(os.name != "posix", reason="signals and locks of POSIX")

TEXT = study_text("frequency", "an")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run_study(parse_study(TEXT), TEXT, ResultsFolder(folder), jobs=1)
    return stable(load_results(folder))


class _KillsOnce(Observer):
    """Kills a worker that computes, as the system does when memory is short; not the runner."""

    def __init__(self, folder):
        self.folder, self.killed, self.under_way = folder, [], []

    def on_cell(self, row, done, failed, total):
        victims = [note["pid"] for note in self.folder.running() if note["pid"] != os.getpid()]
        if victims and not self.killed:
            self.killed.append(victims[0])
            os.kill(victims[0], signal.SIGKILL)

    def on_notice(self, text):
        if "worker process was killed; under way" in text:
            self.under_way.append(text)


@posix
def test_a_worker_killed_once_costs_nothing_but_its_time(tmp_path, undisturbed):
    folder = ResultsFolder(tmp_path)
    observer = _KillsOnce(folder)
    assert run_study(parse_study(TEXT), TEXT, folder, jobs=2, observer=observer) == (4, 0)
    assert observer.killed
    assert len(observer.under_way) == 1
    pd.testing.assert_frame_equal(stable(load_results(tmp_path)), undisturbed)
    assert folder.running() == []


@posix
def test_two_runners_at_once_and_one_of_them_with_another_plan(start, tmp_path):
    """The second is refused by name, and touches neither rows nor the study file of the first."""
    first = study_text("an").replace("max_epochs = 2", "max_epochs = 1000000\nearly_stopping = false")
    second = study_text("frequency", "an")
    (tmp_path / "first.toml").write_text(first)
    (tmp_path / "second.toml").write_text(second)
    out = tmp_path / "out"
    running = start("bench", "run", tmp_path / "first.toml", "--out", out, "--jobs", 1)
    running.wait_for("0 of 2 cells done")
    with pytest.raises(StudyError, match=f"another run .process {running.process.pid}. is writing"):
        run_study(parse_study(second), second, ResultsFolder(out), jobs=1)
    assert (out / "study.toml").read_text() == first
    assert running.process.poll() is None
    running.send(signal.SIGTERM)
    running.end()
    # The lock ends with its holder, whatever is left of the file.
    assert run_study(parse_study(second), second, ResultsFolder(out), jobs=1, methods=("frequency",)) == (2, 0)


class _Clock:
    """A clock that jumps by so many days at each look."""

    def __init__(self, days):
        self.days, self.ticks = days, itertools.count()

    def __call__(self):
        return 1e9 + 86_400.0 * self.days * next(self.ticks)


@pytest.mark.parametrize("days", [-1, 1], ids=["backwards", "forwards"])
def test_a_clock_that_jumps(tmp_path, monkeypatch, undisturbed, days):
    """Times of day are written down for people; nothing is decided by them."""
    monkeypatch.setattr(time, "time", _Clock(days))
    folder = ResultsFolder(tmp_path)
    assert run_study(parse_study(TEXT), TEXT, folder, jobs=1, methods=("frequency",)) == (2, 0)
    for path in (tmp_path / "rows").iterdir():
        os.utime(path, (0, 0))  # as old as can be
    assert run_study(parse_study(TEXT), TEXT, folder, jobs=1) == (4, 0)
    pd.testing.assert_frame_equal(stable(load_results(tmp_path)), undisturbed)
    X = np.random.default_rng(0).normal(size=(80, 3))
    Y = np.eye(4, dtype=int)[2 * (X[:, 0] > 0) + (X[:, 1] > 0)]
    auto = onepos.make_classifier("auto", methods=("frequency", "logistic"), time_budget=6000, random_state=0).fit(X, Y)
    assert auto.history_.facts["stopped"] == "methods"  # not the budget
