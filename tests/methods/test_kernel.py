"""Kernel least squares: its closed forms against scikit-learn and against refits without a row."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

import onepos
from onepos.datasets import make_known_posterior
from onepos.methods.kernel import PRIOR_SHARE, log_shares
from onepos.metrics import average_precision

RIDGE = 0.5


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(120, 4, 3, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    model = onepos.KernelClassifier(width=1.0, ridge=RIDGE, scale="none", random_state=0)
    return model.fit(data.X[:60], data.observed[:60])


def ridge_scores(model, X, observed, others):
    """Kernel ridge regression by scikit-learn on observed labels less their frequencies."""
    oracle = KernelRidge(alpha=RIDGE, kernel="precomputed")
    oracle.fit(rbf_kernel(X, gamma=model.gamma_), observed - model.frequency_)
    return oracle.predict(rbf_kernel(others, X, gamma=model.gamma_))


def test_predictions_are_those_of_kernel_ridge_regression(fitted, data):
    expected = ridge_scores(fitted, data.X[:60], data.observed[:60], data.X[60:]) + fitted.frequency_
    expected = log_shares(expected, fitted.frequency_)
    np.testing.assert_allclose(np.exp(fitted._log_shares(data.X[60:])), np.exp(expected), atol=2e-3)


def test_left_out_scores_are_those_of_refits_without_the_row(fitted, data):
    X, observed = data.X[:60], data.observed[:60].astype(float)
    for row in range(0, 60, 7):
        rest = np.delete(np.arange(60), row)
        others = fitted.frequency_ - (observed[row] - fitted.frequency_) / 59
        share = ridge_scores(fitted, X[rest], observed[rest], X[row : row + 1])[0] + others
        smooth = np.maximum(share, 0) + PRIOR_SHARE * others
        np.testing.assert_allclose(np.exp(fitted.left_out_[row]), smooth / smooth.sum(), atol=2e-3)


def test_rows_with_the_same_features_are_left_out_together():
    data = make_known_posterior(25, 4, 3, random_state=0)
    thing = np.random.default_rng(0).permutation(np.r_[np.arange(25), np.arange(20), np.arange(10)])
    X, observed = data.X[thing], np.eye(3)[np.random.default_rng(1).integers(3, size=55)]
    model = onepos.KernelClassifier(width=1.0, ridge=RIDGE, scale="none", random_state=0).fit(X, observed.astype(int))
    for row in range(0, 55, 6):
        rest = np.flatnonzero(thing != thing[row])
        out = observed[thing == thing[row]] - model.frequency_
        others = np.maximum(model.frequency_ - out.sum(axis=0) / len(rest), 0.25 / 55)
        share = ridge_scores(model, X[rest], observed[rest], X[row : row + 1])[0] + others
        smooth = np.maximum(share, 0) + PRIOR_SHARE * others
        np.testing.assert_allclose(np.exp(model.left_out_[row]), smooth / smooth.sum(), atol=2e-3)


def test_landmarks_of_all_rows_are_exact_and_some_rank_nearly_as_well():
    data = make_known_posterior(1200, 4, 5, random_state=1)
    precision = {}
    for n_landmarks in (100, 800):
        model = onepos.KernelClassifier(n_landmarks=n_landmarks, random_state=0).fit(data.X[:800], data.observed[:800])
        assert model.landmarks_.shape == (n_landmarks, 4)
        precision[n_landmarks] = average_precision(data.Y[800:], model.decision_function(data.X[800:]))
    constant = onepos.FrequencyClassifier().fit(data.X[:800], data.observed[:800]).decision_function(data.X[800:])
    assert precision[100] > precision[800] - 0.02
    assert precision[800] > average_precision(data.Y[800:], constant) + 0.05


def test_a_row_is_not_told_its_own_label():
    """Labels without any relation to x: left-out scores must not be likelier than the frequencies."""
    generator = np.random.default_rng(0)
    observed = np.eye(40, dtype=int)[np.r_[np.arange(40), generator.integers(40, size=160)]]
    model = onepos.KernelClassifier(random_state=0).fit(generator.normal(size=(200, 5)), observed)
    counts = observed.sum(axis=0) - observed + 0.5
    by_frequency = np.log(counts / counts.sum(axis=1, keepdims=True))[observed > 0].mean()
    assert model.left_out_[observed > 0].mean() < by_frequency + 0.02
