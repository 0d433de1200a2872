"""Rows name the code and the data that made them; a sample of them is run again and compared."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils import Bunch
from typer.testing import CliRunner

import onepos
from onepos.cli import commands
from onepos.datasets import make_known_posterior
from onepos.exceptions import StudyError
from onepos.methods.registry import METHODS
from onepos.metrics import METRICS
from onepos_studies.datasets import read
from onepos_studies.study import (
    Observer,
    ResultsFolder,
    cells,
    cells_of,
    load_results,
    parse_study,
    provenance,
    run_study,
)
from onepos_studies.study.provenance import OTHER_MACHINE, code_version, file_version, made_by_this_code, repeat_rows
from tiny_study import stable, study_text

TEXT = study_text("frequency", "an")
SOURCE = '''
"""About it."""
import os

def f(x: int) -> float:
    """Return twice x."""
    if x < 0:
        raise ValueError(f"no negative {x}")
    return 2.0 * x  # twice
'''


class Log(Observer):
    def __init__(self):
        self.cells, self.notices = [], []

    def on_cell(self, row, done, failed, total):
        self.cells.append(row["cell"])

    def on_notice(self, text):
        self.notices.append(text)


def run(folder, text=TEXT, **options):
    log = Log()
    run_study(parse_study(text), text, ResultsFolder(folder), jobs=1, observer=log, **options)
    return log


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run(folder)
    return folder


@pytest.fixture
def other_code(monkeypatch):
    """Let the code be another one, as after a change of a loss."""

    def change(*keys):
        before = provenance.code_version
        changed = lambda key: "0" * 16 if key in keys else before(key)  # noqa: E731
        monkeypatch.setattr(provenance, "code_version", changed)

    return change


@pytest.mark.parametrize(
    "change",
    [
        ('"""About it."""', '"""About something else."""'),
        ("import os", "import sys"),
        ("  # twice", ""),
        ("(x: int) -> float", "(x)"),
        ("no negative {x}", "expected x >= 0; got {x}"),
        ("2.0 * x", "(2.0\n            * x)"),
    ],
)
def test_what_changes_no_number_does_not_count(change):
    assert change[0] in SOURCE
    assert file_version(SOURCE.replace(*change)) == file_version(SOURCE)


@pytest.mark.parametrize("change", [("2.0 * x", "2.1 * x"), ("2.0 * x", "x * 2.0"), ("< 0", "<= 0"), ("f(", "g(")])
def test_what_may_change_a_number_counts(change):
    assert file_version(SOURCE.replace(*change)) != file_version(SOURCE)


@pytest.mark.parametrize(
    ("file", "concerned", "untouched"),
    [
        ("methods/logistic.py", {"logistic", "auto"}, {"an", "smile", "forest"}),
        ("methods/smile/_kernels.py", {"smile", "auto"}, {"an", "logistic"}),
        ("training/losses.py", {"an", "smile", "bce"}, {"frequency"}),
        ("rows/scaling.py", set(METHODS), set()),
        ("study/execute.py", set(METHODS), set()),
        ("datasets/_single_positive.py", set(METHODS), set()),
        ("pages/demo.py", set(), set(METHODS)),
    ],
)
def test_a_change_concerns_the_methods_that_use_it(file, concerned, untouched, monkeypatch):
    before = {key: code_version(key) for key in METHODS}
    path = Path(onepos.__file__).parent / file
    read_before = provenance._read

    def changed(one):
        version, imports = read_before(one)
        return (f"{version} changed" if one == path else version), imports

    monkeypatch.setattr(provenance, "_read", changed)
    now = {key: code_version.__wrapped__(key) for key in METHODS}
    different = {key for key in METHODS if now[key] != before[key]}
    assert concerned <= different
    assert not untouched & different


def test_rows_say_which_code_and_data_made_them(results):
    frame = load_results(results)
    assert frame["code"].tolist() == [code_version(key) for key in frame["key"]]
    assert frame["data"].nunique() == 1
    assert made_by_this_code(frame).all()
    assert not made_by_this_code(frame.drop(columns="code")).any()


def test_rows_of_other_code_are_kept_and_named_and_run_again_when_asked(tmp_path, results):
    run(tmp_path)
    rows = load_results(tmp_path).drop(columns=["study", "study_hash"]).to_dict("records")
    old = {row["cell"]: row for row in rows if row["key"] == "an"}
    for row in old.values():
        ResultsFolder(tmp_path).add({**row, "code": "f" * 16, "average_precision": 0.5})
    log = run(tmp_path)
    assert not log.cells
    assert [text for text in log.notices if "2 rows" in text and "--recompute" in text]
    said = CliRunner().invoke(commands(), ["bench", "status", str(tmp_path), "--json"])
    assert json.loads(said.stdout)["rows_of_other_code"] == 2
    assert sorted(run(tmp_path, recompute=True).cells) == sorted(old)
    assert stable(load_results(tmp_path)).equals(stable(load_results(results)))


def test_a_setting_that_other_code_chose_is_not_taken_over(tmp_path):
    """Trial 1 takes over the choice of trial 0, whose row is of other code: trial 0 runs first."""
    text = TEXT.replace("[common]", '[tuning]\nwhen = "first-trial"\neach_trial_below = 0\n[common]')
    assert any(cell.takes_over == 0 for cell in cells_of(parse_study(text)))
    run(tmp_path, text)
    before = load_results(tmp_path)
    wrong = json.dumps({"batch_size": 64, "learning_rate": 0.5, "max_epochs": 2})
    for row in before[before["key"] == "an"].drop(columns=["study", "study_hash"]).to_dict("records"):
        ResultsFolder(tmp_path).add({**row, "code": "f" * 16, "setting": wrong})
    assert len(run(tmp_path, text, recompute=True).cells) == 2
    assert stable(load_results(tmp_path)).equals(stable(before))


def test_a_sample_of_rows_is_repeated_to_the_bit(results):
    frame = load_results(results)
    plan = cells_of(parse_study(TEXT))
    made = repeat_rows(frame, plan, n=3, seed=1)
    assert len(made) == len({one.cell for one in made}) == 3
    assert all(one.holds for one in made)
    assert [one.cell for one in repeat_rows(frame, plan, n=3, seed=1)] == [one.cell for one in made]


@pytest.mark.parametrize(("shift", "here", "holds"), [(1e-6, True, False), (1e-6, False, True), (0.0102, False, False)])
def test_rows_that_do_not_repeat_are_found(results, shift, here, holds):
    """On the machine of the row every digit counts; elsewhere a change as large as one by other code is found."""
    frame = load_results(results)
    frame["ranking_loss"] += shift
    if not here:
        frame["machine"] = json.dumps({"system": "Linux", "processor": "another", "cores": 2})
    made = repeat_rows(frame, cells_of(parse_study(TEXT)), n=1, seed=0)[0]
    assert made.holds is holds
    assert (f"stored {made.metrics['ranking_loss'][0]:.6f}" in str(made)) is not holds
    assert set(made.metrics) == set(METRICS)
    assert made.tolerance == (provenance.SAME_MACHINE if here else OTHER_MACHINE)


def test_rows_of_other_code_and_slow_ones_are_not_repeated(results, other_code):
    frame = load_results(results)
    plan = cells_of(parse_study(TEXT))
    assert repeat_rows(frame, plan, n=9, seed=0, most_seconds=0.0) == []
    other_code("an")
    assert {one.cell for one in repeat_rows(frame, plan, n=9, seed=0)} == set(frame["cell"][frame["key"] != "an"])


def test_the_command_says_what_does_not_repeat(tmp_path):
    run(tmp_path, methods=("frequency",))
    said = CliRunner().invoke(commands(), ["bench", "verify", str(tmp_path), "--cells", "2"])
    assert (said.exit_code, "2 of 2 cells repeated" in said.stdout) == (0, True)
    row = load_results(tmp_path).drop(columns=["study", "study_hash"]).to_dict("records")[0]
    ResultsFolder(tmp_path).add({**row, "coverage": row["coverage"] + 0.01})
    said = CliRunner().invoke(commands(), ["bench", "verify", str(tmp_path), "--cells", "2"])
    assert (said.exit_code, f"not repeated: {row['cell']}: coverage" in said.stdout) == (1, True)


def test_a_data_file_replaced_between_runs_is_refused(tmp_path, monkeypatch, request):
    def forget():
        for cached in (cells.data_set, cells.load_trial, provenance.data_version):
            cached.cache_clear()

    def write(seed):
        data = make_known_posterior(120, 5, 4, random_state=seed)
        np.savez(tmp_path / "image.npz", X=data.X, Y=data.Y)
        forget()

    request.addfinalizer(forget)  # later tests of this process read the real data set
    monkeypatch.setattr(cells, "load_dataset", lambda name: Bunch(**vars(read(tmp_path / f"{name}.npz"))))
    text = study_text("frequency", "an").replace("known-posterior", "image")
    write(seed=0)
    run(tmp_path / "out", text, methods=("frequency",))
    before = load_results(tmp_path / "out")
    write(seed=1)
    with pytest.raises(StudyError, match=r"the data set image has changed: .* Put the old data back"):
        run(tmp_path / "out", text)
    assert run(tmp_path / "out", text, methods=("frequency",)).cells == []  # nothing is run on the other data
    assert load_results(tmp_path / "out").equals(before)
    write(seed=0)
    assert len(run(tmp_path / "out", text).cells) == 2
