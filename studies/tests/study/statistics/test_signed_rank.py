"""The signed-rank test against scipy, enumeration, hand-worked cases and the paper's own Table 3."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from onepos_studies.study.statistics import TooFewPairsError, fewest_pairs, signed_rank
from onepos_studies.study.tables import load_published

# Demšar 2006, Table 2: C4.5 with m minus C4.5, AUC on 14 data sets; two are equal.
DEMSAR = [5, -8, 17, 33, 6, -5, 7, 0, 63, 0, 22, 47, 9, 21]

# Table 3 and the ablation's table of the paper, by the columns below.
RIVALS = ("an", "an-ls", "wan", "role", "glocal", "mlml", "d2ml", "smile-si")
PRINTED = {
    "average_precision": (0.0005, 0.0005, 0.0092, 0.0005, 0.0005, 0.0005, 0.0005, 0.0049),
    "one_error": (0.0122, 0.0005, 0.0015, 0.0005, 0.0005, 0.0342, 0.0005, 0.0092),
    "ranking_loss": (0.0269, 0.0005, 0.1533, 0.0005, 0.0005, 0.0024, 0.0005, 0.0161),
    "hamming_loss": (0.0277, 0.0178, 0.0005, 0.0277, 0.0277, 0.0277, 0.0077, 0.0277),
    "coverage": (0.0425, 0.0005, 0.1819, 0.0005, 0.0005, 0.0024, 0.0015, 0.0122),
}


def enumerated(differences):
    """Two-sided p-value over all signs of the non-zero differences, one by one."""
    kept = np.asarray(differences, dtype=float)
    kept = kept[kept != 0]
    ranks = stats.rankdata(np.abs(kept))
    observed = min(ranks[kept > 0].sum(), ranks[kept < 0].sum())
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in product((0, 1), repeat=len(kept))
    ]
    return min(1.0, 2 * np.mean([value <= observed for value in sums]))


def against_zero(differences, **options):
    return signed_rank(differences, np.zeros(len(differences)), **options)


@pytest.mark.parametrize("n", [6, 9, 12, 25, 50])
def test_exact_is_scipys(n):
    values = np.random.default_rng(n).normal(0.3, 1, size=(2, n))
    test = signed_rank(*values)
    expected = stats.wilcoxon(*values, method="exact")
    assert test.statistic == expected.statistic
    assert test.p_value == pytest.approx(expected.pvalue, rel=1e-12)
    assert (test.pairs, test.zeros) == (n, 0)
    assert test.better_ranks + test.worse_ranks == n * (n + 1) / 2


@pytest.mark.parametrize("n", [60, 200])
def test_ties_among_many_pairs_are_near_the_normal_approximation(n):
    differences = np.random.default_rng(n).integers(-4, 6, size=n).astype(float)
    test = against_zero(differences)
    expected = stats.wilcoxon(differences, zero_method="wilcox", correction=True, method="approx")
    assert test.statistic == expected.statistic
    assert test.p_value == pytest.approx(expected.pvalue, rel=0.05)
    assert test.zeros == (differences == 0).sum()


@pytest.mark.parametrize("n", [6, 7, 8])
def test_exact_is_what_enumeration_gives(n):
    differences = np.random.default_rng(n).normal(0.5, 1, size=n)
    assert against_zero(differences).p_value == pytest.approx(enumerated(differences))


def test_hand_worked_demsar_table_2():
    """Ranks of the twelve: 5 and -5 share 1.5, 6→3, 7→4, -8→5; the negative ones sum to 6.5."""
    test = against_zero(DEMSAR)
    assert (test.worse_ranks, test.better_ranks, test.statistic) == (6.5, 71.5, 6.5)
    assert (test.pairs, test.zeros) == (12, 2)
    assert test.p_value == pytest.approx(enumerated(DEMSAR))
    assert test.outcome == "win"


def test_six_wins_are_the_fewest_that_count():
    test = against_zero([1, 2, 3, 4, 5, 6])
    assert (test.p_value, test.outcome) == (2.0**-5, "win")
    assert against_zero([1, 2, 3, 4, 5, 6], higher_is_better=False).outcome == "loss"
    assert against_zero([-1, 2, 3, 4, 5, 6]).outcome == "tie"
    with pytest.raises(TooFewPairsError, match=r"at least 6 pairs; got 5.*2\^\(1-n\)"):
        against_zero([1, 2, 3, 4, 5])


@pytest.mark.parametrize("alpha", [0.2, 0.1, 0.05, 0.01, 0.001])
def test_fewest_pairs_is_the_edge(alpha):
    n = fewest_pairs(alpha)
    assert 2.0 ** (1 - n) < alpha <= 2.0 ** (2 - n)
    assert against_zero(np.arange(1, n + 1), alpha=alpha).outcome == "win"


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 5])
def test_a_level_is_a_probability(alpha):
    with pytest.raises(ValueError, match="between 0 and 1"):
        fewest_pairs(alpha)


@pytest.mark.parametrize("differences", [[2, 2, 2, 2, 2, 0, 0], [1, -1, 3, 0, 0, 0], [0] * 8, [4, 0, 0, 0, 0, 0]])
def test_few_differing_pairs_are_never_significant(differences):
    """The normal approximation finds p = 0.04 for five equal wins; no exact test can go below 2·2⁻⁵."""
    test = against_zero(differences)
    assert test.p_value == pytest.approx(enumerated(differences) if any(differences) else 1.0)
    assert test.outcome == "tie"


@pytest.mark.parametrize("n", [6, 8, 10])
def test_it_is_what_enumeration_gives_under_ties(n):
    differences = np.random.default_rng(n).integers(-2, 5, size=n)
    test = against_zero(differences)
    assert test.p_value == pytest.approx(enumerated(differences))


def test_rounding_makes_neither_rank_nor_difference():
    first = np.array([0.3, 0.2, 0.7, 0.8, 0.5, 0.4, 0.1 + 0.2])
    second = np.array([0.2, 0.1, 0.6, 0.7, 0.4, 0.3, 0.3])
    assert len(np.unique(first - second)) > 2
    test = signed_rank(first, second)
    assert (test.pairs, test.zeros, test.better_ranks) == (6, 1, 21.0)
    assert test.p_value == signed_rank([1] * 6 + [0], [0] * 7).p_value


def test_outcome_for_another_p_value():
    test = against_zero([1, 2, 3, 4, 5, 6])
    assert [test.outcome_for(p) for p in (0.049, 0.05, 0.9)] == ["win", "tie", "tie"]


@pytest.mark.parametrize(
    ("first", "second", "match"),
    [([1] * 6, [1] * 7, "one length"), ([[1] * 6], [[1] * 6], "one length"), ([np.nan] * 6, [1] * 6, "finite")],
)
def test_bad_values_are_refused(first, second, match):
    with pytest.raises(ValueError, match=match):
        signed_rank(first, second)


@pytest.mark.parametrize("metric", PRINTED)
@pytest.mark.parametrize("rival", RIVALS)
def test_the_papers_p_values(metric, rival):
    """From its printed means. With ties the paper has an approximation; every outcome is the same."""
    paper = load_published()
    means = paper[paper["metric"] == metric].pivot(index="dataset", columns="method", values="mean")
    differences = np.round(means["smile"] - means[rival], 6)
    test = signed_rank(means["smile"], means[rival], higher_is_better=metric == "average_precision")
    printed = PRINTED[metric][RIVALS.index(rival)]
    if (differences == 0).any() or differences.abs().nunique() < len(differences):
        assert test.p_value == pytest.approx(enumerated(differences))
    else:
        # The paper cuts 0.00928 to 0.0092.
        assert test.p_value == pytest.approx(printed, abs=1.1e-4 if printed == 0.0092 else 5.1e-5)
    assert test.outcome == ("win" if printed < 0.05 else "tie")


values = hnp.arrays(np.float64, (2, 9), elements=st.integers(0, 40).map(lambda i: i / 40))


@given(values)
def test_swapping_swaps_win_and_loss(pair):
    there, back = signed_rank(*pair), signed_rank(*pair[::-1])
    assert there.p_value == pytest.approx(back.p_value)
    assert (there.better_ranks, there.worse_ranks) == (back.worse_ranks, back.better_ranks)
    assert back.outcome == {"win": "loss", "loss": "win", "tie": "tie"}[there.outcome]
    assert signed_rank(*pair, higher_is_better=False) == back


@given(values, st.randoms(use_true_random=False), st.floats(1e-3, 1e3))
def test_order_and_scale_do_not_matter(pair, random, factor):
    order = list(range(9))
    random.shuffle(order)
    test, other = signed_rank(*pair), signed_rank(*(pair[:, order] * factor))
    assert (test.better_ranks, test.worse_ranks, test.zeros) == (other.better_ranks, other.worse_ranks, other.zeros)
    assert test.p_value == pytest.approx(other.p_value)


def test_series_are_taken_by_position():
    first = pd.Series([1.0, 2, 3, 4, 5, 6], index=list("fedcba"))
    assert signed_rank(first, pd.Series(np.zeros(6), index=list("abcdef"))).outcome == "win"
