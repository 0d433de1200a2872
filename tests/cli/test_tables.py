"""The commands on tables, end to end: fit, evaluate, predict, complete, doctor; and every mistake is one line."""

import csv
import json
import re
import shlex
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import onepos
from onepos.cli import main
from onepos.cli.options import TrainingOptions
from onepos.metrics import LABEL_METRICS, METRICS
from onepos.table import TableModel, read_table
from photo_table import photo_table

FAST = ("--method", "logistic", "--set", "l2=1.0")
COLUMNS = ("--label", "tag", "--text", "caption", "--id", "id")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """photos.csv with one tag a row, checked.csv with all tags, model.onepos trained on the first."""
    folder = tmp_path_factory.mktemp("photos")
    photo_table().drop(columns="tags").to_csv(folder / "photos.csv", index=False)
    photo_table(30, seed=1).drop(columns="tag").to_csv(folder / "checked.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder / "photos.csv"), *COLUMNS, *FAST, "--out", str(folder / "model.onepos"), "--json"])
    assert ended.value.code == 0
    return folder


def is_one_line(text):
    last = text.splitlines()[-1]
    return last.startswith("onepos: ") and "Traceback" not in text and text.count("onepos: ") == 1


def test_fit_says_what_it_read_and_what_comes_next(run, folder, tmp_path):
    out = tmp_path / "deep" / "model.onepos"
    code, said, err = run(
        "fit", folder / "photos.csv", *COLUMNS, "--method", "an", "--set", "max_epochs=2", "--out", out
    )
    assert code == 0
    assert out.is_file()
    for words in (
        "90 rows",
        "1 text, 2 number, 1 category, 1 boolean",
        "'width', 'light' each number → 1 feature, standardised",
        "'light': 1 missing, filled with the median",
        "rows without a tag: 1",
        "an on 81 rows",
        "held-out rows, the given tag is the first suggestion in",
        f"Next: onepos complete {folder / 'photos.csv'} --model {out} --out {folder / 'photos-completed.csv'}",
    ):
        assert words in said
    assert "training" in err


def test_fit_json(run, folder, tmp_path):
    code, said, err = run(
        "fit", folder / "photos.csv", *COLUMNS, "--method", "frequency", "--out", tmp_path / "m", "--json"
    )
    assert code == 0
    result = json.loads(said)
    assert result["columns"]["caption"] == "text"
    assert result["became"].keys() == {*result["columns"], *result["left_out"]}
    assert result["held_out"]["reciprocal_rank"] == result["held_out"]["reciprocal_rank_by_frequency"]
    assert result["model"] == str(tmp_path / "m")
    assert "writing" in err


def test_evaluate_with_complete_labels(run, folder):
    arguments = ("evaluate", folder / "model.onepos", folder / "checked.csv", "--label", "tags", "--separator", ";")
    code, said, _ = run(*arguments)
    assert code == 0
    assert "Average precision" in said
    assert "95 % interval" in said
    result = json.loads(run(*arguments, "--json")[1])
    assert result["complete_labels"]
    assert list(result["measures"]) == list(METRICS)
    precision = result["measures"]["average_precision"]
    assert precision["low"] <= precision["mean"] <= precision["high"]
    table = pd.read_csv(folder / "checked.csv")
    scores = onepos.load(folder / "model.onepos").predict_proba(table)
    expected = onepos.metrics.evaluate(table["tags"].str.get_dummies(";"), scores)
    assert precision["mean"] == pytest.approx(expected["average_precision"])
    assert result["over_labels"] == pytest.approx({name: expected[name] for name in LABEL_METRICS})


def test_evaluate_with_indicator_columns(run, folder, tmp_path):
    table = pd.read_csv(folder / "checked.csv")
    pd.concat([table.drop(columns="tags"), table["tags"].str.get_dummies(";")], axis=1).to_parquet(tmp_path / "a.pq")
    by_columns = run("evaluate", folder / "model.onepos", tmp_path / "a.pq", "--labels", "beach,city,night", "--json")
    by_sets = run(
        "evaluate", folder / "model.onepos", folder / "checked.csv", "--label", "tags", "--separator", ";", "--json"
    )
    assert by_columns[0] == 0
    assert json.loads(by_columns[1])["measures"] == json.loads(by_sets[1])["measures"]


def test_evaluate_with_one_tag_a_row_says_what_it_cannot_tell(run, folder):
    code, said, _ = run("evaluate", folder / "model.onepos", folder / "photos.csv", "--label", "tag")
    assert code == 0
    assert "Mean reciprocal rank" in said
    assert "Average precision" not in said
    assert "nothing about the others" in said
    assert "1 of them without a known label" in said


def test_predict(run, folder, tmp_path):
    code, said, _ = run("predict", folder / "model.onepos", folder / "checked.csv", "--out", tmp_path / "p.csv")
    assert code == 0
    assert "columns that the model does not know are ignored: tags" in said
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found.columns) == ["id", "p(beach)", "p(city)", "p(night)", "suggested"]
    expected = onepos.load(folder / "model.onepos").predict_proba(pd.read_csv(folder / "checked.csv"))
    np.testing.assert_allclose(found.iloc[:, 1:4], expected, rtol=1e-5)
    code, said, _ = run(
        "predict", folder / "model.onepos", folder / "checked.csv", "--out", tmp_path / "p.parquet",
        "--sets", "--top", "2", "--json",
    )  # fmt: skip
    assert json.loads(said)["rows"] == 30
    assert list(pd.read_parquet(tmp_path / "p.parquet").columns) == ["id", "suggested"]


