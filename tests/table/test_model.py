"""The model of a table: six lines of Python, one file, the same bits in another process."""

import copy
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import onepos
from onepos._utils.context import progress_to
from onepos.exceptions import DataFileError, ModelFileError
from onepos.table import (
    Output,
    TableData,
    TableModel,
    Tally,
    complete_file,
    complete_table,
    evaluate_table,
    known_labels,
    predict_file,
    read_table,
)
from photo_table import photo_table

FEATURES = ["caption", "width", "light", "camera", "flash"]
EASY = {"text": "caption", "id": "id", "drop": ["tags"], "random_state": 0}


@pytest.fixture(scope="module")
def photos():
    return photo_table()


@pytest.fixture(scope="module")
def model(photos):
    return TableModel(**EASY, method="an", params={"max_epochs": 10}).fit(photos, label="tag")


def test_settings_are_parameters_of_a_scikit_learn_estimator(photos, model):
    assert onepos.TableModel is TableModel
    assert model.get_params(deep=False).items() >= (EASY | {"method": "an", "params": {"max_epochs": 10}}).items()
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "estimator_")
    assert copied.set_params(method="logistic").method == "logistic"
    with pytest.raises(ValueError, match="Invalid parameter 'nosuch'"):
        copied.set_params(nosuch=1)
    again = clone(model).fit(photos, label="tag")
    assert (again.predict_proba(photos) == model.predict_proba(photos)).all(axis=None)


def test_a_failed_refit_leaves_the_model_as_it_was(photos, model):
    copied = copy.deepcopy(model)
    before = copied.predict_proba(photos)
    learnt = dict(vars(copied))
    other = photos.drop(columns="light").assign(tag=["x", "y", "z"] * 30)
    with (
        mock.patch("onepos.table.model.compare", side_effect=DataFileError("at the end")),
        pytest.raises(DataFileError, match="at the end"),
    ):
        copied.fit(other, label="tag")
    assert vars(copied) == learnt
    assert (copied.predict_proba(photos) == before).all(axis=None)


def test_progress_tells_every_batch_of_training(photos):
    told = []
    model = TableModel(**EASY, method="an", params={"max_epochs": 2, "batch_size": 30})
    with progress_to(lambda step, share: told.append((step.partition(",")[0], share))):
        model.fit(photos, label="tag")
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert list(dict.fromkeys(step for step, _ in told)) == [
        "encoding columns",
        "training",
        "comparing on held-out rows",
    ]
    assert sum(step == "training" for step, _ in told) >= 1 + 2 * 3


def test_it_learns_and_says_how_well(photos, model):
    assert model.labels_ == ["beach", "city", "night"]
    assert model.encoder_.kinds_ == dict(
        zip(FEATURES, ["text", "number", "number", "category", "boolean"], strict=True)
    )
    facts = model.facts_
    assert (facts["rows"], facts["rows_without_tag"], facts["held_out_rows"]) == (90, 1, 9)
    assert facts["held_out"]["reciprocal_rank"] > facts["held_out"]["reciprocal_rank_by_frequency"]
    assert sum(facts["counts"].values()) == 89


def test_predictions_are_frames_with_names(photos, model):
    part = photos.iloc[5:8]
    found = model.predict_proba(part)
    assert list(found.columns) == model.labels_
    assert list(found.index) == [5, 6, 7]
    best = found.to_numpy() == found.to_numpy().max(axis=1, keepdims=True)
    likely = (found >= model.thresholds_).to_numpy()
    expected = np.where(likely.any(axis=1, keepdims=True), likely, best)
    np.testing.assert_array_equal(model.predict(part), expected)


@pytest.mark.parametrize("method", ["logistic", "frequency", "role"])
def test_saved_and_loaded_predictions_are_equal_bit_for_bit(photos, tmp_path, method):
    params = {"role": {"max_epochs": 1}, "logistic": {"l2": 1.0}}.get(method, {})
    made = TableModel(**EASY, method=method, params=params).fit(photos, label="tag")
    back = onepos.load(made.save(tmp_path / "model.onepos"))
    assert isinstance(back, TableModel)
    assert (back.predict_proba(photos).to_numpy() == made.predict_proba(photos).to_numpy()).all()
    assert (back.label_, back.id_, back.labels_, back.facts_) == (made.label_, made.id_, made.labels_, made.facts_)


