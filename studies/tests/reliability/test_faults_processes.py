"""Workers that are killed, runners that meet, clocks that jump: no row is lost, none is misled."""

import itertools
import os
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky import get_reusable_executor

import onepos
from onepos_studies.exceptions import StudyError
from onepos_studies.study import ResultsFolder, load_results, parse_study, run_study
from tiny_study import stable, study_text

posix = pytest.mark.skipif(os.name != "posix", reason="signals and locks of POSIX")

TEXT = study_text("frequency", "an")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run_study(parse_study(TEXT), TEXT, ResultsFolder(folder), jobs=1)
    return stable(load_results(folder))


#: A method whose first fit of all ends its process, as the system does when memory is short.
DEADLY = """
import os, signal
from dataclasses import dataclass
from pathlib import Path
from onepos.methods.frequency import FrequencyClassifier

@dataclass(kw_only=True, eq=False, repr=False)
class OnceClassifier(FrequencyClassifier):
    def fit(self, *arguments, **options):
        try:
            Path(__file__).with_name("killed").touch(exist_ok=False)
        except FileExistsError:
            return super().fit(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
def test_a_worker_killed_once_costs_nothing_but_its_time(tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    get_reusable_executor().shutdown(wait=True)  # workers of other tests do not have this path
    text = study_text("frequency", "an") + '[[method]]\nkey = "deadly:OnceClassifier"\nname = "deadly"\n'
    folder, lines = ResultsFolder(tmp_path / "out"), []
    assert run_study(parse_study(text), text, folder, jobs=2, log=lines.append) == (6, 0)
    assert (tmp_path / "killed").exists()
    assert sum("worker process was killed; under way" in line for line in lines) == 1
    again = ResultsFolder(tmp_path / "again")
    run_study(parse_study(text), text, again, jobs=1)
    pd.testing.assert_frame_equal(stable(folder.frame()), stable(again.frame()))
    assert folder.running() == []
    sys.modules.pop("deadly", None)


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
