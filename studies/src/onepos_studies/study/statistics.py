"""Tests for comparing methods over data sets, as Demšar (JMLR 7, 2006) recommends them.

Two methods: :func:`signed_rank`, with :func:`holm` for several rivals. Several methods: :func:`friedman`, then
:func:`critical_difference` and :func:`cliques`. A value is one method's mean over its trials on a data set. Trials of
one data set share its rows and are no independent evidence, so they never enter as pairs of their own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Outcome = Literal["win", "tie", "loss"]

#: Values are compared with so many significant digits: 0.3 - 0.2 equals 0.2 - 0.1.
DIGITS = 12


class TooFewPairsError(ValueError):
    """No outcome of so few pairs could be significant."""


@dataclass(frozen=True)
class SignedRank:
    """The result of :func:`signed_rank`: the smaller of the two rank sums, and its two-sided p-value.

    ``pairs`` differ and were ranked; ``zeros`` are pairs of equal values, which were dropped (Wilcoxon's own rule).
    ``better_ranks`` and ``worse_ranks`` are the rank sums of the pairs in which the first method is better, and worse.
    ``alpha`` is the level of ``outcome``.
    """

    statistic: float
    p_value: float
    pairs: int
    zeros: int
    better_ranks: float
    worse_ranks: float
    alpha: float

    @property
    def outcome(self) -> Outcome:
        """How the first method fares: "win" or "loss" if p < alpha, else "tie"."""
        return self.outcome_for(self.p_value)

    def outcome_for(self, p_value: float) -> Outcome:
        """Return the outcome for another p-value, for example a corrected one."""
        if p_value >= self.alpha or self.better_ranks == self.worse_ranks:
            return "tie"
        return "win" if self.better_ranks > self.worse_ranks else "loss"


def fewest_pairs(alpha: float = 0.05) -> int:
    """Return the fewest pairs n whose best outcome, with two-sided p = 2^(1-n), is below ``alpha``.

    Examples
    --------
    >>> fewest_pairs(0.05)  # 2^-4 = 0.0625 is not below, 2^-5 = 0.03125 is
    6
    """
    if not 0 < alpha < 1:
        raise ValueError(f"expected a level alpha between 0 and 1; got {alpha}: the paper's is 0.05")
    return math.floor(1 - math.log2(alpha)) + 1


def signed_rank(
    first: ArrayLike, second: ArrayLike, *, higher_is_better: bool = True, alpha: float = 0.05
) -> SignedRank:
    """Wilcoxon's signed-rank test of two methods over data sets, two-sided.

    The p-value is exact: it counts the combinations of signs of the ranks at hand. SciPy does so only without ties, or
    for up to 13 pairs. ``first`` and ``second`` hold one value per data set, in the same order.
    Fewer pairs than ``fewest_pairs(alpha)`` raise :class:`TooFewPairsError`.

    Examples
    --------
    >>> test = signed_rank([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.89, 0.78, 0.67, 0.56, 0.45, 0.34])
    >>> test.outcome, test.p_value
    ('win', 0.03125)
    """
    ours, theirs = _finite(first), _finite(second)
    if ours.ndim != 1 or ours.shape != theirs.shape:
        raise ValueError(
            f"expected two sequences of one length; got shapes {ours.shape} and {theirs.shape}: one value per data set"
        )
    needed = fewest_pairs(alpha)
    if len(ours) < needed:
        raise TooFewPairsError(
            f"expected at least {needed} pairs; got {len(ours)}: with n pairs the smallest possible p-value is "
            f"2^(1-n), so that p < {alpha:g} cannot be reached. Compare on more data sets, or give no test"
        )
    better = _round(ours - theirs if higher_is_better else theirs - ours, np.abs([ours, theirs]).max())
    ranked = better[better != 0]
    ranks = stats.rankdata(np.abs(ranked))
    sums = float(ranks[ranked > 0].sum()), float(ranks[ranked < 0].sum())
    return SignedRank(min(sums), _p_value(ranks, min(sums)), len(ranked), len(better) - len(ranked), *sums, alpha)


def _p_value(ranks: NDArray[np.float64], statistic: float) -> float:
    """Two-sided p-value over all signs of these ranks: add them one by one to the distribution of the rank sum."""
    doubled = np.rint(2 * ranks).astype(np.intp)  # average ranks are multiples of a half
    share = np.zeros(int(doubled.sum()) + 1)
    share[0] = 1.0
    for rank in doubled:
        share[rank:] = share[rank:] + share[:-rank]
        share /= 2
    return min(1.0, 2.0 * float(share[: round(2 * statistic) + 1].sum()))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return Holm's step-down corrected p-values, in the order given.

    Rejecting what is below alpha keeps the chance of any false rejection at alpha or less, whatever the dependence.

    Examples
    --------
    >>> holm([0.02, 0.01, 0.9]).tolist()
    [0.04, 0.03, 0.9]
    """
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():  # false for nan as well
        raise ValueError(
            f"expected a sequence of p-values in [0, 1]; got {values.tolist()}: leave out tests that were not made"
        )
    order = np.argsort(values, kind="stable")
    scaled = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


@dataclass(frozen=True)
class Friedman:
    """The result of :func:`friedman`: average ranks (1 is best), the number N of data sets, and two statistics.

    ``chi_square`` is Friedman's, corrected for ties, with k - 1 degrees of freedom. ``f_statistic`` is Iman and
    Davenport's, less conservative, with k - 1 and (k - 1)(N - 1). Each has its p-value beside it.
    """

    average_ranks: tuple[float, ...]
    datasets: int
    chi_square: float
    chi_square_p: float
    f_statistic: float
    f_p: float


def average_ranks(values: ArrayLike, *, higher_is_better: bool = True) -> tuple[float, ...]:
    """Rank the methods on each data set (1 is best, ties share the mean rank) and average over the rows of ``values``.

    Examples
    --------
    >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]])
    (1.0, 2.25, 2.75)
    """
    return tuple(_ranks(values, higher_is_better).mean(axis=0).tolist())


def friedman(values: ArrayLike, *, higher_is_better: bool = True) -> Friedman:
    """Test whether several methods differ, from one value per data set and method.

    χ² = 12 N / (k (k+1)) · Σ_j (R_j - (k+1)/2)², divided by SciPy's factor for ties; F = (N - 1) χ² / (N (k - 1) - χ²).
    ``values`` has the shape (n_datasets, n_methods), at least two of each, every value finite.

    Examples
    --------
    >>> test = friedman([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7], [0.8, 0.9, 0.7]])
    >>> test.average_ranks, round(test.chi_square, 3)
    ((1.3333333333333333, 1.6666666666666667, 3.0), 4.667)
    """
    ranks = _ranks(values, higher_is_better)
    n, k = ranks.shape
    if k < 2 or n < 2:
        raise ValueError(f"expected at least two methods on two data sets; got {k} on {n}: there is nothing to compare")
    means = ranks.mean(axis=0)
    ties = float(np.mean([stats.tiecorrect(row) for row in ranks]))
    # All methods tied everywhere: 0/0, and no sign of a difference. Rounding must not lift χ² over its maximum.
    spread = 12 * n / (k * (k + 1)) * float(((means - (k + 1) / 2) ** 2).sum())
    chi = min(spread / ties, n * (k - 1.0)) if ties else 0.0
    rest = n * (k - 1) - chi
    f = math.inf if rest <= 1e-12 * n * k else (n - 1) * chi / rest
    p_values = float(stats.chi2.sf(chi, k - 1)), float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
    return Friedman(tuple(means.tolist()), n, chi, p_values[0], f, p_values[1])


def _ranks(values: ArrayLike, higher_is_better: bool) -> NDArray[np.float64]:
    array = _finite(values)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"expected values of shape (data sets, methods); got shape {array.shape}")
    signed = -array if higher_is_better else array
    return np.stack([stats.rankdata(_round(row, float(np.abs(row).max()))) for row in signed])


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("expected finite values; got nan or inf: leave out data sets on which a method has no result")
    return array


