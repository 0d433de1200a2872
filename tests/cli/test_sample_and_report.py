"""``fit --sample``, ``--budget``, ``--report`` end to end, and what goes wrong with them in one line."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import onepos
from onepos import LogisticClassifier
from onepos._utils.context import time_left
from onepos.table import TableModel
from photo_table import photo_table

COLUMNS = ("--label", "tag", "--text", "caption", "--id", "id")
FAST = ("--method", "logistic", "--set", "l2=1.0")
ALL_TAGS = ("--sample-label", "tags")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """photos.csv with one tag per row; sample.csv and checked.csv with all tags."""
    folder = tmp_path_factory.mktemp("photos")
    photo_table().drop(columns="tags").to_csv(folder / "photos.csv", index=False)
    photo_table(60, seed=1).drop(columns="tag").assign(id=lambda rows: "new " + rows["id"]).to_csv(
        folder / "sample.csv", index=False
    )
    photo_table(80, seed=2).drop(columns="tag").to_csv(folder / "checked.csv", index=False)
    return folder


def test_a_sample_calibrates(run, folder, tmp_path):
    plain, better = tmp_path / "plain.onepos", tmp_path / "better.onepos"
    assert run("fit", folder / "photos.csv", *COLUMNS, *FAST, "--out", plain)[0] == 0
    sample = ("--sample", folder / "sample.csv", *ALL_TAGS)
    code, said, _ = run("fit", folder / "photos.csv", *COLUMNS, *FAST, *sample, "--out", better)
    assert code == 0
    assert "On 60 rows with" in said
    mean = pd.read_csv(folder / "sample.csv")["tags"].str.count(";").add(1).mean()
    assert f"Sets have {mean:.2f}" in said
    checked = pd.read_csv(folder / "checked.csv")
    truth = checked["tags"].str.get_dummies(";").to_numpy()
    losses = []
    for path in (plain, better):
        p = np.clip(onepos.load(path).predict_proba(checked).to_numpy(), 1e-12, 1 - 1e-12)
        losses.append(-np.mean(np.where(truth > 0, np.log(p), np.log(1 - p))))
    assert losses[1] < losses[0]
    # The same as by hand on the same model.
    by_hand, rows = TableModel.load(plain), pd.read_csv(folder / "sample.csv")
    by_hand.calibrate(rows, rows["tags"].str.get_dummies(";"))
    assert np.array_equal(by_hand.predict_proba(checked), onepos.load(better).predict_proba(checked))
    said = run("fit", folder / "photos.csv", *COLUMNS, *FAST, *sample, "--n-positives", 1.5, "--out", plain)[1]
    assert "Sets have 1.50; 1.5 were asked for" in said
    facts = json.loads(run("fit", folder / "photos.csv", *COLUMNS, *FAST, *sample, "--out", better, "--json")[1])
    assert facts["calibration"]["expected_after"] == pytest.approx(facts["calibration"]["labels_per_row"], abs=0.05)


def test_tags_of_rows_of_the_sample_are_not_trained_on(run, folder, tmp_path):
    photos, sample = pd.read_csv(folder / "photos.csv"), pd.read_csv(folder / "sample.csv")
    inside = photos.index[photos["tag"].notna()][:30]
    both = photos.loc[inside].drop(columns="tag").assign(tags="beach;night")
    pd.concat([sample, both]).to_csv(tmp_path / "both.csv", index=False)
    photos.assign(tag=photos["tag"].mask(photos.index.isin(inside))).to_csv(tmp_path / "fewer.csv", index=False)
    models = []
    for table in (folder / "photos.csv", tmp_path / "fewer.csv"):
        models.append(tmp_path / f"{table.stem}.onepos")
        code, said, _ = run(
            "fit", table, *COLUMNS, *FAST, "--sample", tmp_path / "both.csv", *ALL_TAGS, "--out", models[-1]
        )
        assert code == 0
        assert "tags of 30 rows are left out of training, as both.csv has these rows" in " ".join(said.split())
    first, second = (onepos.load(path).predict_proba(photos) for path in models)
    assert np.array_equal(first, second)


def test_a_sample_of_0_1_columns(run, folder, tmp_path):
    table = photo_table()
    one = pd.get_dummies(table["tag"]).astype(int)
    pd.concat([table[["light", "caption"]], one], axis=1).to_parquet(tmp_path / "one.parquet")
    full = photo_table(60, seed=1)
    pd.concat([full[["light", "caption"]], full["tags"].str.get_dummies(";")], axis=1).to_parquet(tmp_path / "full.pq")
    code, said, _ = run(
        "fit", tmp_path / "one.parquet", "--labels", "beach,city,night", "--text", "caption", *FAST,
        "--sample", tmp_path / "full.pq", "--out", tmp_path / "m", "--report", tmp_path / "m.html",
    )  # fmt: skip
    assert code == 0
    assert "On 60 rows" in said
    assert (tmp_path / "m.html").is_file()


def test_evaluate_writes_a_report(run, folder, tmp_path):
    assert run("fit", folder / "photos.csv", *COLUMNS, *FAST, "--out", tmp_path / "m")[0] == 0
    arguments = ("evaluate", tmp_path / "m", folder / "checked.csv", "--label", "tags", "--separator", ";")
    code, said, _ = run(*arguments, "--report", tmp_path / "deep" / "r.html")
    assert code == 0
    assert f"Report: {tmp_path / 'deep' / 'r.html'}" in said
    page = (tmp_path / "deep" / "r.html").read_text(encoding="utf-8")
    assert "Most confident mistakes" in page
    code, said, _ = run(
        "evaluate", tmp_path / "m", folder / "photos.csv", "--label", "tag", "--report", tmp_path / "o.html", "--json"
    )
    assert json.loads(said)["report"] == str(tmp_path / "o.html")
    assert "What the doctor finds" in (tmp_path / "o.html").read_text(encoding="utf-8")


def test_without_a_method_auto_combines_some_and_says_which(run, folder, tmp_path):
    few = ("--set", "n_members=3", "--set", "n_folds=2")
    code, said, err = run("fit", folder / "photos.csv", *COLUMNS, *few, "--out", tmp_path / "m", "--json")
    assert code == 0, err
    assert [record["method"] for record in json.loads(said)["members"]] == ["frequency", "logistic", "forest"]
    assert {type(member).__name__ for member in TableModel.load(tmp_path / "m").estimator_.members_} <= {
        "FrequencyClassifier",
        "LogisticClassifier",
        "ForestClassifier",
    }


def test_a_budget_that_runs_out_at_once_leaves_auto_its_two_baselines(run, folder, tmp_path, monkeypatch):
    left, fit = [], LogisticClassifier.fit
    monkeypatch.setattr(LogisticClassifier, "fit", lambda *a, **k: left.append(time_left()) or fit(*a, **k))
    code, said, err = run("fit", folder / "photos.csv", *COLUMNS, "--budget", "1e-6", "--out", tmp_path / "m")
    assert code == 0, err
    assert left[0] > 0  # else it would be a constant model, and the features would seem to say nothing
    assert "trained     auto" in said
    assert re.search(r"weights: (frequency|logistic) \d+%", said)
    assert "time was up after 2 members." in said


def test_a_budget_limits_other_methods_too(run, folder, tmp_path, monkeypatch):
    left, fit = [], LogisticClassifier.fit
    monkeypatch.setattr(LogisticClassifier, "fit", lambda *a, **k: left.append(time_left()) or fit(*a, **k))
    fast = ("--method", "logistic", "--budget", "3000", "--out", tmp_path / "m")
    code, _, err = run("fit", folder / "photos.csv", *COLUMNS, *fast)
    assert code == 0, err
    assert 0 < left[0] < 3000


FIT = ("fit", "{folder}/photos.csv", *COLUMNS, "--out", "{tmp}/m", *FAST)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*FIT[: -len(FAST)], "--budget", "-1"), "seconds above 0"),
        ((*FIT, "--method", "frequency", "--set", "l2=1"), "no setting 'l2'"),
        ((*FIT, "--sample", "{tmp}/nosuch.csv"), "no such file"),
        ((*FIT, "--sample-label", "tags"), "give that too"),
        ((*FIT, "--sample", "{folder}/sample.csv"), "no column 'tag'"),
        ((*FIT, "--sample", "{folder}/sample.csv", "--sample-label", "nosuch"), "no column 'nosuch'"),
        ((*FIT, "--sample", "{few}", *ALL_TAGS), "at least 10 rows"),
        ((*FIT, "--report", "{folder}"), "is a folder"),
        (
            ("complete", "{folder}/photos.csv", "--model", "{tmp}/m", "--seed", "1", "--out", "{tmp}/c.csv"),
            "leave one of them",
        ),
    ],
)
def test_every_mistake_is_one_line_and_exit_code_2(run, folder, tmp_path, tmp_path_factory, arguments, words):
    few = tmp_path_factory.mktemp("few") / "few.csv"
    photo_table(6).drop(columns="tag").to_csv(few, index=False)
    code, said, err = run(*(part.format(folder=folder, tmp=tmp_path, few=few) for part in arguments))
    assert (code, said) == (2, "")
    assert err.splitlines()[-1].startswith("onepos: ")
    assert "Traceback" not in err
    assert words in err
    assert not list(tmp_path.iterdir())
