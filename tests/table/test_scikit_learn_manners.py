"""A TableModel among scikit-learn's tools: ``fit(X, y)``, ``score``, thresholds, searches and cross-validation."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from onepos import TableModel
from photo_table import photo_table

EASY = {"method": "logistic", "params": {"l2": 1.0}, "text": "caption", "id": "id"}


@pytest.fixture(scope="module")
def photos():
    return photo_table(120)


@pytest.fixture(scope="module")
def columns(photos):
    return photos.drop(columns=["tag", "tags"])


@pytest.mark.parametrize("kind", [lambda tags: tags, lambda tags: tags.to_numpy(), list])
def test_tags_may_come_beside_the_table(photos, columns, kind):
    beside = TableModel(**EASY).fit(columns, kind(photos["tag"]))
    within = TableModel(**EASY, drop="tags").fit(photos, label="tag")
    pd.testing.assert_frame_equal(beside.predict_proba(columns), within.predict_proba(columns))


def test_0_1_columns_beside_the_table(photos, columns):
    sets = photos["tags"].str.get_dummies(";")
    beside = TableModel(**EASY).fit(columns, sets)
    within = TableModel(**EASY).fit(columns.join(sets), labels=list(sets))
    pd.testing.assert_frame_equal(beside.predict_proba(columns), within.predict_proba(columns))


def test_the_score_is_scikit_learn_s_average_precision(photos, columns):
    model = TableModel(**EASY).fit(columns, photos["tag"])
    probabilities = model.predict_proba(columns)
    sets = photos["tags"].str.get_dummies(";")
    expected = label_ranking_average_precision_score(sets, probabilities)
    assert model.score(columns, sets) == pytest.approx(expected)
    assert model.score(columns, sets[sets.columns[::-1]]) == pytest.approx(expected)
    tagged = photos["tag"].notna()
    ranks = probabilities.rank(axis=1, ascending=False, method="max")[tagged]
    own = [1 / ranks.loc[row, tag] for row, tag in photos["tag"][tagged].items()]
    assert model.score(columns, photos["tag"]) == pytest.approx(np.mean(own))


def test_thresholds_for_sets_of_a_size(photos, columns, tmp_path):
    model = TableModel(**EASY).fit(columns, photos["tag"])
    assert model.choose_thresholds(columns, n_positives=1.4) is model
    sets = model.predict(columns)
    assert sets.to_numpy().sum(axis=1).mean() == pytest.approx(1.4, abs=0.05)
    again = TableModel.load(model.save(tmp_path / "m.onepos"))
    pd.testing.assert_frame_equal(again.predict(columns), sets)
    assert again.facts_["sets"] == model.facts_["sets"]
    model.choose_thresholds(columns, labels=photos["tags"].str.get_dummies(";"))
    assert len(set(model.thresholds_)) > 1


def test_grid_search_and_cross_validation(photos, columns):
    tagged = photos["tag"].notna()
    table, tags = columns[tagged], photos.loc[tagged, "tag"]
    search = GridSearchCV(TableModel(**EASY), {"method": ["frequency", "logistic"], "params": [{}]}, cv=3)
    search.fit(table, tags)
    assert search.best_params_["method"] == "logistic"
    assert search.predict(table).shape == (len(table), 3)
    folds = KFold(3)
    model = TableModel(**EASY)
    by_hand = [
        clone(model).fit(table.iloc[train], tags.iloc[train]).score(table.iloc[test], tags.iloc[test])
        for train, test in folds.split(table)
    ]
    np.testing.assert_array_equal(cross_val_score(model, table, tags, cv=folds), by_hand)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"label": "camera"}, "given twice"),
        ({"y": ["beach"]}, "for each of 120 rows"),
        ({"y": pd.Series(["beach", "city"] * 60, name="camera")}, "'camera', as y has. Drop it"),
    ],
)
def test_what_does_not_fit_is_said(photos, columns, more, message):
    with pytest.raises(ValueError, match=message):
        TableModel(**EASY).fit(columns, **{"y": photos["tag"]} | more)