def test_equal_seeds_give_equal_files(photos, tmp_path):
    for name in "ab":
        TableModel(**EASY, method="logistic", params={"l2": 1.0}).fit(photos, label="tag").save(tmp_path / name)
    # logistic keeps no timings, so that even the bytes agree
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_plain_estimator_loads_as_before_and_is_not_taken_for_a_table_model(tmp_path):
    plain = onepos.FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(2)[[0, 0, 1, 1]])
    path = plain.save(tmp_path / "plain.onepos")
    assert isinstance(onepos.load(path), onepos.FrequencyClassifier)
    with pytest.raises(DataFileError, match="bare FrequencyClassifier, which knows no columns"):
        TableModel.load(path)


def test_a_damaged_table_part_is_refused(photos, model, tmp_path):
    path = model.save(tmp_path / "model.onepos")
    content = path.read_bytes()
    place = content.index(b"caption")
    path.write_bytes(content[:place] + b"C" + content[place + 1 :])
    with pytest.raises(ModelFileError, match="was changed or damaged after it was written"):
        onepos.load(path)


def test_known_negatives_are_learnt(photos):
    rejected = photos.loc[photos["tag"] == "night", ["id"]].assign(label="city", decision="reject")
    made = TableModel(**EASY, method="frequency").fit(photos, label="tag", decisions=rejected)
    assert made.facts_["decisions"]["rejected"] == len(rejected)


def test_indicator_columns_are_labels_too(photos):
    indicator = photos["tags"].str.get_dummies(";")
    table = pd.concat([photos[FEATURES], indicator], axis=1)
    settings = {"text": "caption", "method": "logistic", "params": {"l2": 1.0}, "validation_fraction": 0.0}
    by_name = TableModel(**settings).fit(table, labels=list(indicator.columns))
    by_tags = TableModel(**settings, separator=";").fit(photos[[*FEATURES, "tags"]], label="tags")
    assert (by_name.predict_proba(table) == by_tags.predict_proba(photos)).all(axis=None)
    assert by_name.facts_["held_out"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None}, "say which column holds the tags"),
        ({"label": "nosuch"}, r"no column 'nosuch' \(named as label\)"),
        ({"id": "nosuch"}, r"no column 'nosuch' \(named as id\)"),
        ({"method": "nosuch"}, "unknown method 'nosuch'"),
        ({"params": {"nosuch": 1}}, "method 'frequency' has no setting 'nosuch'"),
        ({"params": {"max_epochs": 2}}, r"no setting 'max_epochs' \(a setting of smile"),
        ({"n_positives": 9.0}, "n_positives"),
        ({"validation_fraction": 1.0}, "at least 0 and below 1"),
    ],
)
def test_mistakes_are_named(photos, changes, message):
    settings = EASY | {"method": "frequency", "label": "tag"} | changes
    label = settings.pop("label")
    with pytest.raises(ValueError, match=message):
        TableModel(**settings).fit(photos, label=label)


def test_the_mean_number_of_labels_sets_the_threshold(photos):
    params = {"max_epochs": 20, "early_stopping": False, "random_state": 0}
    settings = EASY | {"method": "an", "params": params, "validation_fraction": 0.0}
    plain = TableModel(**settings).fit(photos, label="tag")
    narrower = TableModel(**settings, n_positives=1.6).fit(photos, label="tag")
    assert (plain.predict_proba(photos) == narrower.predict_proba(photos)).all(axis=None)
    assert narrower.predict(photos).sum(axis=1).mean() == pytest.approx(1.6, abs=0.1)
    assert narrower.predict(photos).sum(axis=1).min() == 1
    assert plain.predict(photos).sum(axis=1).mean() == pytest.approx(2.0, abs=0.1)
    assert plain.thresholds_[0] < narrower.thresholds_[0]
    role = clone(plain).set_params(method="role", params={"max_epochs": 1}, n_positives=1.6).fit(photos, label="tag")
    assert role.estimator_.n_positives_ == 1.6