def test_decisions_of_a_review_are_learnt_from(run, folder, tmp_path):
    photos = pd.read_csv(folder / "photos.csv")
    rows = [f"{name},city,reject" for name in photos.loc[photos["tag"] == "beach", "id"]] + ["p000,night,accept"]
    (tmp_path / "decisions.csv").write_text("\n".join(["id,label,decision", *rows]))
    code, said, _ = run(
        "fit", folder / "photos.csv", *COLUMNS, *FAST, "--decisions", tmp_path / "decisions.csv",
        "--out", tmp_path / "better.onepos",
    )  # fmt: skip
    assert code == 0
    assert f"1 accepted, {len(rows) - 1} rejected" in said
    code, _, _ = run(
        "complete", folder / "photos.csv", "--model", tmp_path / "better.onepos", "--top", "3",
        "--decisions", tmp_path / "decisions.csv", "--out", tmp_path / "completed.csv",
    )  # fmt: skip
    assert code == 0
    sets = pd.read_csv(tmp_path / "completed.csv").set_index("id")["suggested"].str.split(";")
    assert "night" in sets["p000"]
    assert not any("city" in sets[row.split(",")[0]] for row in rows[:-1])


def test_complete_keeps_the_table_and_the_observed_tag(run, folder, tmp_path):
    code, said, _ = run(
        "complete", folder / "photos.csv", *COLUMNS, *FAST, "--n-positives", "1.5", "--out", tmp_path / "c.csv",
        "--review", tmp_path / "review.html", "--title", "camera",
    )  # fmt: skip
    assert code == 0
    assert "tags suggested beside the given ones" in said
    before = pd.read_csv(folder / "photos.csv", dtype=str, keep_default_na=False)
    after = pd.read_csv(tmp_path / "c.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(after[before.columns], before)
    assert list(after.columns[len(before.columns) :]) == ["p(beach)", "p(city)", "p(night)", "suggested"]
    tagged = after[after["tag"] != ""]
    assert all(tag in tags.split(";") for tag, tags in zip(tagged["tag"], tagged["suggested"], strict=True))
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    shown = json.loads(re.search(r'id="review-data">(.*?)</script>', page)[1])
    assert shown["ids"][-1] == "p089"
    columns = shown["features"]["names"]
    assert columns == [name for name in before.columns if name not in ("id", "tag")]
    assert columns[shown["titles"]] == "camera"
    assert shown["features"]["rows"] == before[columns].to_numpy().tolist()  # as they stand in the file
    # What the page marks as in the set is what the file suggests beside the observed tag.
    marked = [{shown["labels"][j] for j in labels} for labels in shown["sets"]]
    assert marked == [set(row.suggested.split(";")) - {row.tag} for row in after.itertuples()]


def test_a_review_page_of_some_rows_in_their_order(run, folder, tmp_path):
    (tmp_path / "asked.csv").write_text("why,id\nrare,p007\nrandom,p003\n")
    (tmp_path / "wrong.csv").write_text("row\nnobody\n")
    arguments = ("complete", folder / "photos.csv", "--model", folder / "model.onepos", "--out", tmp_path / "c.csv")
    review = ("--review", tmp_path / "review.html", "--only")
    assert run(*arguments, *review, tmp_path / "asked.csv")[0] == 0
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    assert json.loads(re.search(r'id="review-data">(.*?)</script>', page)[1])["ids"] == ["p007", "p003"]
    code, _, err = run(*arguments, *review, tmp_path / "wrong.csv")
    assert code == 2
    assert "'nobody', which is none of them" in err


@pytest.mark.parametrize(("tool", "beside"), [("label-studio", "tasks.xml"), ("argilla", "tasks.settings.json")])
def test_tasks_for_tools_of_teams(run, folder, tmp_path, tool, beside):
    out = tmp_path / "tasks.json"
    arguments = ("complete", folder / "photos.csv", "--model", folder / "model.onepos", "--format", tool, "--out")
    code, said, _ = run(*arguments, out, "--title", "camera")
    assert code == 0
    assert beside in said
    assert (tmp_path / beside).is_file()
    tasks = json.loads(out.read_text())
    assert len(tasks) == 90
    assert next(iter(tasks[0].get("data", tasks[0].get("fields", {})).get("text", "").split(":"))) == "camera"
    code, _, err = run(*arguments, tmp_path / "tasks.csv")
    assert code == 2
    assert "to a file that ends in .json" in err


def test_complete_json_and_parquet(run, folder, tmp_path):
    code, said, _ = run(
        "complete", folder / "photos.csv", "--model", folder / "model.onepos", "--out", tmp_path / "c.parquet", "--json"
    )
    assert code == 0
    assert json.loads(said)["rows"] == len(pd.read_parquet(tmp_path / "c.parquet")) == 90


def test_complete_names_columns_that_it_replaces_unless_it_wrote_them(run, folder, tmp_path):
    table, first, second = (tmp_path / f"{name}.csv" for name in ("table", "first", "second"))
    pd.read_csv(folder / "photos.csv").assign(suggested="mine").to_csv(table, index=False)
    code, said, _ = run("complete", table, "--model", folder / "model.onepos", "--out", first)
    assert code == 0
    assert "columns that the table had are replaced by the model's: suggested" in said
    assert "mine" not in set(pd.read_csv(first)["suggested"])
    code, said, _ = run("complete", first, "--model", folder / "model.onepos", "--out", second)
    assert code == 0
    assert "replaced" not in said
    assert second.read_bytes() == first.read_bytes()


def test_doctor(run, folder):
    code, said, _ = run("doctor", folder / "photos.csv", *COLUMNS)
    assert code == 0
    assert "90 rows" in said
    assert json.loads(run("doctor", folder / "photos.csv", *COLUMNS, "--json")[1])["summary"]["labels"] == 3


@pytest.mark.parametrize("name", ["toy.arff", "toy.mat", "toy.npz"])
def test_benchmark_formats_are_one_line_that_names_the_package_for_them(run, tmp_path, name):
    (tmp_path / name).write_text("x")
    code, _, err = run("fit", tmp_path / name, "--label", "tag", "--out", tmp_path / "m")
    assert code == 2
    assert "pip install onepos-studies" in err.splitlines()[-1]


FIT = ("fit", "{folder}/photos.csv", "--out", "{tmp}/m")
COMPLETE = ("complete", "{folder}/photos.csv", "--model", "{folder}/model.onepos", "--out")
PREDICT = ("predict", "{folder}/model.onepos", "{folder}/checked.csv", "--out")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "nosuch.csv", "--label", "tag", "--out", "{tmp}/m"), "no such file"),
        (("fit", "{tmp}/empty.csv", "--label", "tag", "--out", "{tmp}/m"), "is empty"),
        (("fit", "{tmp}/header.csv", "--label", "tag", "--out", "{tmp}/m"), "no row"),
        (("fit", "{tmp}/a.txt", "--label", "tag", "--out", "{tmp}/m"), "cannot tell the format"),
        (FIT, "say which column"),
        ((*FIT, "--label", "nosuch"), "no column 'nosuch'"),
        ((*FIT, "--label", "tag", "--text", "nosuch"), "named as text"),
        ((*FIT, "--label", "tag", "--id", "nosuch"), "named as id"),
        ((*FIT, "--label", "tag", "--drop", "nosuch"), "named as drop"),
        ((*FIT, "--label", "tag", "--labels", "width,light"), "say which column holds the tags"),
        ((*FIT, "--label", "tag", "--method", "nosuch"), "unknown method 'nosuch'"),
        ((*FIT, "--label", "tag", "--method", "an", "--set", "nosuch=1"), "no setting 'nosuch'"),
        ((*FIT, "--label", "tag", "--method", "an", "--set", "max_epochs=many"), "max_epochs"),
        ((*FIT, "--label", "tag", "--set", "max_epochs"), "name=value"),
        ((*FIT, "--label", "tag", "--validation-fraction", "2"), "below 1"),
        ((*FIT, "--label", "tag", "--n-positives", "9", "--method", "logistic"), "n_positives"),
        ((*FIT, "--label", "tag", "--decisions", "{tmp}/header.csv", "--method", "logistic"), "id,label,decision"),
        (("fit", "{tmp}/untagged.csv", "--label", "tag", "--out", "{tmp}/m"), "holds no tag"),
        (("fit", "{tmp}/one.csv", "--label", "tag", "--out", "{tmp}/m"), "one label only"),
        (("fit", "{folder}/photos.csv", "--label", "tag", "--out", "{tmp}/empty.csv/m"), "is a file, not a folder"),
        (("fit", "{folder}/photos.csv", "--label", "tag", "--out", "{tmp}"), "is a folder"),
        (("predict", "{folder}/photos.csv", "{folder}/photos.csv", "--out", "{tmp}/p.csv"), "not a onepos model"),
        (("predict", "{tmp}/nosuch", "{folder}/photos.csv", "--out", "{tmp}/p.csv"), "no model file"),
        (("predict", "{folder}/model.onepos", "{tmp}/one.csv", "--out", "{tmp}/p.csv"), "needs the columns 'caption'"),
        ((*PREDICT, "{tmp}/p.txt"), "Change its suffix"),
        ((*PREDICT, "{tmp}/empty.csv/p.csv"), "is a file, not a folder"),
        ((*PREDICT, "{tmp}/p.csv", "--top", "0"), "--top"),
        ((*PREDICT, "{tmp}/p.csv", "--separator", "a"), "holds the separator"),
        (("evaluate", "{folder}/model.onepos", "{folder}/checked.csv"), "say where the labels are"),
        (("evaluate", "{folder}/model.onepos", "{folder}/checked.csv", "--label", "nosuch"), "no column 'nosuch'"),
        (("evaluate", "{folder}/model.onepos", "{folder}/photos.csv", "--label", "camera"), "no row has a label"),
        (("evaluate", "{folder}/model.onepos", "{folder}/photos.csv", "--labels", "tag"), "must hold 0 and 1"),
        (("complete", "{folder}/photos.csv", "--label", "tag", "--out", "{tmp}/c.doc"), "Change its suffix"),
        ((*FIT, "--label", "tag", "--decisions", "{tmp}/nosuch.csv"), "No such file"),
        ((*FIT, "--label", "tag", "--report", "{tmp}/m.pdf"), "ends in .html"),
        ((*PREDICT, "{folder}/checked.csv"), "would replace"),
        ((*PREDICT, "{folder}/../{name}/checked.csv"), "would replace"),
        ((*PREDICT, "{folder}/model.onepos"), "which is read as the model"),
        ((*PREDICT, "{tmp}/p.csv", "--sets", "--probabilities"), "leave both out"),
        ((*PREDICT, "{tmp}/p.csv", "--top", "2", "--threshold", "0.5"), "leave one of them out"),
        ((*COMPLETE, "{folder}/photos.csv"), "which is read as the data"),
        ((*COMPLETE, "{tmp}/c.csv", "--review", "{tmp}/r.txt"), "ends in .html"),
        ((*COMPLETE, "{tmp}/c.csv", "--image", "camera"), "give --review too"),
        ((*COMPLETE, "{tmp}/c.csv", "--title", "camera"), "--title is for the review page"),
        ((*COMPLETE, "{tmp}/c.csv", "--only", "camera"), "--only is for the review page"),
        ((*COMPLETE, "{tmp}/c.csv", "--method", "an"), "--method is for training"),
        ((*COMPLETE, "{tmp}/c.csv", "--drop", "camera"), "--drop is for training"),
        ((*COMPLETE, "{tmp}/c.csv", "--label", "camera"), "--label is for training"),
        ((*COMPLETE, "{tmp}/c.csv", "--id", "camera"), "--id is for training"),
        ((*COMPLETE, "{tmp}/c.csv", "--text", "camera"), "--text is for training"),
        ((*COMPLETE, "{tmp}/c.csv", "--decisions", "{tmp}/nosuch.csv"), "No such file"),
        (("predcit", "{folder}/model.onepos"), "Did you mean 'predict'? Try: onepos --help"),
        (("doctor", "{folder}/photos.csv"), "--label COL"),
        (("doctor", "{folder}/photos.csv", "--label", "nosuch"), "no column 'nosuch'"),
    ],
)
def test_every_mistake_is_one_line_and_exit_code_2(run, folder, tmp_path, arguments, words):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("x,tag\n")
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "untagged.csv").write_text("x,tag\n" + "".join(f"{i},\n" for i in range(5)))
    (tmp_path / "one.csv").write_text("x,tag\n" + "".join(f"{i},same\n" for i in range(5)))
    before = sorted(tmp_path.iterdir())
    kept = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    code, said, err = run(*(part.format(folder=folder, name=folder.name, tmp=tmp_path) for part in arguments))
    assert (code, said) == (2, "")
    assert is_one_line(err)
    assert words in err
    assert sorted(tmp_path.iterdir()) == before
    assert {path: path.read_bytes() for path in kept} == kept


