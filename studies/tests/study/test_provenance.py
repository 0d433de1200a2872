"""Rows belong to revisions of their method and of the protocol, and to their data; a sample of them is run again."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils import Bunch

from onepos.datasets import make_known_posterior
from onepos.methods.registry import METHODS
from onepos.metrics import METRICS
from onepos_studies.datasets import read
from onepos_studies.exceptions import StudyError
from onepos_studies.study import (
    ResultsFolder,
    cells,
    cells_of,
    load_results,
    parse_study,
    provenance,
    run_study,
)
from onepos_studies.study.provenance import is_current
from onepos_studies.study.repetition import OTHER_MACHINE, SAME_MACHINE, repeat_rows, sample
from tiny_study import stable, study_text

ROOT = Path(__file__).parents[3]
TEXT = study_text("frequency", "an")


def execute(folder, text=TEXT, **options):
    """Return the lines of a run but the first: one per cell, and notices."""
    lines = []
    run_study(parse_study(text), text, ResultsFolder(folder), jobs=1, log=lines.append, **options)
    return lines[1:]


def rows_of(folder, key):
    """The rows of a method as they are stored, by cell."""
    rows = load_results(folder).drop(columns=["study", "study_hash"]).to_dict("records")
    return {row["cell"]: row for row in rows if row["key"] == key}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    execute(folder)
    return folder


@pytest.fixture
def plans():
    return {"tiny": cells_of(parse_study(TEXT))}


COUNT = """
import sys
from pathlib import Path
import onepos, onepos_studies
from onepos_studies.study import cells_of, load_results, read_study
from onepos_studies.study.provenance import is_current
assert onepos.__file__.startswith(sys.argv[1]) and onepos_studies.__file__.startswith(sys.argv[1])
rows = valid = 0
for file in sorted(Path(sys.argv[2]).glob("*.parquet")):
    frame = load_results(file)
    planned = {cell.id for cell in cells_of(read_study(frame["study"].iloc[0])[0])}
    rows, valid = rows + len(frame), valid + int((is_current(frame) & frame["cell"].isin(planned)).sum())
print(valid, "of", rows)
"""
NEW_METHOD = """