def test_columns_of_an_earlier_completion_are_no_features(photos):
    again = photos.assign(**{f"p({label})": 0.5 for label in ("beach", "city", "night")}, suggested=photos["tags"])
    made = TableModel(**EASY, method="frequency").fit(again, label="tag")
    assert list(made.encoder_.kinds_) == FEATURES
    assert "onepos complete writes" in made.encoder_.left_out_["suggested"]


def test_nor_are_some_of_them_or_those_of_other_labels(photos):
    # Labels may have been merged, added or corrected since, and columns deleted.
    for columns in ({"suggested": photos["tags"]}, {"p(beach)": 0.5, "p(forest)": 0.25}):
        again = photos.assign(**columns)
        made = TableModel(**EASY, method="frequency").fit(again, label="tag")
        assert list(made.encoder_.kinds_) == FEATURES
        assert set(columns) <= set(made.encoder_.left_out_)
    # A column with such a name that holds no shares is data.
    made = TableModel(**EASY, method="frequency").fit(photos.assign(**{"p(bar)": range(len(photos))}), label="tag")
    assert "p(bar)" in made.encoder_.kinds_


@pytest.mark.parametrize("what", ["label", "id"])
def test_no_column_is_called_as_that_of_predictions(photos, what):
    names = {"label": "tag", "id": "id"} | {what: "suggested"}
    table = photos.rename(columns={"tag" if what == "label" else "id": "suggested"})
    with pytest.raises(DataFileError, match="'suggested' is the name of a column that predictions have"):
        TableModel(method="frequency", id=names["id"]).fit(table, label=names["label"])


def test_labels_are_names_of_columns(photos):
    with pytest.raises(TypeError, match=r"label is the name of the column of tags, .*; got Series and NoneType"):
        TableModel(method="frequency").fit(photos, label=photos["tag"])
    with pytest.raises(TypeError, match="labels a list of names of 0/1 columns; got NoneType and DataFrame"):
        TableModel(method="frequency").fit(photos, labels=pd.get_dummies(photos["tag"]))


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        (
            "logistic",
            {"n_positives": "abc"},
            "'n_positives' parameter .* must be a number of at least 1 or None",
        ),
        ("an", {"batch_size": True}, "must be 'auto' or an integer of at least 1; got True"),
        ("forest", {"n_trees": True}, "must be an integer of at least 1; got True"),
        ("logistic", {"l2": {}}, "'l2' parameter of LogisticClassifier must be"),
    ],
)
def test_settings_of_a_wrong_kind(photos, method, settings, message):
    with pytest.raises(ValueError, match=message):
        TableModel(**EASY, method=method, params=settings).fit(photos, label="tag")


def test_the_number_of_labels_is_given_once(photos):
    with pytest.raises(ValueError, match="n_positives is given twice"):
        TableModel(method="logistic", n_positives=2, params={"n_positives": 1}).fit(photos, label="tag")


def test_two_rows_train_a_network():
    table = pd.DataFrame({"x": [1, 2], "tag": ["a", "b"]})
    model = TableModel(method="an", params={"max_epochs": 2}).fit(table, label="tag")
    assert model.facts_["held_out"] is None
    assert np.isfinite(model.predict_proba(table)).all(axis=None)


def test_a_loaded_model_can_be_trained_again(photos, tmp_path):
    again = photos.assign(suggested=photos["tags"])
    made = TableModel(**EASY, method="logistic", n_positives=1.5).fit(again, label="tag")
    loaded = onepos.load(made.save(tmp_path / "m.onepos")).fit(photos, label="tag")  # without the column of suggestions
    pd.testing.assert_frame_equal(loaded.predict_proba(photos), made.predict_proba(photos))


def test_a_column_that_the_user_names_is_used(photos):
    mine = photos.assign(suggested=photos["caption"]).drop(columns="caption")
    made = TableModel(method="frequency", text="suggested", id="id", drop=["tags"]).fit(mine, label="tag")
    assert made.encoder_.kinds_["suggested"] == "text"


