"""A study with the user's own data files and a method from a package outside this repository."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

import onepos
from onepos.cli import commands
from onepos.datasets import make_known_posterior, make_single_positive
from onepos.methods.registry import get_method, key_of
from onepos.metrics import average_precision
from onepos.testing import check_onepos_estimator
from onepos_studies.exceptions import StudyError
from onepos_studies.study import ResultsFolder, cells_of, load_results, read_study, run_study
from onepos_studies.study.cells import Source, data_set, load_trial
from onepos_studies.study.report import report_study

METHOD = '''
from dataclasses import dataclass

import numpy as np
from onepos.methods.frequency import FrequencyClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class PlainClassifier(FrequencyClassifier):
    """The same under another name."""


@dataclass(kw_only=True, eq=False, repr=False)
class ReversedClassifier(FrequencyClassifier):
    """Rank rare labels first."""

    def predict_proba(self, X):
        return 1 - super().predict_proba(X)
'''

STUDY = """
[study]
name = "own"
trials = 2
[[data]]
file = "films.csv"
read = {{ label = "genres", separator = ";", text = ["plot"], drop = ["id"] }}
[[method]]
key = "frequency"
[[method]]
key = "{key}"
name = "rare-first"
[[method]]
key = "logistic"
"""


@pytest.fixture
def films():
    """120 films whose plots name their genres, with one to three genres each."""
    rng = np.random.default_rng(0)
    genres = np.array(["Comedy", "Drama", "Horror", "War"])
    chosen = [
        genres[sorted(rng.choice(4, size=rng.integers(1, 4), replace=False, p=[0.4, 0.3, 0.2, 0.1]))]
        for _ in range(120)
    ]
    plots = [" ".join(f"{word.lower()}s film{rng.integers(5)}" for word in row) for row in chosen]
    year = rng.integers(1950, 2020, 120)
    return pd.DataFrame(
        {"id": np.arange(120), "plot": plots, "year": year, "genres": [";".join(row) for row in chosen]}
    )


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a third party, installed with an entry point."""
    folder = tmp_path / "site"
    (folder / "outsiders").mkdir(parents=True)
    (folder / "outsiders" / "__init__.py").write_text("")
    (folder / "outsiders" / "rare.py").write_text(METHOD)
    (folder / "outsiders-1.0.dist-info").mkdir()
    (folder / "outsiders-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: outsiders\nVersion: 1.0\n"
    )
    points = (
        "[onepos.methods]\nrare-first = outsiders.rare:ReversedClassifier\nplain = outsiders.rare:PlainClassifier\n"
    )
    (folder / "outsiders-1.0.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield folder
    for name in [name for name in sys.modules if name.startswith("outsiders")]:
        del sys.modules[name]


def write_study(folder, key="outsiders.rare:ReversedClassifier", text=STUDY):
    (folder / "own.toml").write_text(text.format(key=key))
    return folder / "own.toml"


@pytest.mark.parametrize("key", ["outsiders.rare:ReversedClassifier", "rare-first"])
def test_it_runs_resumes_and_reports(films, package, tmp_path, key, monkeypatch):
    films.to_csv(tmp_path / "films.csv", index=False)
    path, out = write_study(tmp_path, key), tmp_path / "out"
    first = CliRunner().invoke(
        commands(), ["bench", "run", str(path), "--out", str(out), "--jobs", "1", "--methods", "frequency"]
    )
    assert first.exit_code == 0, first.output
    assert len(load_results(out)) == 2
    monkeypatch.chdir(tmp_path / "site")  # the folder knows where the file is, wherever the command is given
    before = {file: file.stat().st_mtime_ns for file in (out / "rows").iterdir()}
    second = CliRunner().invoke(commands(), ["bench", "run", str(path), "--out", str(out), "--jobs", "1", "--json"])
    assert json.loads(second.stdout)["done"] == 6, second.output
    assert all(file.stat().st_mtime_ns == time for file, time in before.items())
    frame = load_results(out)
    assert (frame["status"] == "ok").all()
    means = frame.groupby("method")["average_precision"].mean()
    assert means["rare-first"] < means["frequency"] < means["logistic"]
    status = CliRunner().invoke(commands(), ["bench", "status", str(out), "--json"])
    assert json.loads(status.stdout)["total"] == 6
    page = report_study(out).read_text(encoding="utf-8")
    assert "rare-first" in page
    assert "films" in page
    compared = CliRunner().invoke(commands(), ["bench", "compare", str(out)])
    assert compared.exit_code == 0
    assert "nothing published to compare with" in compared.output


def test_the_table_is_encoded_by_training_rows_and_tested_on_all_labels(films, tmp_path):
    films.to_csv(tmp_path / "films.csv", index=False)
    study, _ = read_study(write_study(tmp_path, "frequency", STUDY.replace('name = "rare-first"', 'name = "again"')))
    trial = cells_of(study)[0].load_trial()
    assert not trial.one_tag
    assert trial.X_train.shape[0] == 96
    assert (trial.observed.sum(axis=1) == 1).all()
    assert (trial.observed <= trial.Y_train).all()
    assert trial.Y_test.sum(axis=1).max() > 1
    labels = films["genres"].str.get_dummies(";")
    np.testing.assert_array_equal(
        np.sort(labels.sum(axis=1)),
        np.sort(np.concatenate([part.sum(axis=1) for part in (trial.Y_train, trial.Y_val, trial.Y_test)])),
    )


def test_another_file_makes_other_cells_and_moving_it_does_not(films, tmp_path):
    films.to_csv(tmp_path / "films.csv", index=False)
    path = write_study(tmp_path, "frequency", STUDY.replace('name = "rare-first"', 'name = "again"'))
    before = [cell.id for cell in cells_of(read_study(path)[0])]
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "films.csv").rename(moved / "films.csv")
    with pytest.raises(StudyError, match="no data file"):
        read_study(path)
    path = path.rename(moved / "own.toml")
    study, text = read_study(path)
    assert [cell.id for cell in cells_of(study)] == before
    folder = ResultsFolder(tmp_path / "out")
    folder.prepare(study, text)
    films.iloc[:-1].to_csv(moved / "films.csv", index=False)
    assert [cell.id for cell in cells_of(folder.study())] == before  # a report needs no data
    done, failed = run_study(study, text, folder, jobs=1, methods=("frequency",))
    assert (done, failed) == (0, 2)
    assert load_results(folder.path)["error"].str.contains("has changed since the study was started").all()
    assert not set(before) & {cell.id for cell in cells_of(read_study(path)[0])}
    pinned = path.read_text().replace('file = "films.csv"', f'file = "films.csv"\nsha256 = "{study.data[0].sha256}"')
    path.write_text(pinned)
    with pytest.raises(StudyError, match="another file than the study names"):
        read_study(path)


