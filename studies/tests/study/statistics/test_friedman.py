"""Friedman, Iman-Davenport and Nemenyi against scipy and the example worked in Demšar (JMLR 7, 2006)."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from onepos_studies.study.statistics import (
    average_ranks,
    cliques,
    critical_difference,
    friedman,
    nemenyi_quantile,
)

# Demšar's Table 6: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf. On voting he prints 0.975 twice but ranks 2 and 3: the
# values behind it differed, which the fourth digit stands for here.
TABLE_6 = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],  # adult
        [0.599, 0.591, 0.590, 0.569],  # breast cancer
        [0.954, 0.971, 0.968, 0.967],  # breast cancer wisconsin
        [0.628, 0.661, 0.654, 0.657],  # cmc
        [0.882, 0.888, 0.886, 0.898],  # ionosphere
        [0.936, 0.931, 0.916, 0.931],  # iris
        [0.661, 0.668, 0.609, 0.685],  # liver disorders
        [0.583, 0.583, 0.563, 0.625],  # lung cancer
        [0.775, 0.838, 0.866, 0.875],  # lymphography
        [1.000, 1.000, 1.000, 1.000],  # mushroom
        [0.940, 0.962, 0.965, 0.962],  # primary tumor
        [0.619, 0.666, 0.614, 0.669],  # rheum
        [0.972, 0.981, 0.9751, 0.975],  # voting
        [0.957, 0.978, 0.946, 0.970],  # wine
    ]
)
RANKS = (3.143, 2.000, 2.893, 1.964)
# His Table 5(a): q of the two-tailed Nemenyi test at 0.05 and 0.10 for 2 to 10 methods.
Q_05 = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
Q_10 = (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920)


def test_demsars_ranks_and_statistics_from_his_data():
    """He prints χ² 9.28 and F 3.69 without the correction for ties, which divides χ²."""
    test = friedman(TABLE_6)
    np.testing.assert_allclose(test.average_ranks, RANKS, atol=5e-4)
    ties = np.mean([stats.tiecorrect(stats.rankdata(row)) for row in TABLE_6])
    uncorrected = test.chi_square * ties
    assert uncorrected == pytest.approx(9.28, abs=0.005)
    assert 13 * uncorrected / (14 * 3 - uncorrected) == pytest.approx(3.69, abs=0.005)
    assert test.f_statistic == pytest.approx(13 * test.chi_square / (14 * 3 - test.chi_square))
    assert test.chi_square_p == pytest.approx(stats.chi2.sf(test.chi_square, 3))
    assert test.f_p == pytest.approx(stats.f.sf(test.f_statistic, 3, 39))
    # "The critical value of F(3, 39) for α = 0.05 is 2.85, so we reject the null-hypothesis."
    assert test.f_p < 0.05
    assert test.datasets == 14


@pytest.mark.parametrize(("alpha", "printed"), [(0.05, Q_05), (0.10, Q_10)])
def test_demsars_quantiles(alpha, printed):
    # He derived them from a table of three decimals, which leaves up to 0.001.
    np.testing.assert_allclose([nemenyi_quantile(k, alpha) for k in range(2, 11)], printed, atol=1.1e-3)


def test_demsars_critical_difference():
    """1.25 at 0.05, where no two differ; 1.12 at 0.10, where C4.5 differs from C4.5+m and C4.5+m+cf by more."""
    assert round(critical_difference(4, 14), 2) == 1.25
    assert round(critical_difference(4, 14, 0.10), 2) == 1.12
    assert cliques(RANKS, critical_difference(4, 14)) == ((3, 1, 2, 0),)
    assert cliques(RANKS, critical_difference(4, 14, 0.10)) == ((3, 1, 2), (2, 0))


def test_two_methods_are_the_normal_quantile():
    assert nemenyi_quantile(2, 0.05) == pytest.approx(stats.norm.isf(0.025), abs=1e-6)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (12, 7)])
def test_it_is_scipys(shape, ties):
    rng = np.random.default_rng(sum(shape))
    values = rng.integers(0, 4, size=shape).astype(float) if ties else rng.normal(size=shape)
    expected = stats.friedmanchisquare(*values.T)
    test = friedman(values)
    assert test.chi_square == pytest.approx(expected.statistic)
    assert test.chi_square_p == pytest.approx(expected.pvalue)
    np.testing.assert_allclose(test.average_ranks, stats.rankdata(-values, axis=1).mean(axis=0))


def test_methods_that_are_always_equal_do_not_differ():
    test = friedman(np.ones((5, 3)))
    assert (test.average_ranks, test.chi_square, test.chi_square_p, test.f_p) == ((2, 2, 2), 0, 1, 1)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_methods_that_are_always_in_one_order_differ_as_much_as_can_be(k):
    test = friedman(np.tile(np.arange(k, 0, -1), (6, 1)))
    assert test.average_ranks == tuple(range(1, k + 1))
    assert test.chi_square == pytest.approx(6 * (k - 1))
    assert (test.f_statistic, test.f_p) == (np.inf, 0)


def test_ranks_of_losses_and_near_ties():
    assert average_ranks([[0.1, 0.3, 0.1 + 0.2]], higher_is_better=False) == (1.0, 2.5, 2.5)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([[1.0, 2.0]], "two data sets"),
        ([[1.0], [2.0]], "two methods"),
        ([[1.0, np.nan]] * 3, "finite"),
        ([1.0], "shape"),
    ],
)
def test_bad_values_are_refused(values, match):
    with pytest.raises(ValueError, match=match):
        friedman(values)


@pytest.mark.parametrize("call", [lambda: critical_difference(1, 5), lambda: critical_difference(3, 0)])
def test_bad_sizes_are_refused(call):
    with pytest.raises(ValueError, match="at least"):
        call()


tables = hnp.arrays(np.float64, (6, 4), elements=st.integers(0, 20).map(float))


@given(tables, st.randoms(use_true_random=False), st.floats(1e-3, 1e3))
def test_order_of_data_sets_and_scale_do_not_matter(values, random, factor):
    order = list(range(6))
    random.shuffle(order)
    test, other = friedman(values), friedman(values[order] * factor)
    np.testing.assert_allclose(test.average_ranks, other.average_ranks)
    assert test.chi_square == pytest.approx(other.chi_square, abs=1e-9)


@given(tables, st.permutations(range(4)))
def test_ranks_follow_the_methods_and_turn_with_the_direction(values, order):
    ranks = np.array(average_ranks(values))
    np.testing.assert_allclose(average_ranks(values[:, order]), ranks[order])
    np.testing.assert_allclose(average_ranks(values, higher_is_better=False), 5 - ranks)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 12))
def test_cliques_are_the_maximal_groups(ranks, difference):
    """Every group of at least two that fits, and cannot be made larger, by trying all groups."""
    fitting = [
        frozenset(group)
        for size in range(2, len(ranks) + 1)
        for group in combinations(range(len(ranks)), size)
        if max(ranks[i] for i in group) - min(ranks[i] for i in group) <= difference
    ]
    maximal = {group for group in fitting if not any(group < other for other in fitting)}
    found = cliques(ranks, difference)
    assert {frozenset(group) for group in found} == maximal
    assert len(found) == len(maximal)
    for group in found:
        assert [ranks[i] for i in group] == sorted(ranks[i] for i in group)
