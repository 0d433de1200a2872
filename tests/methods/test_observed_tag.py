"""Any classifier on the given tags: scikit-learn's checks and ours, weights, smoothing, files, the registry."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import onepos
from onepos import ObservedTagClassifier
from onepos.datasets import make_known_posterior
from onepos.exceptions import ModelFileError
from onepos.label_sets.pooling import marginal_logits
from onepos.metrics import average_precision
from onepos.table import TableModel
from onepos.testing import yield_onepos_checks
from photo_table import photo_table

DATA = make_known_posterior(400, 6, 4, random_state=0)
X, Y, OBSERVED = DATA.X, np.asarray(DATA.Y), DATA.observed.astype(np.int8)
INNER = {
    "logistic": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


def lightgbm():
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, num_leaves=7, verbose=-1, n_jobs=1)


try:
    INNER["lightgbm"] = lightgbm()
except pytest.skip.Exception:
    INNER["lightgbm"] = None


def _checks():
    for name, inner in INNER.items():
        if inner is None:
            yield pytest.param(None, None, id=name, marks=pytest.mark.skip(reason="pip install lightgbm"))
            continue
        estimator = ObservedTagClassifier(estimator=inner, random_state=0)
        for made, check in estimator_checks_generator(estimator):
            yield pytest.param(made, check, id=f"{name}-{getattr(check, 'func', check).__name__}")
        for ours, check in yield_onepos_checks(estimator):
            yield pytest.param(estimator, check, id=f"{name}-{ours}")


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore")  # the checks feed odd data on purpose; their own assertions look at warnings
def test_checks_of_scikit_learn_and_ours(estimator, check):
    check(estimator)


def test_shares_are_those_of_the_classifier_smoothed():
    model = ObservedTagClassifier(estimator=GaussianNB(), smoothing=0.2, n_positives=1.5).fit(X, OBSERVED)
    tags = OBSERVED.argmax(axis=1)
    frequency = (np.bincount(tags) + 0.5) / (len(tags) + 2)
    shares = 0.8 * GaussianNB().fit(X, tags).predict_proba(X) + 0.2 * frequency
    np.testing.assert_allclose(model.decision_function(X), marginal_logits(np.log(shares), 1.5), atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.5)


@pytest.mark.parametrize("name", ["logistic", "pipeline"])
def test_a_row_with_several_tags_shares_its_weight(name):
    several = OBSERVED.copy()
    several[:40] = Y[:40]
    several[50:60] = 0  # no tag
    several[60, several[60] == 0] = -1  # known absent
    with pytest.warns(onepos.exceptions.LabelWarning, match="10 of 400 rows"):
        model = ObservedTagClassifier(estimator=INNER[name], smoothing=0.01).fit(X, several)
    rows, tags = np.nonzero(several > 0)
    weights = 1.0 / (several > 0).sum(axis=1)[rows]
    assert len(rows) > len(several) - 10
    if name == "pipeline":
        expected = INNER[name].fit(X[rows], tags, logisticregression__sample_weight=weights)
    else:
        expected = LogisticRegression().fit(X[rows], tags, sample_weight=weights)
    np.testing.assert_allclose(model.estimator_.predict_proba(X), expected.predict_proba(X), atol=1e-6)


def test_a_classifier_without_weights_gets_copies():
    several = OBSERVED.copy()
    several[:40] = Y[:40]
    model = ObservedTagClassifier(estimator=KNeighborsClassifier(), smoothing=0.01).fit(X, several)
    rows, tags = np.nonzero(several > 0)
    expected = KNeighborsClassifier().fit(X[rows], tags).predict_proba(X)
    np.testing.assert_array_equal(model.estimator_.predict_proba(X), expected)


def test_smoothing_is_chosen_by_held_out_tags():
    noise = np.random.default_rng(0).standard_normal((300, 30))
    tags = np.eye(4, dtype=int)[np.random.default_rng(1).choice(4, 300, p=[0.5, 0.3, 0.15, 0.05])]
    knows = ObservedTagClassifier(estimator=LogisticRegression(), random_state=0).fit(X, OBSERVED)
    guesses = ObservedTagClassifier(estimator=KNeighborsClassifier(1), random_state=0).fit(noise, tags)
    assert knows.smoothing_ < 0.3
    assert guesses.smoothing_ == 1.0  # the ranking by frequency
    assert np.ptp(guesses.decision_function(noise), axis=0).max() < 1e-9


def test_a_label_that_nobody_gave_keeps_a_share():
    observed = np.hstack([OBSERVED, np.zeros((len(X), 1), dtype=OBSERVED.dtype)])
    with pytest.warns(onepos.exceptions.LabelWarning):
        model = ObservedTagClassifier(random_state=0).fit(X, observed)
    assert 0 < model.predict_proba(X)[:, 4].max() < 0.05


def test_ranking_follows_the_truth_as_well_as_our_own():
    own = onepos.make_classifier("logistic", random_state=0).fit(X[:300], OBSERVED[:300])
    model = ObservedTagClassifier(random_state=0).fit(X[:300], OBSERVED[:300])
    assert average_precision(Y[300:], model.decision_function(X[300:])) == pytest.approx(
        average_precision(Y[300:], own.decision_function(X[300:])), abs=0.02
    )


def test_random_state_seeds_what_is_unset():
    forest = make_pipeline(StandardScaler(), ExtraTreesClassifier(5))
    first, second, other = (
        ObservedTagClassifier(estimator=forest, smoothing=0.01, random_state=seed).fit(X, OBSERVED).predict_proba(-X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    assert forest.get_params()["extratreesclassifier__random_state"] is None


def test_a_file_of_it_is_refused_with_the_reason(tmp_path):
    model = ObservedTagClassifier(random_state=0).fit(X, OBSERVED)
    with pytest.raises(ModelFileError, match=r"classifier of your own, which only pickle can store.*runs code"):
        model.save(tmp_path / "m.onepos")
    assert not list(tmp_path.iterdir())


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)


def test_mistakes():
    with pytest.raises(TypeError, match="estimator must be a classifier with predict_proba"):
        ObservedTagClassifier(estimator=StandardScaler()).fit(X, OBSERVED)
    with pytest.raises(ValueError, match="predict_proba of Broken must return numbers from 0 to 1; got NaN"):
        ObservedTagClassifier(estimator=Broken()).fit(X, OBSERVED)


class TestByName:
    KEY = "sklearn.ensemble:ExtraTreesClassifier"

    def test_a_class_is_wrapped(self):
        model = onepos.make_classifier(self.KEY, estimator__n_estimators=7, n_positives=1.5)
        assert isinstance(model, ObservedTagClassifier)
        assert model.estimator.n_estimators == 7
        assert model.n_positives == 1.5

    def test_in_tables(self):
        photos = photo_table().drop(columns="tags")
        model = TableModel(method=self.KEY, text="caption", id="id", params={"estimator__n_estimators": 20})
        model.fit(photos, label="tag")
        probabilities = model.predict_proba(photos)
        assert isinstance(probabilities, pd.DataFrame)
        assert set(model.facts_["held_out"]["methods"]) >= {self.KEY, "frequency"}

    def test_on_the_command_line(self, run, tmp_path):
        photo_table().drop(columns="tags").to_csv(tmp_path / "photos.csv", index=False)
        columns = ("--label", "tag", "--id", "id", "--text", "caption", "--method", self.KEY)
        code, _, err = run("fit", tmp_path / "photos.csv", *columns, "--out", tmp_path / "m.onepos")
        assert code == 2
        assert "only pickle can store" in err.splitlines()[-1]
        assert "training" not in err  # the message comes before the training
        small = ("--set", "estimator__n_estimators=5")
        code, _, err = run("complete", tmp_path / "photos.csv", *columns, *small, "--out", tmp_path / "c.csv")
        assert code == 0, err
        assert "suggested" in pd.read_csv(tmp_path / "c.csv").columns