def _round(values: NDArray[np.float64], largest: float) -> NDArray[np.float64]:
    """Round to ``DIGITS`` digits of the largest value, so that the last bits of a float decide no tie."""
    unit = largest or 1.0
    return np.asarray(np.round(values / unit, DIGITS) * unit)


def nemenyi_quantile(methods: int, alpha: float = 0.05) -> float:
    """q_α: the upper quantile of the studentized range of ``methods`` normal values, divided by √2.

    Examples
    --------
    >>> round(nemenyi_quantile(4), 3)
    2.569
    """
    if methods < 2 or not 0 < alpha < 1:
        raise ValueError(f"expected at least 2 methods and a level between 0 and 1; got {methods} and {alpha}")
    return float(stats.studentized_range.ppf(1.0 - alpha, methods, math.inf)) / math.sqrt(2.0)


def critical_difference(methods: int, datasets: int, alpha: float = 0.05) -> float:
    """By how much two average ranks must differ for a significant difference: q_α √( k (k+1) / (6 N) ).

    k is ``methods``, N ``datasets``; ``alpha`` is the chance that any two of k equal methods are found to differ.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    if datasets < 1:
        raise ValueError(f"expected at least one data set; got {datasets}")
    return nemenyi_quantile(methods, alpha) * math.sqrt(methods * (methods + 1) / (6.0 * datasets))


def cliques(average_ranks: Sequence[float], difference: float) -> tuple[tuple[int, ...], ...]:
    """Find the largest groups in which no two average ranks differ by more than ``difference``.

    A group holds positions in ``average_ranks``, best first. Groups may overlap; none holds another or has one method.

    Examples
    --------
    >>> cliques([1.0, 2.0, 3.0, 9.0], 1.5)
    ((0, 1), (1, 2))
    """
    order = sorted(range(len(average_ranks)), key=lambda index: average_ranks[index])
    found: list[tuple[int, ...]] = []
    reached = 0
    for start, first in enumerate(order):
        end = start + sum(average_ranks[later] - average_ranks[first] <= difference for later in order[start:])
        # A group that ends where an earlier one ended lies inside it.
        if end > reached and end - start > 1:
            found.append(tuple(order[start:end]))
        reached = max(reached, end)
    return tuple(found)
