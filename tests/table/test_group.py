"""Rows of one thing: their tags are joined, and no thing is on both sides of a split."""

import numpy as np
import pandas as pd
import pytest

import onepos
from onepos.exceptions import DataFileError
from onepos.table import TableModel
from onepos.table.tags import join_things, split_tags


def records(n_things=200, seed=0, shuffle=True):
    """Two to four rows per thing, each with one of its labels; features are those of the thing."""
    random = np.random.default_rng(seed)
    X, Y = random.normal(size=(n_things, 3)), random.random((n_things, 4)) < 0.6
    Y[~Y.any(axis=1), 0] = True
    thing = np.repeat(np.arange(n_things), random.integers(2, 5, n_things))
    frame = pd.DataFrame(X[thing], columns=list("xyz"))
    frame["place"] = [f"p{number}" for number in thing]
    frame["tag"] = np.array(list("abcd"))[np.where(Y[thing], random.random((len(thing), 4)), -1).argmax(axis=1)]
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True) if shuffle else frame


def test_joined_as_pandas_joins():
    frame = records()
    joined = join_things(frame, split_tags(frame["tag"], None), "place", ["tag"])
    by_hand = pd.crosstab(frame["place"], frame["tag"]).clip(upper=1)
    assert joined.frame["place"].tolist() == frame["place"].drop_duplicates().tolist()
    assert np.array_equal(joined.indicator, by_hand.loc[joined.frame["place"]])
    assert (joined.frame["place"].to_numpy()[joined.of_row] == frame["place"]).all()
    assert joined.note == f"{len(frame)} rows describe 200 things ('place'), whose tags are joined"


def test_rows_without_a_value_stay_alone_and_rejected_labels_too():
    frame = pd.DataFrame({"g": ["u", None, "u", None, "u"], "x": [1.0, 2.0, 3.0, 4.0, 1.0]})
    indicator = pd.DataFrame({"a": [1, 1, 0, 0, -1], "b": [0, 0, -1, 0, 0], "c": [0, 0, 0, -1, 0]})
    joined = join_things(frame, indicator, "g", [])
    assert joined.of_row.tolist() == [0, 1, 0, 2, 0]
    assert joined.indicator.to_numpy().tolist() == [[1, -1, 0], [1, 0, 0], [0, 0, -1]]
    assert "1 of these have rows that differ" in joined.note
    with pytest.raises(DataFileError, match="nothing"):
        join_things(frame, indicator, "nothing", [])


@pytest.mark.parametrize("group", ["place", None])
def test_no_thing_is_on_both_sides(group):
    """With the group by its name; without, since its rows have the same features."""
    frame = records()
    model = TableModel(method="logistic", params={"l2": 1.0}, group=group, drop="place", validation_fraction=0.2)
    model.fit(frame, label="tag")
    held = frame.index.isin(model.held_out_)
    assert 0.1 < held.mean() < 0.3
    assert not set(frame["place"][held]) & set(frame["place"][~held])
    assert model.facts_["training_rows"] == (frame["place"][~held].nunique() if group else (~held).sum())
    assert "place" not in model.encoder_.kinds_


def test_the_same_as_a_fit_on_joined_rows(tmp_path):
    frame = records()
    settings = {"method": "logistic", "params": {"l2": 1.0}, "validation_fraction": 0.0}
    model = TableModel(**settings, group="place").fit(frame, label="tag")
    sets = frame.groupby("place", sort=False)["tag"].agg(lambda tags: ";".join(sorted(set(tags))))
    by_hand = frame.drop_duplicates("place").assign(tag=sets.to_numpy())
    other = TableModel(**settings, separator=";", drop="place").fit(by_hand, label="tag")
    assert np.array_equal(model.predict_proba(frame), other.predict_proba(frame))
    again = onepos.load(model.save(tmp_path / "m"))
    assert np.array_equal(again.predict_proba(frame.drop(columns="place")), model.predict_proba(frame))


def test_a_folder_has_groups(tmp_path):
    frame = records()
    for number, part in enumerate((frame.iloc[:50], frame.iloc[50:])):
        part.to_parquet(tmp_path / f"{number}.parquet")
    settings = {"method": "frequency", "group": "place"}
    models = [TableModel(**settings).fit(table, label="tag") for table in (frame, tmp_path)]
    assert models[0].facts_ == models[1].facts_
