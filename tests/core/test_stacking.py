"""Combining rankings: the gradient against finite differences, known truth, and what must not change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

from onepos.stacking import marginal_logits, stacking_weights, standardize_rows


def observed_from(scores, rng):
    """One label a row, drawn from softmax(scores)."""
    p = softmax(scores, axis=1)
    return np.eye(scores.shape[1])[[rng.choice(len(row), p=row) for row in p]]


def likelihood(weights, members, observed):
    return (observed * log_softmax(np.tensordot(weights, members, axes=1), axis=1)).sum(axis=1).mean()


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    members = rng.standard_normal((3, 1500, 6))
    return members, observed_from(1.5 * members[0] + 0.5 * members[1], rng)


def test_known_weights_are_found(problem):
    members, observed = problem
    weights, reached = stacking_weights(members, observed, shrinkage=0.0)
    # The inverse Fisher information at the truth gives the standard errors of maximum likelihood.
    p = softmax(1.5 * members[0] + 0.5 * members[1], axis=1)
    mean = np.einsum("mnc,nc->mn", members, p)
    information = np.einsum("mnc,knc,nc->mk", members, members, p) - mean @ mean.T
    error = np.sqrt(np.diag(np.linalg.inv(information)))
    assert (np.abs(weights - [1.5, 0.5, 0.0]) < 4 * error).all()
    assert reached == pytest.approx(likelihood(weights, members, observed))


def test_the_optimum_is_that_of_a_search_without_gradients(problem):
    members, observed = problem
    shrinkage = 0.3

    def loss(weights):
        return -likelihood(weights, members, observed) + shrinkage * ((weights - weights.mean()) ** 2).sum()

    found, _ = stacking_weights(members, observed, shrinkage=shrinkage)
    searched = minimize(loss, np.ones(3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}).x
    np.testing.assert_allclose(found, searched, atol=2e-3)


def test_strong_shrinkage_makes_weights_alike(problem):
    weights, _ = stacking_weights(*problem, shrinkage=1e6)
    np.testing.assert_allclose(weights, weights.mean(), rtol=1e-4)


def test_several_observed_labels_share_a_row_and_empty_rows_do_not_count(problem):
    members, observed = problem
    base, _ = stacking_weights(members, observed)
    padded = np.concatenate([members, np.zeros((3, 40, 6))], axis=1)
    again, _ = stacking_weights(padded, np.vstack([observed, np.zeros((40, 6))]))
    np.testing.assert_allclose(again, base, atol=1e-6)
    with pytest.raises(ValueError, match="no row has an observed label"):
        stacking_weights(members, np.zeros_like(observed))


@given(st.integers(2, 9), st.floats(0.05, 0.95), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_marginals_add_up_and_keep_the_order(n_labels, share, seed):
    scores = 5.0 * np.random.default_rng(seed).standard_normal((7, n_labels))
    logits = marginal_logits(scores, share * n_labels)
    np.testing.assert_allclose(expit(logits).sum(axis=1), share * n_labels, rtol=1e-9)
    np.testing.assert_array_equal(np.argsort(logits, axis=1), np.argsort(scores, axis=1))


def test_two_labels_have_a_closed_form():
    """σ(s/2 + b) + σ(−s/2 + b) = 1 at b = 0."""
    np.testing.assert_allclose(marginal_logits(np.array([[3.0, 1.0]]), 1.0), [[1.0, -1.0]], atol=1e-12)


def test_more_positives_than_labels_are_refused():
    with pytest.raises(ValueError, match="give fewer"):
        marginal_logits(np.zeros((1, 2)), 2.0)


@given(st.floats(0.01, 100.0), st.floats(-50.0, 50.0), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_standardised_rows_forget_shift_and_scale(factor, shift, seed):
    logits = np.random.default_rng(seed).standard_normal((4, 5))
    np.testing.assert_allclose(standardize_rows(factor * logits + shift), standardize_rows(logits), atol=1e-8)
    assert not standardize_rows(np.full((2, 3), 7.0)).any()
