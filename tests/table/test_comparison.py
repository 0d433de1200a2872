"""Held-out tags: how a model compares with simpler ones; the size of label sets; the time that is left."""

import time

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from sklearn.metrics import precision_recall_fscore_support

import onepos
from onepos._utils.context import deadline
from onepos.exceptions import DataFileError, LabelWarning
from onepos.table import TableModel, known_labels, read_table
from onepos.table.evaluation import set_scores
from onepos.table.facts import BASELINE, comparison, rank_held_out
from onepos.table.training import fit_in_time
from photo_table import photo_table

EASY = {"text": "caption", "id": "id", "drop": ["tags"]}


@pytest.fixture(scope="module")
def photos():
    return photo_table(300)


@pytest.fixture(scope="module")
def model(photos):
    return TableModel(**EASY, method="an", params={"max_epochs": 3}).fit(photos, label="tag")


def test_baselines_are_fitted_on_the_same_rows(photos, model):
    found = model.facts_["held_out"]
    assert list(found["methods"]) == ["an", "frequency", BASELINE]
    assert (found["rows"], found["out_of_fold"]) == (len(model.held_out_), False)
    kept = photos.drop(index=model.held_out_)
    tagged = photos.iloc[model.held_out_]
    # Frequency by hand: the rank of a tag is its place among the counts.
    counts = kept["tag"].value_counts()
    order = sorted(counts.index, key=lambda tag: (-counts[tag], tag))
    by_hand = np.mean([1.0 / (1 + order.index(tag)) for tag in tagged["tag"]])
    assert found["methods"]["frequency"]["reciprocal_rank"] == pytest.approx(by_hand)
    assert found["reciprocal_rank_by_frequency"] == pytest.approx(by_hand)
    features = model.encoder_.transform(photos)
    tags = pd.DataFrame({name: (kept["tag"] == name).astype(int) for name in model.labels_})
    with pytest.warns(LabelWarning, match="no observed positive"):
        simple = onepos.make_classifier(BASELINE, random_state=0).fit(features[kept.index], tags)
    seen = np.array([[tag == name for name in model.labels_] for tag in tagged["tag"]], dtype=np.int8)
    assert found["methods"][BASELINE] == rank_held_out(simple, features[model.held_out_], seen)
    assert not found["barely_beats_frequency"]


def test_the_likelihood_is_that_of_the_best_temperature():
    class Fixed:
        def decision_function(self, features):
            return features

    random = np.random.default_rng(0)
    logits = random.normal(size=(200, 4))
    seen = np.eye(4, dtype=np.int8)[random.integers(0, 4, 200)]
    seen[:150] = np.eye(4, dtype=np.int8)[logits[:150].argmax(axis=1)]
    ranks = rank_held_out(Fixed(), logits, seen)
    standard = (logits - logits.mean(axis=1, keepdims=True)) / logits.std(axis=1, keepdims=True)
    by_grid = max((log_softmax(tau * standard, axis=1) * seen).sum(axis=1).mean() for tau in np.linspace(0.1, 10, 2000))
    assert ranks["log_likelihood"] == pytest.approx(by_grid, abs=1e-5)
    assert ranks["recall_at_1"] == (seen[np.arange(200), logits.argmax(axis=1)] == 1).mean()


@pytest.mark.parametrize(
    ("gain", "likelier", "barely"), [(0.1, 0.3, False), (0.001, 0.3, True), (0.1, 0.001, True), (-0.1, -0.2, True)]
)
def test_a_model_that_barely_beats_frequency_is_told(gain, likelier, barely):
    frequency = {"reciprocal_rank": 0.4, "log_likelihood": -2.0}
    own = {"reciprocal_rank": 0.4 + gain, "log_likelihood": -2.0 + likelier}
    found = comparison("an", {"an": own, "frequency": frequency}, rows=10, out_of_fold=False)
    assert found["barely_beats_frequency"] is barely


def test_auto_is_the_default_and_holds_nothing_out(photos, monkeypatch):
    """auto predicts its training rows out of fold itself, and its comparison is what the facts show."""
    auto = onepos.AutoClassifier
    told = {"rows": 299, "methods": {key: {"reciprocal_rank": r, "log_likelihood": -r} for key, r in
                                     (("auto", 0.9), ("frequency", 0.6), ("logistic", 0.8))}}  # fmt: skip
    seen = {}

    def fit(self, X, y, **arguments):
        seen.update(rows=X.shape[0], budget=self.time_budget, seed=self.random_state)
        members = onepos.AutoClassifier(methods=("frequency", "logistic"), time_budget=None, n_folds=1, random_state=0)
        original(members, X, y)
        self.__dict__.update({name: value for name, value in vars(members).items() if name.endswith("_")})
        self.comparison_ = told
        return self

    original = auto.fit
    monkeypatch.setattr(auto, "fit", fit)
    model = TableModel(**EASY).fit(photos, label="tag")
    assert model.facts_["method"] == "auto"
    assert (seen["rows"], seen["seed"]) == (300, 0)
    assert 0 < seen["budget"] <= onepos.AutoClassifier().time_budget == model.estimator_.time_budget
    assert model.facts_["held_out_rows"] == 0
    found = model.facts_["held_out"]
    assert (found["methods"], found["rows"], found["out_of_fold"]) == (told["methods"], 299, True)
    assert TableModel(**EASY, validation_fraction=0.2).fit(photos, label="tag").facts_["held_out_rows"] == 60


