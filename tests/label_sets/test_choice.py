"""The test of even choice by simulation: its level where tags are drawn evenly, its power where they are chosen."""

import numpy as np
import pytest
from scipy.special import expit

from onepos.label_sets.choice import even_choice_p_value, even_shares, rate_intervals


def draw(seed, c, k, log_e, n=1000):
    """Tags of n rows, chosen in proportion to e, and complete labels of k more rows with a hidden factor."""
    random = np.random.default_rng(seed)
    rates = random.normal(-1.5, 1.2, c) + random.normal(size=(n + k, 1)) * random.normal(0, 1, c)
    Y = random.random((n + k, c)) < expit(rates)
    Y[~Y.any(axis=1), 0] = True
    noise = random.gumbel(size=(n, c)) + log_e * random.normal(size=c)
    tags = np.where(Y[:n], noise, -np.inf).argmax(axis=1)
    return np.bincount(tags, minlength=c), Y[n:]


@pytest.mark.parametrize(("c", "k"), [(10, 20), (20, 50), (40, 100)])
def test_even_choice_is_rejected_in_no_more_than_the_stated_share(c, k):
    p = np.array([even_choice_p_value(*draw(seed, c, k, 0.0)) for seed in range(60)])
    assert (p < 0.01).sum() <= 3
    assert (p < 0.05).sum() <= 8
    assert np.median(p) > 0.25


def test_chosen_tags_are_found_out():
    p = np.array([even_choice_p_value(*draw(seed, 20, 50, 1.5)) for seed in range(20)])
    assert (p < 0.01).mean() > 0.6


def test_the_order_of_labels_and_rows_and_rows_without_labels_do_not_matter():
    counts, Y = draw(0, 12, 60, 0.5)
    order = np.random.default_rng(0).permutation(12)
    p = even_choice_p_value(counts, Y)
    assert even_choice_p_value(counts[order], Y[:, order]) == pytest.approx(p, abs=0.05)
    assert even_choice_p_value(counts, np.vstack([Y, np.zeros((5, 12))])) == p
    assert even_shares(Y[::-1]) == pytest.approx(even_shares(Y))


def test_even_shares_are_those_of_many_draws():
    _, Y = draw(1, 6, 40, 0.0)
    random = np.random.default_rng(0)
    tags = [np.where(Y, random.random(Y.shape), -1).argmax(axis=1) for _ in range(4000)]
    assert even_shares(Y) == pytest.approx(np.bincount(np.ravel(tags), minlength=6) / np.size(tags), abs=0.01)


def test_intervals_of_rates_hold_the_truth():
    random = np.random.default_rng(0)
    rates = np.array([0.02, 0.1, 0.5, 0.9])
    held = []
    for _ in range(400):
        low, high = rate_intervals(random.random((50, 4)) < rates).T
        held.append((low <= rates) & (rates <= high))
    assert (np.mean(held, axis=0) > 0.9).all()
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)


def test_clear_errors():
    with pytest.raises(ValueError, match="no row of the sample has a label"):
        even_shares(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="one number of tags per label, 2"):
        even_choice_p_value([1, 2, 3], [[1, 0]])
