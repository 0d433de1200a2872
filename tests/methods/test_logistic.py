"""Logistic regression equals scikit-learn's, shrinks to the frequencies, and ends when the time is up."""

import time

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

import onepos
from onepos._utils.context import deadline, progress_to
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._softmax_path import SoftmaxProblem, linear_logits

DATA = make_known_posterior(400, 6, 5, random_state=0)
X, Y = np.asarray(DATA.X), np.asarray(DATA.observed)


def build(**params):
    return onepos.LogisticClassifier(**{"random_state": 0, **params})


@pytest.mark.parametrize("l2", [0.3, 30.0])
def test_is_scikit_learns(l2):
    theirs = LogisticRegression(C=1 / l2, tol=1e-10, max_iter=10_000).fit(X.astype(float), Y.argmax(axis=1))
    ours = build(l2=l2, scale="none").fit(X, Y.argmax(axis=1))
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)
    problem = SoftmaxProblem(X.astype(float), Y.astype(float))
    exact = problem.solve(l2, problem.constant_model(), max_iter=500, tolerance=1e-13)
    assert np.allclose(exact.weights[:-1].T, theirs.coef_, atol=2e-5)


def test_gradients_are_those_of_the_values():
    rng = np.random.default_rng(0)
    problem = SoftmaxProblem(X, Y.astype(float))
    logits = 3 * rng.standard_normal(Y.shape)
    residual = problem.residual(problem.loss(logits)[1]).copy()
    for _ in range(5):
        along = rng.standard_normal(Y.shape)
        slope = (problem.loss(logits + 1e-5 * along)[0] - problem.loss(logits - 1e-5 * along)[0]) / 2e-5
        assert np.isclose(slope, (residual * along).sum(), rtol=1e-6)


def test_the_constant_model_is_the_minimum_without_features():
    problem = SoftmaxProblem(X, Y.astype(float))
    assert np.allclose(
        problem.residual(problem.loss(np.tile(problem.constant_model()[-1], (400, 1)))[1]).mean(axis=0), 0, atol=3e-3
    )


def test_the_gradient_vanishes_at_the_solution():
    problem = SoftmaxProblem(X, Y.astype(float))
    weights = problem.solve(2.0, problem.constant_model(), max_iter=500, tolerance=1e-14).weights
    residual = problem.residual(problem.loss(X @ weights[:-1] + weights[-1])[1])
    assert np.abs(X.T @ residual + 2.0 * weights[:-1]).max() < 1e-4
    assert np.abs(residual.sum(axis=0)).max() < 1e-4


def test_spread_and_frequency_of_columns_do_not_matter():
    """Without a penalty the probabilities do not depend on the units of the features."""
    units = np.array([1e-3, 1e-2, 1.0, 1.0, 1e2, 1e3])
    found = []
    for factor in (np.ones(6), units):
        problem = SoftmaxProblem(X * factor, Y.astype(float))
        fit = problem.solve(0.0, problem.constant_model(), max_iter=500, tolerance=1e-10)
        found.append(softmax(linear_logits(problem.features, fit.weights), axis=1))
    assert np.allclose(*found, atol=1e-4)


def test_several_observed_labels_share_the_weight_of_their_row():
    both = Y.copy()
    both[:50] = 0
    both[:50, [1, 3]] = 1
    # The same as the row with one label and the row with the other, each with half the weight, and so half the penalty.
    first, second = Y.copy(), Y.copy()
    first[:50], second[:50] = np.eye(5)[1], np.eye(5)[3]
    shared = build(l2=2.0, scale="none").fit(X, both)
    twice = build(l2=4.0, scale="none").fit(np.vstack([X, X]), np.vstack([first, second]))
    assert np.allclose(shared.predict_proba(X), twice.predict_proba(X), atol=1e-3)


def test_the_best_strength_is_kept_and_the_path_ends_behind_it():
    model = build().fit(X, Y)
    scores = list(model.validation_scores_.items())
    best = max(scores, key=lambda item: item[1])
    assert model.l2_ == best[0]
    assert len(scores) == 13 or scores.index(best) == len(scores) - 3
    assert sorted(model.validation_scores_, reverse=True) == list(model.validation_scores_)


def test_scores_are_log_likelihoods_of_the_validation_rows():
    model = build(l2=(10.0, 1.0)).fit(X[:300], Y[:300], validation=(X[300:], Y[300:]))
    alone = build(l2=model.l2_).fit(X[:300], Y[:300])
    told = log_softmax(alone.decision_function(X[300:]), axis=1)[Y[300:] > 0].mean()
    assert model.validation_scores_[model.l2_] == pytest.approx(told, abs=1e-3)


def test_a_label_that_is_never_observed_is_ranked_low():
    with pytest.warns(LabelWarning, match="never observed"):
        model = build().fit(X, np.column_stack([Y, np.zeros(400)]))
    observed = softmax(model.decision_function(X), axis=1)
    assert np.isfinite(observed).all()
    assert observed[:, -1].mean() == pytest.approx(0.5 / 400, rel=0.02)


def test_a_fit_without_time_is_the_constant_model():
    with deadline(time.monotonic() - 1), pytest.warns(TrainingWarning, match="no time to converge"):
        model = build().fit(X, Y)
    assert not model.coef_.any()
    assert np.allclose(softmax(model.intercept_), Y.mean(axis=0), atol=0.02)


def test_progress_is_told():
    told = []
    with progress_to(lambda step, share: told.append(share)):
        build().fit(X, Y)
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("l2", [(), (1.0, -1.0), (np.inf,)])
def test_strengths_are_checked(l2):
    with pytest.raises(ValueError, match="l2"):
        build(l2=l2).fit(X, Y)