def test_sets_of_tags_that_were_not_split_are_noticed(run, folder):
    evaluate = ("evaluate", folder / "model.onepos", folder / "checked.csv", "--label", "tags")
    _, said, _ = run(*evaluate)
    assert "joined by ';': name it as the separator" in said
    _, said, _ = run(*evaluate, "--separator", ";")
    assert "name it as the separator" not in said


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "complete", "doctor"])
def test_help_has_examples(run, command):
    code, said, _ = run(command, "--help")
    assert code == 0
    assert "Examples" in said
    assert f"onepos {command} " in said
    assert "--json" in said


def test_ctrl_c_in_training_ends_with_130_and_writes_no_model(run, folder, tmp_path, monkeypatch):
    import onepos.training.loop

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(onepos.training.loop.Run, "run_epoch", interrupt)
    code, said, err = run("fit", folder / "photos.csv", *COLUMNS, "--method", "an", "--out", tmp_path / "m")
    assert (code, said) == (130, "")
    assert err.endswith("onepos: interrupted.\n")
    assert list(tmp_path.iterdir()) == []


def test_fit_compares_with_frequency_and_a_linear_model(run, folder, tmp_path):
    arguments = ("fit", folder / "photos.csv", *COLUMNS, "--method", "an", "--set", "max_epochs=2")
    code, said, _ = run(*arguments, "--out", tmp_path / "m")
    assert code == 0
    result = json.loads(run(*arguments, "--out", tmp_path / "m", "--json")[1])["held_out"]
    assert list(result["methods"])[:2] == ["an", "frequency"]
    assert len(result["methods"]) == 3
    for method, scores in result["methods"].items():
        assert f"{method:<10} {scores['reciprocal_rank']:.3f}" not in said
    first = {method: f"{scores['recall_at_1']:.0%}" for method, scores in result["methods"].items()}
    beside = f"(by frequency alone: {first['frequency']}, logistic regression: {first['logistic']})"
    assert f"the given tag is the first suggestion in {first['an']} of cases {beside}." in said
    assert f"an         {result['reciprocal_rank']:.3f}, " in run(*arguments, "--out", tmp_path / "m", "--verbose")[1]
    assert "This number is a guess: give the true mean with --n-positives M" in " ".join(said.split())