def test_cells_that_hold_lists_of_tags(photos):
    lists = photos.assign(tags=photos["tags"].str.split(";").map(np.array))
    made = TableModel(**EASY, method="frequency").fit(lists.drop(columns="tag"), label="tags")
    expected = TableModel(**EASY, method="frequency", separator=";").fit(photos.drop(columns="tag"), label="tags")
    assert made.labels_ == expected.labels_
    assert made.facts_["counts"] == expected.facts_["counts"]
    # Lists are complete, so that they are measured with all measures.
    found = [
        evaluate_table(made, data, known_labels(made, data, label="tags", separator=sign))
        for data, sign in ((TableData(lists), None), (TableData(photos), ";"))
    ]
    assert found[0].complete_labels
    assert found[0].measures == found[1].measures


def test_not_trained():
    with pytest.raises(ValueError, match="not trained"):
        TableModel().predict(pd.DataFrame())


def test_a_table_is_a_data_frame(photos):
    with pytest.raises(FileNotFoundError, match=r"no such file: photos\.csv"):
        TableModel(method="frequency").fit("photos.csv", label="tag")
    with pytest.raises(TypeError, match="must be a pandas DataFrame; got ndarray"):
        TableModel(**EASY, method="frequency").fit(photos, label="tag").predict(photos.to_numpy())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_chunks_predict_what_the_whole_does(photos, model, tmp_path, suffix):
    # Gaps, unknown categories and flags that fall into one chunk only: types must not depend on the chunk.
    table = photos.drop(columns=["tag", "tags"]).assign(camera=["leica", *photos["camera"][1:]])
    table.loc[60:, "flash"] = None
    table.loc[40:50, "light"] = None
    path = tmp_path / f"new{suffix}"
    if suffix == ".parquet":
        table.to_parquet(path, row_group_size=17)
    else:
        table.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    whole, pieces = tmp_path / "whole.parquet", tmp_path / "pieces.parquet"
    said = [predict_file(model, path, out, chunk_rows=n) for out, n in ((whole, 1000), (pieces, 7))]
    assert said[0] == said[1]
    assert said[0].rows == 90
    assert any("never saw" in note for note in said[0].notes)
    # A matrix product of other shape may round the last bit of a double another way.
    pd.testing.assert_frame_equal(pd.read_parquet(whole), pd.read_parquet(pieces), rtol=1e-12)
    found = pd.read_parquet(whole)
    expected = model.predict_proba(table.astype({"flash": object}))
    assert found["id"].tolist() == photos["id"].tolist()
    np.testing.assert_allclose(found[[f"p({label})" for label in model.labels_]], expected, rtol=1e-12)


def test_output_parts(photos, model, tmp_path):
    photos.to_csv(tmp_path / "new.csv", index=False)
    for output, columns in (
        (Output(probabilities=False), ["id", "suggested"]),
        (Output(sets=False), ["id", "p(beach)", "p(city)", "p(night)"]),
    ):
        predict_file(model, tmp_path / "new.csv", tmp_path / "out.csv", output)
        assert list(pd.read_csv(tmp_path / "out.csv").columns) == columns
    predict_file(model, tmp_path / "new.csv", tmp_path / "out.tsv", Output(top=2))
    assert (pd.read_csv(tmp_path / "out.tsv", sep="\t")["suggested"].str.count(";") == 1).all()


