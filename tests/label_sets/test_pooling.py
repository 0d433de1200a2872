"""Pooling rankings: known truth, a search as a second implementation, and what must not change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax

from onepos.label_sets import pooling
from onepos.label_sets.pooling import at_observed, inverse_temperature, marginal_logits, pool, standardize_rows


def pool_weights(members, observed, **options):
    return pooling.pool_weights(at_observed(members, observed), observed, **options)


def drawn_from(p, rng):
    """One label a row."""
    return np.eye(p.shape[1])[[rng.choice(len(row), p=row) for row in p]]


def likelihood(weights, members, observed):
    return np.log((np.tensordot(weights, np.exp(members), axes=1) * observed).sum(axis=1)).mean()


@pytest.fixture(scope="module")
def problem():
    """Log-probabilities of three members, and labels drawn from .7 of the first and .3 of the second."""
    rng = np.random.default_rng(0)
    members = log_softmax(2.0 * rng.standard_normal((3, 3000, 6)), axis=2)
    return members, drawn_from(0.7 * np.exp(members[0]) + 0.3 * np.exp(members[1]), rng)


def test_known_weights_are_found(problem):
    members, observed = problem
    weights, reached = pool_weights(members, observed, prior_rows=0.0)
    # Standard errors of maximum likelihood, from the information about w₁ and w₂ with w₃ = 1 − w₁ − w₂.
    q = np.exp(members)
    p = 0.7 * q[0] + 0.3 * q[1]
    slopes = (q[:2] - q[2]) / p
    error = np.sqrt(np.diag(np.linalg.inv(np.einsum("anc,bnc,nc->ab", slopes, slopes, p))))
    assert (np.abs(weights[:2] - [0.7, 0.3]) < 4 * error).all()
    assert weights.sum() == pytest.approx(1.0)
    assert reached == pytest.approx(likelihood(weights, members, observed))


def test_the_optimum_is_that_of_a_search_over_the_simplex(problem):
    members, observed = problem
    prior = np.array([40.0, 5.0, 15.0])

    def loss(free):
        weights = softmax(free)
        return -len(observed) * likelihood(weights, members, observed) - prior @ np.log(weights)

    found, _ = pool_weights(members, observed, prior_rows=prior)
    searched = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-4}).x
    np.testing.assert_allclose(found, softmax(searched), atol=1e-5)


def test_many_prior_rows_make_weights_alike(problem):
    weights, _ = pool_weights(*problem, prior_rows=1e9)
    np.testing.assert_allclose(weights, 1 / 3, rtol=1e-4)


def test_several_observed_labels_share_a_row_and_empty_rows_do_not_count(problem):
    members, observed = problem
    base, reached = pool_weights(members, observed)
    padded = np.concatenate([members, np.zeros((3, 40, 6))], axis=1)
    again, same = pool_weights(padded, np.vstack([observed, np.zeros((40, 6))]))
    np.testing.assert_allclose(again, base, atol=1e-8)
    assert same == pytest.approx(reached)
    # A row with two labels is two rows of half the weight each: twice the same pair is once the whole of it.
    pair = np.array([[1.0, 1.0, 0.0]])
    split = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    logs = log_softmax(np.random.default_rng(1).standard_normal((2, 1, 3)), axis=2)
    together, _ = pool_weights(logs.repeat(2, axis=1), pair.repeat(2, axis=0))
    apart, _ = pool_weights(logs.repeat(2, axis=1), split)
    np.testing.assert_allclose(together, apart)
    for judge in (pool_weights, lambda m, o: inverse_temperature(m[0], o)):
        with pytest.raises(ValueError, match="no row has an observed label"):
            judge(members, np.zeros_like(observed))


def test_the_temperature_of_drawn_labels_is_found():
    rng = np.random.default_rng(3)
    scores = rng.standard_normal((3000, 5))
    p = softmax(1.5 * scores, axis=1)
    observed = drawn_from(p, rng)
    found, reached = inverse_temperature(scores, observed)
    information = ((scores**2 * p).sum(axis=1) - (scores * p).sum(axis=1) ** 2).sum()
    assert abs(found - 1.5) < 4 / np.sqrt(information)
    assert reached == pytest.approx((observed * log_softmax(found * scores, axis=1)).sum(axis=1).mean())
    # Stretched scores have the inverse of the stretch in their factor.
    assert inverse_temperature(10.0 * scores, observed)[0] == pytest.approx(found / 10.0, rel=1e-4)


@given(st.integers(2, 6), st.floats(0.01, 30.0), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_the_temperature_is_that_of_a_search_in_an_interval(n_labels, stretch, seed):
    rng = np.random.default_rng(seed)
    scores = stretch * rng.standard_normal((30, n_labels))
    observed = np.eye(n_labels)[rng.integers(n_labels, size=30)]
    observed[:3] = 0  # rows without a label
    observed[3] = 1  # one with all of them

    def loss(log_factor):
        told = observed * log_softmax(np.exp(log_factor) * scores, axis=1) / np.maximum(observed.sum(1), 1)[:, None]
        return -told.sum() / 27

    searched = minimize_scalar(loss, bounds=(-8, 8), method="bounded", options={"xatol": 1e-8})
    factor, reached = inverse_temperature(scores, observed)
    assert reached == pytest.approx(-searched.fun, abs=1e-7)  # at a border: as steps of 1e-6 allow
    assert loss(np.log(factor)) == pytest.approx(-reached)


def test_labels_that_are_always_first_want_a_factor_that_makes_them_certain():
    factor, reached = inverse_temperature(np.array([[1.0, 0.0]]), np.array([[1, 0]]))
    assert factor > 30.0
    assert reached == pytest.approx(0.0, abs=1e-13)


def test_a_pool_is_the_weighted_sum_of_probabilities(problem):
    members, _ = problem
    weights = np.array([0.5, 0.2, 0.3])
    np.testing.assert_allclose(np.exp(pool(members, weights)), np.tensordot(weights, np.exp(members), axes=1))


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