def test_a_model_that_knows_no_more_than_frequency_says_so_loudly(run, folder, tmp_path):
    page = tmp_path / "page.html"
    arguments = ("fit", folder / "photos.csv", *COLUMNS, "--method", "frequency", "--out", tmp_path / "m")
    said = run(*arguments, "--report", page)[1]
    assert "WARNING     The model barely beats a ranking by frequency alone" in said
    assert "The model barely beats a ranking by frequency alone" in page.read_text(encoding="utf-8")
    assert json.loads(run(*arguments, "--json")[1])["held_out"]["barely_beats_frequency"]


def test_evaluate_shows_how_good_the_sets_are(run, folder):
    arguments = ("evaluate", folder / "model.onepos", folder / "checked.csv", "--label", "tags", "--separator", ";")
    sets = json.loads(run(*arguments, "--json")[1])["sets"]
    table = pd.read_csv(folder / "checked.csv")
    truth = table["tags"].str.get_dummies(";").to_numpy()
    found = onepos.load(folder / "model.onepos").predict(table).to_numpy()
    both = (truth * found).sum()
    assert sets["micro_precision"] == pytest.approx(both / found.sum())
    assert sets["micro_recall"] == pytest.approx(both / truth.sum())
    assert sets["micro_f1"] == pytest.approx(2 * both / (found.sum() + truth.sum()))
    by_label = 2 * (truth * found).sum(axis=0) / (truth + found).sum(axis=0)
    assert sets["macro_f1"] == pytest.approx(by_label.mean())
    assert (sets["mean_size"], sets["true_mean_size"]) == (found.sum() / 30, truth.sum() / 30)
    said = run(*arguments)[1]
    for words in (
        "all entries (micro)",
        "mean of labels (macro)",
        f"{sets['macro_f1']:.3f}",
        "labels per row suggested",
    ):
        assert words in said