class Budgeted:
    """An estimator that remembers how much time it was given."""

    def __init__(self, time_budget):
        self.time_budget = time_budget

    def get_params(self, deep=True):
        return {"time_budget": self.time_budget}

    def set_params(self, **params):
        self.time_budget = params["time_budget"]

    def fit(self, X, y):
        self.given = self.time_budget


def test_time_that_has_passed_is_taken_from_the_budget():
    estimator = Budgeted(60.0)
    fit_in_time(estimator, None, None, started=time.monotonic() - 20.0)
    assert estimator.given <= 40.0
    assert estimator.time_budget == 60.0
    with deadline(time.monotonic() + 15.0):
        fit_in_time(estimator, None, None, started=time.monotonic())
    assert estimator.given <= 15.0
    fit_in_time(estimator, None, None, started=time.monotonic() - 100.0)
    assert estimator.given == 9.0
    unlimited = Budgeted(None)
    fit_in_time(unlimited, None, None, started=0.0)
    assert unlimited.given is None


@pytest.mark.parametrize("method", ["logistic", "frequency", "an"])
def test_sets_have_the_size_that_was_asked_for(photos, method):
    params = {"max_epochs": 3} if method == "an" else {}
    model = TableModel(**EASY, method=method, params=params, n_positives=1.5, validation_fraction=0.4).fit(
        photos, label="tag"
    )
    sets = model.facts_["sets"]
    assert (sets["n_positives"], sets["guessed"]) == (1.5, False)
    if method != "frequency":  # there all rows have the same set
        assert sets["mean_size"] == pytest.approx(1.5, rel=0.1)
    assert model.predict(photos.iloc[model.held_out_]).to_numpy().sum(axis=1).mean() == sets["mean_size"]


def test_no_set_is_empty_unless_asked_for(photos):
    settings = EASY | {"method": "logistic", "params": {"l2": 10.0}, "n_positives": 1.0}
    never = TableModel(**settings).fit(photos, label="tag")
    assert (never.predict(photos).sum(axis=1) >= 1).all()
    may = TableModel(**settings, at_least_one=False).fit(photos, label="tag")
    sets = may.predict(photos)
    assert (sets.sum(axis=1) == 0).any()
    np.testing.assert_array_equal(sets, may.predict_proba(photos) >= may.thresholds_)
    assert may.facts_["sets"]["mean_size"] == pytest.approx(1.0, rel=0.1)  # as asked for, empty sets included


def test_two_labels_are_guessed_if_nothing_is_known(photos):
    model = TableModel(**EASY, method="frequency").fit(photos, label="tag")
    assert model.facts_["sets"] == {"mean_size": 2.0, "n_positives": None, "guessed": True}
    frequent = photos["tag"].value_counts().index[:2]
    assert set(model.predict(photos).columns[model.predict(photos).all()]) == set(frequent)


def test_set_scores_are_those_of_scikit_learn():
    random = np.random.default_rng(0)
    truth, sets = (random.random((2, 50, 6)) < 0.3).astype(int)
    truth[:, 5] = sets[:, 5] = 0  # neither true nor suggested anywhere: not in the mean of labels
    found = set_scores(sets, truth)
    for average, labels in (("micro", slice(None)), ("macro", slice(5))):
        expected = precision_recall_fscore_support(truth[:, labels], sets[:, labels], average=average, zero_division=0)
        values = [found[f"{average}_{name}"] for name in ("precision", "recall", "f1")]
        np.testing.assert_allclose(values, expected[:3])
    assert found["mean_size"] == sets.sum() / 50
    assert found["true_mean_size"] == truth.sum() / 50


def test_several_tags_in_a_cell(photos, tmp_path):
    joined = photos.drop(columns="tag")
    model = TableModel(separator="; ", text="caption", id="id", method="logistic").fit(joined, label="tags")
    assert model.labels_ == ["beach", "city", "night"]
    dummies = photos["tags"].str.get_dummies(";")
    assert model.facts_["counts"] == dummies.sum().to_dict()
    by_indicator = TableModel(text="caption", id="id", method="logistic").fit(
        joined.drop(columns="tags").join(dummies), labels=list(dummies)
    )
    pd.testing.assert_frame_equal(model.predict_proba(joined), by_indicator.predict_proba(joined))
    loaded = TableModel.load(model.save(tmp_path / "m.onepos"))
    assert loaded.separator_ == "; "
    joined.to_csv(tmp_path / "t.csv", index=False)
    # Without a separator cells are read as in training, and are not taken for complete.
    assert not known_labels(loaded, read_table(tmp_path / "t.csv"), label="tags").complete


def test_tags_that_look_joined_are_warned_about(photos):
    with pytest.warns(LabelWarning, match=r"3 of 6 distinct tags contain ';': name it as the separator"):
        TableModel(text="caption", method="frequency").fit(photos.drop(columns="tag"), label="tags")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"label": "tag", "id": "tag"}, "'tag' is named as id and as label"),
        ({"label": "tag", "id": "caption", "text": "caption"}, "'caption' is named as id and as text"),
        ({"labels": ["flash"], "separator": ";"}, "a separator says how the tags of the label column are joined"),
    ],
)
def test_columns_named_twice(photos, names, message):
    places = {name: names[name] for name in ("label", "labels") if name in names}
    settings = {name: value for name, value in names.items() if name not in places}
    with pytest.raises(DataFileError, match=message):
        TableModel(**settings, method="frequency").fit(photos, **places)
