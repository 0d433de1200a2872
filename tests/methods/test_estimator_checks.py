"""The library's own estimator checks: every method passes them, and each check catches what it is for."""

import numpy as np
import pytest

from onepos.methods.frequency import FrequencyClassifier
from onepos.methods.registry import METHODS, make_classifier
from onepos.testing import check_onepos_estimator, yield_onepos_checks

NAMES = [name for name, _ in yield_onepos_checks(FrequencyClassifier())]
#: What a method's own loss, seed and stored attributes decide. The rest is the work of code that methods share.
OWN = {"check_known_absent", "check_rows_without_positive", "check_same_seed_same_bits", "check_save_and_load"}


def _check(estimator, method, name):
    checks = dict(yield_onepos_checks(estimator))
    if name in checks:
        checks[name](estimator)
    else:
        assert (method, name) == ("bce", "check_rows_without_positive")  # there an empty row is a row without labels


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_method_passes(quick, method, name):
    _check(quick(method), method, name)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN])
def test_every_kind_of_method_passes(quick, kind, name):
    _check(quick(kind), kind, name)


def test_full_supervision_takes_empty_rows_as_they_are(quick):
    Y = np.eye(4, dtype=int)[np.arange(60) % 4]
    Y[:7] = 0
    quick("bce").fit(np.random.default_rng(0).standard_normal((60, 3)), Y)  # a warning would be an error here


def broken(**changes):
    """Return an estimator that works but for what is changed."""
    return type("Broken", (FrequencyClassifier,), changes)()


def drawing_from_the_global_state(self, X, y):
    np.random.random()  # noqa: NPY002
    return FrequencyClassifier.fit(self, X, y)


def writing_to_its_input(self, X, y):
    X = np.asarray(X)
    X[0, 0] = 0.0
    return FrequencyClassifier.fit(self, X, y)


def writing_to_the_old_model(self, X, y):
    if hasattr(self, "frequency_"):
        self.frequency_[:] = 0.5
    return FrequencyClassifier.fit(self, X, y)


def computing_in_float16(self, X):
    with np.errstate(over="ignore", invalid="ignore"):
        wide = X.astype(np.float16).sum(axis=1, keepdims=True)
        return FrequencyClassifier._logits(self, X) + (wide - wide)


def counting_in_the_model(self, X):
    asked = self.asked_ = getattr(self, "asked_", 0) + 1
    return FrequencyClassifier._logits(self, X) + asked


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"fit": writing_to_the_old_model}, "check_failed_refit"),
        ({"_logits": computing_in_float16}, "check_extreme_magnitudes"),
        ({"_logits": counting_in_the_model}, "check_threads"),
        ({"predict_proba": lambda self, X: np.full((len(X), 4), 1.5)}, "check_indicator_input"),
        ({"predict_proba": lambda self, X: np.full((len(X), 4), 0.5)}, "check_predictions_agree"),
        ({"fit": drawing_from_the_global_state}, "check_same_seed_same_bits"),
        ({"fit": writing_to_its_input}, "check_indicator_input"),
        ({}, "check_save_and_load"),  # its class is unknown to the registry
    ],
)
def test_a_broken_estimator_is_caught(changes, name):
    estimator = broken(**changes)
    check = dict(yield_onepos_checks(estimator))[name]
    with pytest.raises(Exception) as caught:  # noqa: PT011  which one is the check's business
        check(estimator)
    assert caught.type is not KeyError
    with pytest.raises(AssertionError, match="Broken fails check_"):
        check_onepos_estimator(estimator)


def test_a_row_of_weight_k_counts_as_k_rows_in_the_score():
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((60, 3)), np.eye(4, dtype=int)[draw.integers(4, size=60)]
    model = FrequencyClassifier().fit(X, Y)
    Y[:5] = 0  # rows without a positive never count
    weights = np.arange(60) % 4
    repeated = np.repeat(np.arange(60), weights)
    assert np.isclose(model.score(X, Y, sample_weight=weights), model.score(X[repeated], Y[repeated]))
    with pytest.raises(ValueError, match="60 numbers, one per row"):
        model.score(X, Y, sample_weight=weights[1:])


def test_every_method_takes_a_random_state(method):
    assert make_classifier(method, random_state=0).get_params()["random_state"] == 0


def test_keys_and_classes_agree():
    for key, method in METHODS.items():
        assert type(make_classifier(key)).__name__ == method.class_name