def test_several_tags_in_a_cell_of_the_training_table(run, folder, tmp_path):
    columns = ("--label", "tags", "--text", "caption", "--id", "id")
    code, said, _ = run("fit", folder / "checked.csv", *columns, *FAST, "--out", tmp_path / "m")
    assert code == 0
    assert "distinct tags contain ';': name it as the separator if a cell can hold several tags" in " ".join(
        said.split()
    )
    code, said, _ = run("fit", folder / "checked.csv", *columns, *FAST, "--separator", "; ", "--out", tmp_path / "m")
    assert code == 0
    assert "distinct tags" not in said
    assert onepos.load(tmp_path / "m").labels_ == ["beach", "city", "night"]
    code, _, _ = run(
        "complete", folder / "checked.csv", *columns, *FAST, "--separator", ";", "--out", tmp_path / "c.csv"
    )
    assert code == 0
    written = pd.read_csv(tmp_path / "c.csv")
    for tags, suggested in zip(written["tags"], written["suggested"], strict=True):
        assert set(tags.split(";")) <= set(suggested.split(";"))


def test_sets_may_be_empty_only_if_asked_for(run, folder, tmp_path):
    model, out = tmp_path / "m", tmp_path / "p.csv"
    fit = ("fit", folder / "photos.csv", *COLUMNS, *FAST, "--n-positives", "1", "--out", model)

    def n_empty(*options):
        result = json.loads(run("predict", model, folder / "checked.csv", "--out", out, *options, "--json")[1])
        assert pd.read_csv(out)["suggested"].isna().sum() == result["rows_without_suggestion"]
        return result["rows_without_suggestion"]

    def n_below():
        """Rows of which no probability reaches the threshold."""
        fitted = TableModel.load(model)
        scores = fitted.predict_proba(read_table(folder / "checked.csv").frame)
        return int((np.asarray(scores) < fitted.estimator_.thresholds_).all(axis=1).sum())

    assert run(*fit)[0] == 0
    assert n_empty() == 0
    assert n_empty("--allow-empty") == n_below() > 0
    assert run(*fit, "--allow-empty")[0] == 0
    assert n_empty() == n_below() > 0


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_column_name_that_comes_twice_is_an_error(run, tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = [pa.array(range(30)), pa.array(["a", "b"] * 15), pa.array(["a", "b"] * 15)]
        pq.write_table(pa.Table.from_arrays(columns, ["x", "tag", "tag"]), path)
    else:
        sign = "," if suffix == ".csv" else "\t"
        lines = [sign.join(cells) for cells in [("x", "tag", "tag"), *[("1", "a", "a"), ("2", "b", "b")] * 15]]
        path.write_text("\n".join(lines) + "\n")
    code, _, err = run("fit", path, "--label", "tag", *FAST, "--out", tmp_path / "m")
    assert code == 2
    assert is_one_line(err)
    assert "column names must be distinct; 'tag' come twice" in err


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("--label", "tag", "--id", "tag"), "'tag' is named as id and as label"),
        (("--label", "tag", "--id", "caption", "--text", "caption"), "'caption' is named as id and as text"),
    ],
)
def test_a_column_that_is_named_twice_is_an_error(run, folder, tmp_path, columns, message):
    code, _, err = run("fit", folder / "photos.csv", *columns, *FAST, "--out", tmp_path / "m")
    assert code == 2
    assert is_one_line(err)
    assert message in err


def test_doctor_speaks_of_options(run, folder):
    assert "--drop id" in " ".join(run("doctor", folder / "photos.csv", "--label", "tag")[1].split())


def test_the_commands_and_the_class_have_the_same_defaults(tmp_path):
    options, model = TrainingOptions(data=tmp_path), TableModel()
    for name in ("method", "n_positives", "validation_fraction"):
        assert getattr(options, name) == getattr(model, name)
    assert options.seed == model.random_state
    assert options.allow_empty is not model.at_least_one


#: What spreadsheets compute, or hand on to the system.
FORMULAS = ["=cmd()", "+1+1", "-2+3", "@SUM(A1)", '=HYPERLINK("http://example.org")', "'=quoted", "\t=tab", "'t was"]


