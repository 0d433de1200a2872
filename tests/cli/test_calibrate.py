"""``onepos calibrate`` and ``onepos check-tags`` end to end."""

import json

import numpy as np
import pandas as pd
import pytest

import onepos
from photo_table import photo_table

COLUMNS = ("--label", "tag", "--text", "caption", "--id", "id", "--method", "logistic", "--set", "l2=1.0")


@pytest.fixture
def folder(tmp_path, run):
    folder = tmp_path / "photos"
    folder.mkdir()
    photo_table().drop(columns="tags").to_csv(folder / "photos.csv", index=False)
    photo_table(60, seed=1).drop(columns="tag").assign(id=lambda rows: "new " + rows["id"]).to_csv(
        folder / "sample.csv", index=False
    )
    assert run("fit", folder / "photos.csv", *COLUMNS, "--out", folder / "m")[0] == 0
    return folder


def test_the_same_as_a_fit_with_a_sample(run, folder, tmp_path):
    at_once = tmp_path / "at_once"
    sample = folder / "sample.csv"
    run("fit", folder / "photos.csv", *COLUMNS, "--sample", sample, "--sample-label", "tags", "--out", at_once)
    code, said, _ = run("calibrate", folder / "m", sample, "--label", "tags", "--out", tmp_path / "later")
    assert code == 0
    assert "Corrected on 60 rows" in said
    rows = pd.read_csv(sample)
    one, other = onepos.load(at_once), onepos.load(tmp_path / "later")
    assert np.array_equal(one.predict_proba(rows), other.predict_proba(rows))
    assert np.array_equal(one.predict(rows), other.predict(rows))
    assert not hasattr(onepos.load(folder / "m").estimator_, "calibration_")
    # Without --out the model is replaced, and its correction too.
    assert run("calibrate", tmp_path / "later", sample, "--label", "tags", "--cut", "half")[0] == 0
    halved = onepos.load(tmp_path / "later")
    assert set(halved.thresholds_) == {0.5}
    assert np.array_equal(one.predict_proba(rows), halved.predict_proba(rows))


def test_tags_are_checked(run, folder):
    arguments = ("check-tags", folder / "m", folder / "sample.csv", "--label", "tags")
    code, said, _ = run(*arguments)
    assert code == 0
    assert "60 rows have" in said
    assert "tags if even" in said
    found = json.loads(run(*arguments, "--json")[1])
    assert {one["label"] for one in found["labels"]} == {"beach", "city", "night"}
    assert 0 < found["p_value"] <= 1
    assert found["before"]["f1"]["low"] <= found["before"]["f1"]["mean"] <= found["before"]["f1"]["high"]


def test_a_number_of_labels_that_was_given_wins(run, folder, tmp_path):
    run("fit", folder / "photos.csv", *COLUMNS, "--n-positives", "2.5", "--out", tmp_path / "m")
    sample = (folder / "sample.csv", "--label", "tags")
    assert "sets have 2.50" in run("calibrate", tmp_path / "m", *sample, "--out", tmp_path / "n")[1]
    found = json.loads(run("check-tags", tmp_path / "m", *sample, "--json")[1])
    plain = json.loads(run("check-tags", folder / "m", *sample, "--json")[1])
    assert found["after"]["recall"]["mean"] > plain["after"]["recall"]["mean"]


def test_sets_with_a_promise(run, folder, tmp_path):
    sample = (folder / "sample.csv", "--label", "tags")
    code, said, _ = run("calibrate", folder / "m", *sample, "--precision", "0.6", "--out", tmp_path / "n")
    assert code == 0
    assert "at least 60% of the suggested tags are right" in said
    model = onepos.load(tmp_path / "n")
    assert not model.at_least_one_
    rows = ("--sample", folder / "sample.csv", "--sample-label", "tags", "--precision", "0.6")
    assert run("fit", folder / "photos.csv", *COLUMNS, *rows, "--out", tmp_path / "at_once")[0] == 0
    assert onepos.load(tmp_path / "at_once").thresholds_ == model.thresholds_
    code, _, err = run("calibrate", folder / "m", *sample, "--recall", "0.999", "--out", tmp_path / "n")
    assert code == 2
    assert "too few to promise a recall of 0.999" in err
    code, _, err = run("fit", folder / "photos.csv", *COLUMNS, "--recall", "0.9", "--out", tmp_path / "n")
    assert code == 2
    assert "--sample" in err


def test_rows_to_complete(run, folder, tmp_path):
    new, out = folder / "sample.csv", tmp_path / "ask.csv"
    code, said, _ = run("ask", folder / "m", new, "--n", "25", "--out", out)
    assert code == 0
    assert "25 of 60 rows" in said
    drawn, table = pd.read_csv(out), pd.read_csv(new)
    assert drawn["all_tags"].isna().all()
    pd.testing.assert_frame_equal(
        drawn.drop(columns="all_tags"), table[table["id"].isin(drawn["id"])].reset_index(drop=True)
    )
    drawn.assign(all_tags=drawn["tags"]).to_csv(out, index=False)
    assert run("check-tags", folder / "m", out, "--label", "all_tags")[0] == 0
    again = tmp_path / "again.csv"
    run("ask", folder / "m", new, "--n", "25", "--seed", "1", "--out", again)
    assert set(pd.read_csv(again)["id"]) != set(drawn["id"])
    code, _, err = run("ask", folder / "m", new, "--n", "61", "--out", again)
    assert code == 2
    assert "60 rows, fewer than --n 61" in err


def test_known_shares_stand_in_for_complete_rows(run, folder, tmp_path):
    shares, out = {"beach": 0.5, "city": 0.3, "night": 0.7}, tmp_path / "n"
    table = pd.DataFrame({"label": list(shares), "share": list(shares.values())})
    table.to_csv(tmp_path / "shares.csv", index=False)
    arguments = (
        "calibrate",
        folder / "m",
        folder / "sample.csv",
        "--prevalence",
        tmp_path / "shares.csv",
        "--out",
        out,
    )
    assert run(*arguments)[0] == 0
    model, rows = onepos.load(out), pd.read_csv(folder / "sample.csv")
    assert model.predict_proba(rows).mean().to_dict() == pytest.approx(shares)
    assert model.predict(rows).to_numpy().sum(axis=1).mean() == pytest.approx(1.5, abs=0.1)
    code, _, err = run(*arguments, "--label", "tags")
    assert code == 2
    assert "leave out --label" in err
    table[:2].to_csv(tmp_path / "shares.csv", index=False)
    code, _, err = run(*arguments)
    assert code == 2
    assert "missing: night" in err


def test_clear_errors(run, folder, tmp_path):
    code, _, err = run("calibrate", folder / "m", folder / "sample.csv")
    assert code == 2
    assert "say where the labels are" in err
    assert (
        "no row has more than one label" in run("check-tags", folder / "m", folder / "photos.csv", "--label", "tag")[1]
    )
    code, _, err = run(
        "calibrate", folder / "m", folder / "sample.csv", "--label", "tags", "--out", folder / "sample.csv"
    )
    assert code == 2
    assert "name another file" in err


def test_rows_of_one_thing(run, tmp_path):
    table = photo_table().drop(columns="tags")
    table["place"] = np.arange(len(table)) // 2
    table.to_csv(tmp_path / "photos.csv", index=False)
    code, said, _ = run("fit", tmp_path / "photos.csv", *COLUMNS, "--group", "place", "--out", tmp_path / "m", "--json")
    assert code == 0
    facts = json.loads(said)
    assert facts["rows"] == -(-len(table) // 2)
    assert any("things ('place'), whose tags are joined" in note for note in facts["notes"])
