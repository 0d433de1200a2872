"""Tests for comparing methods over data sets, as Demšar (JMLR 7, 2006) recommends them.

A value is one method's mean over its trials on a data set. Trials of one data set share its rows and are no
independent evidence, so they never enter as pairs of their own. Values are compared to ``DIGITS`` decimals, so that
the last bits of a float decide no tie.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

DIGITS = 12


class SignedRank(NamedTuple):
    """The result of :func:`signed_rank`: two-sided p-value, and rank sum of gains minus that of losses."""

    p_value: float
    surplus: float

    def outcome(self, alpha: float) -> str:
        """Return how the first method fares at a level: "win", "tie" or "loss"."""
        if self.p_value >= alpha or self.surplus == 0:
            return "tie"
        return "win" if self.surplus > 0 else "loss"


def fewest_pairs(alpha: float = 0.05) -> int:
    """Return the fewest pairs n whose best outcome, with two-sided p = 2^(1-n), is below ``alpha``."""
    return math.floor(1 - math.log2(alpha)) + 1


def signed_rank(gains: ArrayLike) -> SignedRank:
    """Wilcoxon's signed-rank test of the gains of one method over another, one per data set; equal values are dropped.

    The p-value is exact without ties, or with up to 13 pairs; else it is that of the normal approximation.
    """
    rounded = np.round(np.asarray(gains, dtype=np.float64), DIGITS)
    kept = rounded[rounded != 0]
    if not kept.size:
        return SignedRank(1.0, 0.0)
    surplus = float((stats.rankdata(np.abs(kept)) * np.sign(kept)).sum())
    return SignedRank(float(stats.wilcoxon(kept).pvalue), surplus)


def holm(p_values: ArrayLike) -> list[float]:
    """Return Holm's step-down corrected p-values, in the order given.

    Rejecting what is below alpha keeps the chance of any false rejection at alpha or less, whatever the dependence.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return [float(value) for value in adjusted]


def _signed(values: ArrayLike, higher_is_better: bool) -> np.ndarray:
    array = np.round(np.asarray(values, dtype=np.float64), DIGITS)
    return -array if higher_is_better else array


def average_ranks(values: ArrayLike, *, higher_is_better: bool = True) -> tuple[float, ...]:
    """Rank the methods on each data set (1 is best, ties share the mean rank), and average over data sets."""
    return tuple(stats.rankdata(_signed(values, higher_is_better), axis=1).mean(axis=0).tolist())


class Friedman(NamedTuple):
    """χ², corrected for ties, with k - 1 degrees of freedom; F of Iman and Davenport with k - 1 and (k - 1)(N - 1)."""

    chi_square: float
    chi_square_p: float
    f_statistic: float
    f_p: float


def friedman(values: ArrayLike, *, higher_is_better: bool = True) -> Friedman:
    """Test whether several methods differ, from one value per data set (rows) and method (columns).

    F = (N - 1) χ² / (N (k - 1) - χ²), which is less conservative than χ².
    """
    array = _signed(values, higher_is_better)
    n, k = array.shape
    if (array == array[:, :1]).all():
        return Friedman(0.0, 1.0, 0.0, 1.0)
    # SciPy's own function wants three methods.
    ranks = stats.rankdata(array, axis=1)
    ties = float(np.mean([stats.tiecorrect(row) for row in ranks]))
    chi = 12 * n / (k * (k + 1)) * float(((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()) / ties
    rest = n * (k - 1) - chi
    f = math.inf if rest <= 1e-12 * n * k else (n - 1) * chi / rest
    return Friedman(chi, float(stats.chi2.sf(chi, k - 1)), f, float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))))


def critical_difference(methods: int, datasets: int, alpha: float = 0.05) -> float:
    """By how much two average ranks must differ for a significant difference (Nemenyi): q_α √( k (k+1) / (6 N) ).

    k is ``methods``, N ``datasets``; q_α is the quantile of the studentized range, divided by √2.
    """
    quantile = float(stats.studentized_range.ppf(1.0 - alpha, methods, math.inf)) / math.sqrt(2.0)
    return quantile * math.sqrt(methods * (methods + 1) / (6.0 * datasets))