@pytest.mark.parametrize("command", ["predict", "complete"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_formulas_are_escaped_for_spreadsheets_and_come_back(run, tmp_path, command, suffix):
    """Tags, ids, other cells and names of columns; numbers, also negative ones, stay numbers."""
    tags = ["=cmd()", "@night", "sea"]
    table = pd.DataFrame(
        {
            "id": [f"{FORMULAS[i % 8].strip()}{i}" for i in range(60)],
            "=size": np.arange(60) - 30.5,
            "note": [FORMULAS[i % 8] for i in range(60)],
            "tag": [tags[i % 3] for i in range(60)],
        }
    )
    source, out, plain = tmp_path / "table.parquet", tmp_path / f"out{suffix}", tmp_path / f"plain{suffix}"
    table.to_parquet(source)
    model = tmp_path / "model.onepos"
    columns = ("--label", "tag", "--id", "id", "--drop", "note")
    assert run("fit", source, *columns, *FAST, "--out", model)[0] == 0
    arguments = (model, source) if command == "predict" else (source, "--model", model)
    assert run(command, *arguments, "--out", out)[0] == 0
    assert run(command, *arguments, "--out", plain, "--no-escape-formulas")[0] == 0
    explicit = tmp_path / f"explicit{suffix}"
    assert run(command, *arguments, "--out", explicit, "--escape-formulas")[0] == 0
    assert read_table(explicit).frame.equals(read_table(out).frame)
    words = ("id", "note", "tag", "suggested")
    again, untouched = read_table(out, plain=words).frame, read_table(plain, plain=words).frame
    assert again["id"].tolist() == table["id"].tolist()
    if command == "complete":
        assert again["note"].tolist() == table["note"].tolist()
        assert again["tag"].tolist() == table["tag"].tolist()
        assert again["=size"].tolist() == table["=size"].tolist()
    assert set(";".join(again["suggested"]).split(";")) <= set(tags)
    assert again["suggested"].tolist() == untouched["suggested"].tolist()
    if suffix != ".parquet":
        separator = "," if suffix == ".csv" else "\t"
        with out.open(newline="") as file:
            cells = [cell for line in csv.reader(file, delimiter=separator) for cell in line]
        dangerous = [cell for cell in cells if cell[:1] in tuple("=+-@\t\r") and not _is_number(cell)]
        assert not dangerous
        with plain.open(newline="") as file:
            assert any(cell == "=cmd()" for line in csv.reader(file, delimiter=separator) for cell in line)


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("device=cuda:99", "device must be one that torch can use on this machine"),
        ("device=nonsense", "device must be one that torch can use on this machine"),
        ("network=[1000000000000]", "GB of memory"),
        ("network=[1000000,1000000,1000000]", "Choose smaller layers"),
    ],
)
def test_settings_that_this_machine_cannot_serve_are_one_line(run, folder, tmp_path, setting, words):
    out = tmp_path / "model.onepos"
    code, _, said = run("fit", folder / "photos.csv", *COLUMNS, "--method", "an", "--set", setting, "--out", out)
    assert code == 2
    assert is_one_line(said)
    assert words in said
    assert not out.exists()


@pytest.fixture
def small(tmp_path):
    """Forty rows with two labels, one of which holds a semicolon."""
    rows = [{"key": 100 + i, "x": i % 7, "tag": "Sci-Fi; Fantasy" if i % 2 else "Drama"} for i in range(40)]
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "small.csv", index=False)
    return tmp_path / "small.csv"


def test_a_label_that_holds_a_semicolon(run, small, tmp_path):
    model, out = tmp_path / "m.onepos", tmp_path / "p.csv"
    assert run("fit", small, "--label", "tag", "--id", "key", *FAST, "--out", model)[0] == 0
    code, said, err = run("predict", model, small, "--out", out, "--top", "2")
    assert code == 0
    assert "a label holds ';': the labels of a set are joined by '|'" in said + err
    assert {frozenset(cell.split("|")) for cell in pd.read_csv(out)["suggested"]} == {
        frozenset({"Sci-Fi; Fantasy", "Drama"})
    }
    code, said, err = run("complete", small, "--model", model, "--out", tmp_path / "c.csv")
    assert code == 0
    assert "joined by '|'" in said + err
    code, _, err = run("predict", model, small, "--out", out, "--separator", ";")
    assert code == 2
    assert "holds the separator ';'" in err
    assert "is empty" in run("predict", model, small, "--out", out, "--separator", "")[2]


def test_complete_says_if_the_label_column_is_not_there(run, small, tmp_path):
    model, other = tmp_path / "m.onepos", tmp_path / "other.csv"
    assert run("fit", small, "--label", "tag", *FAST, "--out", model)[0] == 0
    pd.read_csv(small).rename(columns={"tag": "Tag"}).to_csv(other, index=False)
    code, said, err = run("complete", other, "--model", model, "--out", tmp_path / "c.csv")
    assert code == 0
    assert "there is no label column 'tag': no label counts as observed" in said + err


def test_parquet_keeps_types(run, small, tmp_path):
    model, table = tmp_path / "m.onepos", tmp_path / "small.parquet"
    frame = pd.read_csv(small)
    frame.to_parquet(table)
    assert run("fit", table, "--label", "tag", "--id", "key", *FAST, "--out", model)[0] == 0
    assert run("predict", model, table, "--out", tmp_path / "p.parquet")[0] == 0
    assert frame.merge(pd.read_parquet(tmp_path / "p.parquet"), on="key").shape[0] == 40
    # Integers stay integers, whichever piece of the file has a gap.
    keys = pd.array([*range(20_000), None], dtype="Int64")
    pd.DataFrame({"key": keys, "x": np.arange(20_001) % 7}).to_parquet(table)
    assert run("predict", model, table, "--out", tmp_path / "p.parquet")[0] == 0
    assert pd.read_parquet(tmp_path / "p.parquet")["key"].astype("Int64").array.equals(keys)
    # Unsigned ones, such as hashes, may be too large: they are text.
    large = [str(2**63 + i) for i in range(40)]
    frame.assign(key=np.array(large, dtype=np.uint64)).to_parquet(table)
    assert run("predict", model, table, "--out", tmp_path / "p.parquet")[0] == 0
    assert pd.read_parquet(tmp_path / "p.parquet")["key"].tolist() == large


