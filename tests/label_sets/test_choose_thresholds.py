"""Thresholds of a fitted model: what predict returns follows the fact that was given."""

import numpy as np
import pandas as pd
import pytest

import onepos
from onepos.datasets import make_known_posterior
from onepos.label_sets.thresholds import label_rates


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(600, 6, 5, random_state=4)


@pytest.fixture
def model(data):
    Y = pd.DataFrame(data.observed, columns=list("abcde"))
    return onepos.make_classifier("an", max_epochs=5, random_state=0).fit(data.X, Y)


def test_given_the_number_of_positives(model, data):
    assert (model.predict_proba(data.X) >= 0.5).sum(axis=1).mean() < 1  # too low for ½
    sets = model.choose_thresholds(data.X, n_positives=2.2, at_least_one=False).predict(data.X)
    assert sets.sum(axis=1).mean() == pytest.approx(2.2, abs=0.01)
    assert len(set(model.thresholds_)) == 1


def test_no_row_is_left_empty(model, data):
    """What each row has in any case counts, so that the mean is kept."""
    sizes = model.choose_thresholds(data.X, n_positives=1.5).predict(data.X).sum(axis=1)
    assert sizes.min() == 1
    assert sizes.mean() == pytest.approx(1.5, abs=0.01)


def test_given_rates(model, data):
    rates = label_rates(data.observed, 2.0)
    sets = model.choose_thresholds(data.X, rates=dict(zip("abcde", rates, strict=True)), at_least_one=False)
    assert np.allclose(sets.predict(data.X).mean(axis=0), rates, atol=0.01)
    with pytest.raises(ValueError, match="missing: b, c"):
        model.choose_thresholds(data.X, rates={"a": 0.5, "d": 0.5, "e": 0.1})


def test_given_complete_labels(model, data):
    half = len(data.X) // 2
    Y = (data.posterior[:half] > 0.5).astype(int)
    before = np.mean(model.predict(data.X[:half]) == Y)
    model.choose_thresholds(data.X[:half], labels=Y, measure="hamming", at_least_one=False)
    assert np.mean(model.predict(data.X[:half]) == Y) > before


def test_a_new_fit_forgets_them(model, data):
    before = model.thresholds_
    model.choose_thresholds(data.X, n_positives=4)
    assert (model.thresholds_ != before).all()
    model.fit(data.X, data.observed)
    assert (model.thresholds_ == before).all()
    assert model.thresholds_from_ == "rows left out of folds"


def test_clear_errors(model, data):
    with pytest.raises(ValueError, match="exactly one of"):
        model.choose_thresholds(data.X)
    with pytest.raises(ValueError, match="exactly one of"):
        model.choose_thresholds(data.X, n_positives=2, rates=[0.5] * 5)
    single = onepos.make_classifier("frequency").fit(data.X, data.observed.argmax(axis=1))
    with pytest.raises(ValueError, match="one class per row"):
        single.choose_thresholds(data.X, n_positives=1)