def test_a_failed_prediction_leaves_the_old_file(photos, model, tmp_path):
    table = photos.astype({"width": object})
    table.loc[80, "width"] = "wide"
    table.to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(DataFileError, match="column 'width' must hold numbers"):
        predict_file(model, tmp_path / "new.csv", tmp_path / "out.csv", chunk_rows=10)
    assert (tmp_path / "out.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "out.csv"]


def test_whole_numbers_as_categories_are_the_same_with_and_without_a_point(tmp_path):
    # pandas writes integers of a column with a gap as 1.0.
    codes = pd.Series([1, 2, 3] * 10)
    tags = pd.Series(["a", "b", "c"] * 10)
    pd.DataFrame({"code": codes.astype(float).mask(codes.index == 4), "tag": tags}).to_csv(tmp_path / "a.csv")
    frame = read_table(tmp_path / "a.csv", words=["code"]).frame[["code", "tag"]]
    model = TableModel(method="frequency", categories="code").fit(frame, label="tag")
    tally = Tally()
    found = model.encoder_.transform(pd.DataFrame({"code": codes.astype(str)}), tally)
    np.testing.assert_array_equal(found, np.eye(3)[codes - 1])
    assert not tally.notes()


def test_labels_of_other_rows_are_refused(photos, model):
    known = known_labels(model, TableData(photos), label="tags", separator=";")
    with pytest.raises(ValueError, match="must be of the same rows"):
        copy.deepcopy(model).calibrate(photos.iloc[::-1], known.table)
    with pytest.raises(ValueError, match="must be of the same rows"):
        evaluate_table(model, TableData(photos.iloc[::-1]), known)


def test_of_many_labels_the_best_ones_are_written(tmp_path, monkeypatch):
    words = np.random.default_rng(0).integers(0, 9, (300, 3))
    frame = pd.DataFrame(
        {"text": [" ".join(f"w{word}" for word in row) for row in words], "tag": words[:, 0].astype(str)}
    )
    model = TableModel(method="centroid", text="text").fit(frame, label="tag")
    frame.iloc[:7].to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.setattr("onepos.table.prediction.MANY_LABELS", 5)
    monkeypatch.setattr("onepos.table.prediction.TOP", 4)
    monkeypatch.setattr("onepos.table.prediction._CHUNK_NUMBERS", 18)  # two rows at a time
    done = predict_file(model, tmp_path / "new.csv", tmp_path / "out.csv")
    assert done.rows == 7
    assert done.notes[-1].startswith("the 4 best of 9 labels are written")
    expected = model.predict_proba(frame.iloc[:7])
    written = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert written.columns.tolist() == ["row", "suggested", "p(suggested)"]
    for (_, row), (_, shares) in zip(written.iterrows(), expected.iterrows(), strict=True):
        best = shares.sort_values(ascending=False, kind="stable")[:4]
        assert row["suggested"].split(";") == best.index.tolist()
        assert np.allclose([float(share) for share in row["p(suggested)"].split(";")], best, rtol=1e-5)
    predict_file(model, tmp_path / "new.csv", tmp_path / "two.csv", Output(probabilities=False, top=2))
    assert [len(tags.split(";")) for tags in pd.read_csv(tmp_path / "two.csv")["suggested"]] == [2] * 7


def test_sparse_labels_of_a_table_give_the_same_model(monkeypatch):
    words = np.random.default_rng(1).integers(0, 9, (300, 3))
    frame = pd.DataFrame(
        {"text": [" ".join(f"w{word}" for word in row) for row in words], "tag": words[:, 0].astype(str)}
    )
    dense = TableModel(method="centroid", text="text").fit(frame, label="tag")
    for module in ("onepos._utils.validation", "onepos.table.tags"):
        monkeypatch.setattr(f"{module}.DENSE_LABELS", 10)
    few = TableModel(method="centroid", text="text").fit(frame, label="tag")
    assert np.allclose(few.predict_proba(frame), dense.predict_proba(frame))
    assert few.facts_ == dense.facts_
    assert few.estimator_.classes_.tolist() == dense.estimator_.classes_.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_folder_is_predicted_and_completed_file_by_file(photos, model, tmp_path, suffix):
    parts = {"a": photos.iloc[:20], "b": photos.iloc[20:]}
    (tmp_path / "in").mkdir()
    for name, part in parts.items():
        path = tmp_path / "in" / f"{name}{suffix}"
        if suffix == ".csv":
            part.to_csv(path, index=False)
        elif suffix == ".parquet":
            part.to_parquet(path)
        else:
            path.write_text(part.to_json(orient="records", lines=True))
    ending = suffix if suffix != ".jsonl" else ".jsonl.csv"
    done = predict_file(model, tmp_path / "in", tmp_path / "out", chunk_rows=7)
    completed = complete_file(model, tmp_path / "in", tmp_path / "completed", chunk_rows=7)
    assert done.rows == completed.rows == len(photos)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"a{ending}", f"b{ending}"]
    for name, part in parts.items():
        for folder in ("out", "completed"):
            made = read_table(tmp_path / folder / f"{name}{ending}").frame
            scores = made[[f"p({label})" for label in model.labels_]].to_numpy()
            np.testing.assert_allclose(scores, model.predict_proba(part), rtol=1e-5)
        whole = complete_table(model, TableData(part.reset_index(drop=True))).suggested
        assert made["suggested"].tolist() == whole
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFileError, match="so must be the output"):
        predict_file(model, tmp_path / "in", tmp_path / "file")