[method.hill-2]
name = "Hill, another"
class = "HillClassifier"
paper = "zhang"
assumptions = "none"
revision = 1
preset = { height = 2.0 }
"""


#: Changes of the library that move no number, each with what it replaces.
HARMLESS = {
    "_utils/progress.py": ("_BAR * share", "2 * _BAR * share"),
    "graph/approximate.py": ("\n_TRAINING_ROWS = ", "\n_TRAINING_ROWS = 1 + "),
    "training/loop.py": ("_exchange_state", "_exchange_all_state"),
    "training/checkpoint.py": ("\nFORMAT_VERSION = ", "\nFORMAT_VERSION = 1 + "),
    "pages/templates/tables.css": ("figcaption {", "figcaption { text-align: center;"),
    "metrics.py": ('\n    "hamming_loss": ', '\n    "new_measure": "New measure",\n    "hamming_loss": '),
    "methods/methods.toml": ("\n[method.hill]", f"{NEW_METHOD}\n[method.hill]"),
}


def test_rows_stay_valid_if_no_method_has_another_revision(tmp_path):
    """The width of the progress bar, a constant of the graph search, a private name, formats, captions, a new measure
    and a new method leave all committed rows valid, but those of methods whose revision was raised since."""
    for source in (ROOT / "src" / "onepos", ROOT / "studies" / "src" / "onepos_studies"):
        shutil.copytree(source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (before, after) in HARMLESS.items():
        path = tmp_path / "onepos" / file
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, after), encoding="utf-8")
    command = [sys.executable, "-c", COUNT, str(tmp_path), str(ROOT / "studies" / "rows")]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    raised = {key for key, method in METHODS.items() if method.revision > 1}
    stale = sum(
        int(load_results(file)["key"].isin(raised).sum()) for file in (ROOT / "studies" / "rows").glob("*.parquet")
    )
    assert done.stdout.strip() == f"{2450 - stale} of 2450", done.stderr


def test_rows_say_what_they_belong_to(results):
    frame = load_results(results)
    assert (frame["protocol"] == 1).all()
    assert (frame["revision"] == frame["key"].map(lambda key: METHODS[key].revision)).all()
    assert frame["data"].nunique() == 1
    assert is_current(frame).all()
    setting = json.loads(frame[frame["key"] == "an"]["parameters"].iloc[0])
    assert (setting["max_epochs"], setting["weight_decay"]) == (2, 0.0)  # a default, too
    assert not setting.keys() & {"random_state", "verbose"}


def test_a_raised_revision_concerns_the_rows_of_its_method_alone(results, monkeypatch):
    monkeypatch.setitem(METHODS, "an", replace(METHODS["an"], revision=METHODS["an"].revision + 1))
    frame = load_results(results)
    assert (is_current(frame) == (frame["key"] != "an")).all()
    monkeypatch.setattr(provenance, "PROTOCOL", 2)
    assert not is_current(frame).any()
    assert not is_current(frame.assign(key="of a package that is gone")).any()


def test_stale_rows_are_kept_and_named_and_run_again_when_asked(tmp_path, results, run):
    execute(tmp_path)
    old = rows_of(tmp_path, "an")
    for row in old.values():
        ResultsFolder(tmp_path).add({**row, "revision": 0, "average_precision": 0.5})
    (notice,) = execute(tmp_path)
    assert notice.startswith("2 rows")
    assert "--recompute" in notice
    assert json.loads(run("bench", "status", tmp_path, "--json")[1])["rows_of_other_revisions"] == 2
    assert len(execute(tmp_path, recompute=True)) == 2
    assert stable(load_results(tmp_path)).equals(stable(load_results(results)))


def test_a_setting_that_a_stale_row_chose_is_not_taken_over(tmp_path):
    """Trial 1 takes over the choice of trial 0, whose row is stale: trial 0 runs first."""
    text = TEXT.replace("[common]", '[tuning]\nwhen = "first-trial"\neach_trial_below = 0\n[common]')
    assert any(cell.takes_over == 0 for cell in cells_of(parse_study(text)))
    execute(tmp_path, text)
    before = load_results(tmp_path)
    wrong = json.dumps({"batch_size": 64, "learning_rate": 0.5, "max_epochs": 2})
    for row in rows_of(tmp_path, "an").values():
        ResultsFolder(tmp_path).add({**row, "revision": 0, "setting": wrong})
    assert len(execute(tmp_path, text, recompute=True)) == 2
    assert stable(load_results(tmp_path)).equals(stable(before))


def test_a_sample_of_rows_is_repeated_to_the_bit(results, plans):
    rows = sample(load_results(results), 3, seed=1)
    assert rows["cell"].nunique() == 3
    assert rows["key"].nunique() == 2
    assert rows["seconds"].is_monotonic_increasing
    assert [one.holds for one in repeat_rows(rows, plans)] == [True] * 3


@pytest.mark.parametrize(("shift", "here", "holds"), [(1e-6, True, False), (1e-6, False, True), (0.0102, False, False)])
def test_rows_that_do_not_repeat_are_found(results, plans, shift, here, holds):
    """On the machine of the row every digit counts; elsewhere a larger change is found."""
    frame = load_results(results)
    frame["ranking_loss"] += shift
    if not here:
        frame["machine"] = json.dumps({"system": "Linux", "processor": "another", "cores": 2})
    made = repeat_rows(frame[:1], plans)[0]
    assert made.holds is holds
    assert (f"stored {made.measures['ranking_loss'][0]:.6f}" in str(made)) is not holds
    assert set(made.measures) == set(METRICS)
    assert made.tolerance == (SAME_MACHINE if here else OTHER_MACHINE)


def test_stale_and_slow_rows_are_no_part_of_a_sample(results, monkeypatch):
    frame = load_results(results)
    assert sample(frame, 9, most_seconds=0.0).empty
    monkeypatch.setitem(METHODS, "an", replace(METHODS["an"], revision=METHODS["an"].revision + 1))
    assert set(sample(frame, 9)["key"]) == {"frequency"}


def test_the_command_says_what_does_not_repeat(tmp_path, run):
    execute(tmp_path, methods=("frequency",))
    code, said, _ = run("bench", "verify", tmp_path, "--cells", "2")
    assert (code, "2 of 2 cells repeated" in said) == (0, True)
    row = next(iter(rows_of(tmp_path, "frequency").values()))
    ResultsFolder(tmp_path).add({**row, "coverage": row["coverage"] + 0.01})
    code, said, _ = run("bench", "verify", tmp_path, "--cells", "2")
    assert (code, f"not repeated: {row['cell']}: coverage" in said) == (1, True)


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
    execute(tmp_path / "out", text, methods=("frequency",))
    before = load_results(tmp_path / "out")
    write(seed=1)
    with pytest.raises(StudyError, match=r"the data set image has changed: .* Put the old data back"):
        execute(tmp_path / "out", text)
    assert execute(tmp_path / "out", text, methods=("frequency",)) == []  # nothing is run on the other data
    assert load_results(tmp_path / "out").equals(before)
    write(seed=0)
    assert len(execute(tmp_path / "out", text)) == 2
