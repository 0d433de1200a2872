"""Label sets after fit: n_positives is honoured by every method, guesses are called guesses, no set is empty."""

import numpy as np
import pytest

import onepos
from method_kinds import long_for_others
from onepos.datasets import make_known_posterior
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import METHODS, make_classifier

#: Methods that end their fit with the cut of the base class.
KEYS = [
    key for key, method in METHODS.items() if issubclass(method.load_class(), NeuralClassifier) or key == "frequency"
]
ROWS = 1200


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(ROWS + 800, 6, 8, n_positives=3.0, signal=4.0, random_state=1)


def _fitted(key, data, **settings):
    model = make_classifier(key)
    known = model.get_params()
    settings = {"max_epochs": 2, "random_state": 0, "early_stopping": True} | settings
    model.set_params(**{name: value for name, value in settings.items() if name in known})
    return model.fit(data.X[:ROWS], (data.Y if key == "bce" else data.observed)[:ROWS])


@pytest.mark.parametrize("key", long_for_others(KEYS))
def test_new_rows_have_as_many_labels_as_were_asked_for(key, data):
    """Within ten in a hundred on rows that fit has not seen; a constant ranking has sets of one size."""
    model = _fitted(key, data, n_positives=2.0)
    sizes = model.predict(data.X[ROWS:]).sum(axis=1)
    assert sizes.mean() == pytest.approx(2.0, rel=0.1)
    assert sizes.min() >= 1
    assert (model.n_positives_, model.n_positives_from_) == (2.0, "given")


def test_a_guess_is_called_one(data):
    model = _fitted("an", data)
    assert (model.n_positives_, model.n_positives_from_) == (2.0, "default")
    assert model.history_.facts["n_positives_from"] == "default"
    assert model.history_.facts["thresholds_from"] == "held-out rows"


@pytest.mark.parametrize("key", ["an", "frequency"])
def test_complete_validation_labels_tell_the_number(key, data):
    model = make_classifier(key)
    rows = slice(ROWS, ROWS + 300)
    model.fit(data.X[:ROWS], data.observed[:ROWS], validation=(data.X[rows], data.Y[rows]), validation_labels="full")
    assert model.n_positives_from_ == "validation"
    assert model.n_positives_ == pytest.approx(data.Y[rows].sum(axis=1).mean(), abs=0.1)


def test_complete_labels_tell_the_number(data):
    model = _fitted("bce", data)
    assert model.n_positives_ == pytest.approx(data.Y[:ROWS].sum(axis=1).mean(), abs=0.1)


def test_training_rows_are_named_where_no_others_are(data):
    assert _fitted("an", data, early_stopping=False).thresholds_from_ == "training rows"
    assert _fitted("logistic", data, l2=1.0).thresholds_from_ == "training rows"


def test_empty_sets_only_if_asked_for(data):
    for at_least_one in (True, False):
        model = _fitted("an", data, n_positives=1.0, at_least_one=at_least_one)
        sizes = model.predict(data.X[ROWS:]).sum(axis=1)
        assert (sizes.min() >= 1) == at_least_one


def test_one_class_per_row_has_no_sets(data):
    model = make_classifier("an", max_epochs=1, random_state=0).fit(data.X[:300], data.observed[:300].argmax(axis=1))
    assert not hasattr(model, "thresholds_")
    assert (model.n_positives_, model.n_positives_from_) == (1.0, "one class")


def test_a_model_file_keeps_the_sets(data, tmp_path):
    model = _fitted("an", data, n_positives=3.0)
    again = onepos.load(model.save(tmp_path / "model.onepos"))
    assert np.array_equal(again.predict(data.X), model.predict(data.X))


def test_too_many_labels_are_refused(data):
    with pytest.raises(ValueError, match="between 1 and 8"):
        _fitted("frequency", data, n_positives=9.0)