def test_one_tag_per_row_is_tested_by_the_rank_of_the_held_out_tag(films, tmp_path):
    films["genres"] = films["genres"].str.partition(";")[0]
    films.to_csv(tmp_path / "films.csv", index=False)
    text = STUDY.replace("trials = 2", 'trials = 1\nrules = ["clean", "single-positive"]')
    text = text.replace('name = "rare-first"', 'name = "full"')
    study, text = read_study(write_study(tmp_path, "bce", text))
    folder = ResultsFolder(tmp_path / "out")
    run_study(study, text, folder, jobs=1)
    frame = load_results(folder.path).set_index(["method", "selection"])
    refused = frame[frame["status"] == "failed"]
    assert set(refused.index) == {
        ("frequency", "clean"),
        ("full", "clean"),
        ("logistic", "clean"),
        ("full", "single-positive"),
    }
    assert refused["error"].str.contains("one tag per row").all()
    row = frame.loc[("frequency", "single-positive")]
    trial = cells_of(study)[1].load_trial()
    counts = trial.observed.sum(axis=0).astype(float)
    ranks = [
        1 + np.sum(counts > counts[tag]) + np.sum(counts == counts[tag]) - 1 for tag in trial.Y_test.argmax(axis=1)
    ]
    assert row["average_precision"] == pytest.approx(np.mean(1 / np.array(ranks)))
    assert np.isnan(row["hamming_loss"])
    assert "films" in report_study(folder.path).read_text(encoding="utf-8")


def test_matrix_files_are_read_as_they_are(tmp_path):
    data = make_known_posterior(60, 4, 3, random_state=0)
    np.savez(tmp_path / "a.npz", X=data.X, Y=data.Y)
    savemat(tmp_path / "a.mat", {"X": data.X, "Y": data.Y})
    attributes = "".join(f"@attribute f{j} numeric\n" for j in range(4)) + "".join(
        f"@attribute l{j} {{0,1}}\n" for j in range(3)
    )
    rows = "".join(",".join(map(str, [*x, *y])) + "\n" for x, y in zip(data.X.tolist(), data.Y, strict=True))
    (tmp_path / "a.arff").write_text(f"@relation r\n{attributes}@data\n{rows}")
    names = [f"f{j}" for j in range(4)] + [f"l{j}" for j in range(3)]
    pd.DataFrame(np.hstack([data.X, data.Y]), columns=names).to_parquet(tmp_path / "a.parquet")
    for file, read in (
        ("a.npz", {}),
        ("a.mat", {}),
        ("a.arff", {"labels": 3}),
        ("a.parquet", {"labels": ["l0", "l1", "l2"]}),
    ):
        source = Source("a", str(tmp_path / file), _sha256(tmp_path / file), json.dumps(read))
        found = data_set(source)
        X = found.X.toarray() if hasattr(found.X, "toarray") else np.asarray(found.X)
        np.testing.assert_allclose(X, data.X, rtol=1e-6, err_msg=file)
        np.testing.assert_array_equal(found.Y, data.Y, err_msg=file)