def test_mistakes_are_found_before_training(run, small, tmp_path, monkeypatch):
    from onepos.table import TableModel

    def never(*_, **__):
        raise AssertionError("trained before all arguments were checked")

    monkeypatch.setattr(TableModel, "fit", never)
    sample, twice = tmp_path / "sample.csv", tmp_path / "twice.csv"
    pd.DataFrame({"x": range(5), "tags": ["Drama"] * 5}).to_csv(sample, index=False)
    pd.read_csv(small).assign(key=7).to_csv(twice, index=False)
    fit = ("fit", small, "--label", "tag", "--out", tmp_path / "m.onepos", "--sample", sample)
    review = ("--out", tmp_path / "c.csv", "--review", tmp_path / "r.html", "--label", "tag")
    for arguments, words in (
        (
            fit,
            "sample.csv has no column 'tag'; its columns are: x, tags. Name the column of all tags with --sample-label",
        ),
        ((*fit, "--sample-label", "Tags"), "sample.csv has no column 'Tags'"),
        (("complete", small, *review, "--title", "nope"), "there is no column 'nope' (named as title)"),
        (("complete", twice, *review, "--id", "key"), "ids must be distinct; '7' comes twice"),
    ):
        code, said, err = run(*arguments)
        assert (code, said) == (2, "")
        assert words in err
    assert not (tmp_path / "c.csv").exists()


def test_doctor_sees_ids_gaps_and_lists(run, tmp_path):
    table = pd.DataFrame({"key": [1, 1, *range(3, 41)], "x": np.arange(40) % 7, "tag": ["NA", "a", "b", "c"] * 10})
    table.to_csv(tmp_path / "a.csv", index=False)
    code, said, _ = run("doctor", tmp_path / "a.csv", "--label", "tag", "--id", "key", "--json")
    assert code == 0
    assert {"id-repeated", "tag-says-missing"} <= {one["code"] for one in json.loads(said)["findings"]}
    assert "Several rows share an id: 1 id, such as 1." in said
    table.assign(tag=table["tag"].map(lambda tag: [tag, "d"])).to_parquet(tmp_path / "a.parquet")
    code, said, _ = run("doctor", tmp_path / "a.parquet", "--label", "tag", "--json")
    assert code == 0
    assert json.loads(said)["summary"]["labels"] == 5


def test_the_doctor_leaves_out_what_complete_wrote_as_fit_does(run, tmp_path):
    table = pd.DataFrame({"x": np.arange(80) % 7, "tag": list("abcd") * 20})
    table.assign(suggested=table["tag"], **{"p(a)": 0.5}).to_csv(tmp_path / "a.csv", index=False)
    code, said, _ = run("doctor", tmp_path / "a.csv", "--label", "tag", "--json")
    assert code == 0
    found = json.loads(said)
    left_out = "left out: has the name of a column that onepos complete writes"
    assert found["summary"]["became"] == {
        "suggested": left_out,
        "p(a)": left_out,
        "x": "number → 1 feature, standardised",
    }
    assert "column-leaks" not in {one["code"] for one in found["findings"]}


def test_labels_that_look_like_ids_stop_the_fit_unless_forced(run, small, tmp_path):
    table = pd.DataFrame({"x": np.arange(240.0), "tag": [f"t{i}" for i in range(240)]})
    table.to_csv(tmp_path / "ids.csv", index=False)
    arguments = ("fit", tmp_path / "ids.csv", "--label", "tag", "--method", "frequency", "--out", tmp_path / "m.onepos")
    code, _, err = run(*arguments)
    assert code == 2
    assert is_one_line(err)
    assert "240 labels in 240 tagged rows" in err
    assert "--force" in err
    assert not (tmp_path / "m.onepos").exists()
    assert run(*arguments, "--force")[0] == 0


def test_ids_keep_their_blanks_and_may_begin_with_gaps(run, tmp_path):
    n = 10_010
    ids = [None] * 10_000 + [f" {i} " for i in range(10)]
    pd.DataFrame({"id": ids, "x": np.arange(n) % 7, "tag": np.where(np.arange(n) % 2, "a", "b")}).to_parquet(
        tmp_path / "a.parquet"
    )
    model = tmp_path / "m.onepos"
    columns = ("--label", "tag", "--id", "id", "--method", "frequency")
    assert run("fit", tmp_path / "a.parquet", *columns, "--out", model)[0] == 0
    for suffix in (".parquet", ".csv"):
        out = tmp_path / f"out{suffix}"
        assert run("predict", model, tmp_path / "a.parquet", "--out", out)[0] == 0
        written = read_table(out, plain=["id"]).frame["id"]
        assert [None if pd.isna(name) else name for name in written] == ids


def test_an_id_column_with_the_name_of_an_output_is_refused(run, tmp_path):
    table = pd.DataFrame({"p(beach)": range(40), "x": np.arange(40) % 7, "tag": ["beach", "sea"] * 20})
    table.to_csv(tmp_path / "a.csv", index=False)
    columns = ("--label", "tag", "--id", "p(beach)", "--method", "frequency")
    code, _, err = run("fit", tmp_path / "a.csv", *columns, "--out", tmp_path / "m.onepos")
    assert code == 2
    assert is_one_line(err)
    assert "Rename it" in err


def test_complete_writes_whole_numbers_with_gaps_unchanged(run, tmp_path):
    large = 1 << 53
    table = pa.table(
        {
            "id": pa.array([large + i for i in range(40)], pa.int64()),
            "n": pa.array([i if i % 4 else None for i in range(40)], pa.int64()),
            "tag": pa.array([large + i % 3 if i % 5 else None for i in range(40)], pa.int64()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    for suffix in (".csv", ".parquet"):
        out = tmp_path / f"out{suffix}"
        columns = ("--label", "tag", "--id", "id", "--method", "frequency")
        assert run("complete", tmp_path / "a.parquet", *columns, "--out", out)[0] == 0
        if suffix == ".csv":
            with out.open(newline="") as stream:
                rows = list(csv.DictReader(stream))
            expected = [{name: "" if v is None else str(v) for name, v in row.items()} for row in table.to_pylist()]
            assert [{name: row[name] for name in table.column_names} for row in rows] == expected
            assert sum(name.startswith("p(") for name in rows[0]) == 3
        else:
            assert pq.read_table(out, columns=table.column_names).to_pylist() == table.to_pylist()


def test_pictures_of_a_review_page_in_another_folder(run, tmp_path):
    (tmp_path / "data").mkdir()
    table = pd.DataFrame({"photo": [f"pictures/{i}.jpg" for i in range(40)], "x": range(40), "tag": ["a", "b"] * 20})
    table.to_csv(tmp_path / "data" / "a.csv", index=False)
    page = tmp_path / "pages" / "today" / "review.html"
    model = tmp_path / "m.onepos"
    fit = ("--label", "tag", "--drop", "photo", "--method", "frequency", "--out", model)
    assert run("fit", tmp_path / "data" / "a.csv", *fit)[0] == 0
    columns = ("--model", model, "--image", "photo", "--out", tmp_path / "out.csv")
    assert run("complete", tmp_path / "data" / "a.csv", *columns, "--review", page)[0] == 0
    assert "../../data/pictures/7.jpg" in page.read_text()
    table["photo"] = "../secret.jpg"
    table.to_csv(tmp_path / "data" / "a.csv", index=False)
    code, _, err = run("complete", tmp_path / "data" / "a.csv", *columns, "--review", page)
    assert code == 2
    assert "outside of the table's folder" in err


def test_an_unknown_user_and_a_long_name_are_one_line(run, small, tmp_path):
    arguments = ("--text", "caption", "--embed", "~nosuch/x")
    (tmp_path / "t.csv").write_text("caption,tag\n" + "sea and sun,a\nhigh towers,b\n" * 20)
    code, _, err = run("fit", tmp_path / "t.csv", "--label", "tag", *FAST, *arguments, "--out", tmp_path / "m.onepos")
    assert code == 2
    assert is_one_line(err)
    for length in (245, 300):
        out = tmp_path / ("a" * length + ".onepos")
        code, _, err = run("fit", tmp_path / "t.csv", "--label", "tag", "--method", "frequency", "--out", out)
        assert code == (0 if length == 245 else 2)
        assert "Traceback" not in err


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_closed_stream_is_no_error(monkeypatch, name):
    monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as ended:
        main(["methods"])
    assert ended.value.code == 0
    getattr(sys, name).close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit", "photos.csv", "--label", "tagg", *FAST, "--out", "m"), "Did you mean 'tag'? The columns are:"),
        (("fit", "photos.csv", "--label", "tag", "--method", "simle", "--out", "m"), "Did you mean 'smile'?"),
        (
            ("fit", "photos.csv", "--label", "tag", "--method", "an", "--set", "max_epoch=3", "--out", "m"),
            "method 'an' has no setting 'max_epoch'. Did you mean 'max_epochs'?",
        ),
        (("predict", "photos.csv", "model.onepos", "--out", "p.csv"), "photos.csv looks like a table: swap the two."),
        (("fot", "photos.csv"), "Did you mean 'fit'?"),
        (("fit", "photos.csv", "--label", "id", *FAST, "--out", "m"), "train all the same with --force."),
    ],
)
def test_a_mistake_is_answered_with_what_was_probably_meant(run, folder, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    arguments = [folder / one if one in ("photos.csv", "model.onepos") else one for one in arguments]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert said in err
    assert len(err.splitlines()[-1]) < 400


def test_what_is_printed_next_can_be_pasted(run, folder, tmp_path, monkeypatch):
    """The names of files need quotes, and options are those that were typed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my photos.csv").write_bytes((folder / "photos.csv").read_bytes())
    code, said, _ = run("fit", "my photos.csv", *COLUMNS, *FAST, "--out", "my model.onepos")
    assert code == 0
    completing = shlex.split(said.splitlines()[-1].removeprefix("Next: onepos "))
    assert run(*completing)[0] == 0
    assert (tmp_path / "my photos-completed.csv").is_file()
    code, said, _ = run("complete", "my photos.csv", *COLUMNS, *FAST, "--out", "c.csv", "--review", "r.html")
    (tmp_path / "r-decisions.csv").write_text("id,label,decision\np000,night,accept\n")
    again = shlex.split(said.splitlines()[-1].removeprefix("onepos "))
    assert again[:2] == ["fit", "my photos.csv"]
    code, said, _ = run(*again)
    assert code == 0
    assert "1 accepted" in said


def test_columns_that_became_the_same_share_a_line(run, tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.random((60, 30)), columns=[f"pixel_{number}" for number in range(30)])
    table.assign(tag=["sea", "sky"] * 30).to_csv(tmp_path / "t.csv", index=False)
    arguments = ("fit", tmp_path / "t.csv", "--label", "tag", *FAST, "--out", tmp_path / "m")
    said = run(*arguments)[1]
    assert said.count("pixel_") == 4
    assert "(30 in all) each number → 1 feature, standardised" in said
    assert run(*arguments, "--verbose")[1].count("pixel_") == 30