def _sha256(path: Path) -> str:
    from onepos_studies.datasets._fetch import sha256_of

    return sha256_of(path)


def test_positive_rules_draw_as_the_generator_does():
    data = make_known_posterior(1000, 10, 8, random_state=0)
    arguments = ("known-posterior", 0, 0, (0.8, 0.1, 0.1))
    uniform, frequent, evident = (load_trial(*arguments, rule, 1.0) for rule in ("uniform", "frequency", "dominance"))
    expected = make_single_positive(frequent.Y_train, selection="frequency", random_state=1000)
    np.testing.assert_array_equal(frequent.observed, expected)
    np.testing.assert_array_equal(frequent.Y_test, uniform.Y_test)
    # A linear model of complete labels ranks the observed label higher if labels are observed by dominance.
    scores = evident.X_train @ data.weights.T + data.intercepts
    assert average_precision(evident.observed, scores) > average_precision(uniform.observed, scores) + 0.05


def test_a_registered_method_is_known_everywhere(films, package, tmp_path):
    films.to_csv(tmp_path / "films.csv", index=False)
    assert onepos.list_methods().loc["rare-first", "name"] == "ReversedClassifier"
    assert key_of(onepos.make_classifier("rare-first")) == "rare-first"
    model = tmp_path / "films.onepos"
    arguments = ["fit", str(tmp_path / "films.csv"), "--label", "genres", "--separator", ";", "--method", "rare-first"]
    fitted = CliRunner().invoke(commands(), [*arguments, "--out", str(model)])
    assert fitted.exit_code == 0, fitted.output
    proba = onepos.load(model).predict_proba(films.drop(columns="genres")).iloc[0]
    assert proba["War"] > proba["Comedy"]


def test_a_registered_method_passes_all_checks_files_included(package):
    check_onepos_estimator(onepos.make_classifier("plain"))
    with pytest.raises(AssertionError, match="check_"):
        check_onepos_estimator(get_method("outsiders.rare:ReversedClassifier").load_class()())


def test_a_method_in_the_working_folder_and_its_results_without_it(films, tmp_path, monkeypatch):
    """The study runs where the method's file is; its finished results can be read anywhere, in words of one's own."""
    films.to_csv(tmp_path / "films.csv", index=False)
    (tmp_path / "in_this_folder.py").write_text(METHOD)
    text = STUDY.replace("trials = 2", 'trials = 2\nrules = ["single-positive"]')
    write_study(tmp_path, "in_this_folder:ReversedClassifier", text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def bench(*arguments):
        done = CliRunner().invoke(commands(), ["bench", *map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done.output

    bench("run", "own.toml", "--out", "out", "--jobs", "1")
    (tmp_path / "in_this_folder.py").unlink()
    del sys.modules["in_this_folder"]
    get_method.__globals__["_elsewhere"].cache_clear()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "6 of 6 cells done" in bench("status", "../out")
    table = bench("table", "../out", "--format", "markdown")
    assert "rare-first" in table
    assert "single-positive validation labels" in table
    assert "paper" not in table.lower()
    bench("report", "../out", "--out", "page.html")
    assert (
        "paper" not in (tmp_path / "elsewhere" / "page.html").read_text(encoding="utf-8").lower().partition("<style")[0]
    )


def test_the_study_that_the_docs_show(films, tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")
    shown = page.partition("    [study]")[2].partition("\n\n`onepos bench report")[0]
    text = "\n".join(line.strip() for line in f"[study]{shown}".splitlines())
    assert "trials = 5" in text
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(text.replace("trials = 5", "trials = 1"))
    films.to_csv("movies.csv", index=False)
    for command in (
        ["run", "mine.toml", "--out", "results/mine", "--jobs", "1", "--methods", "frequency,logistic"],
        ["report", "results/mine"],
        ["table", "results/mine", "--selection", "single-positive"],
    ):
        done = CliRunner().invoke(commands(), ["bench", *command])
        assert done.exit_code == 0, done.output
    assert "frequency" in done.output.lower()
