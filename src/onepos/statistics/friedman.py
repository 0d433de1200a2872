"""Average ranks of several methods over data sets, and Friedman's test of whether they differ at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from onepos.statistics._ties import merge_near, tolerance_for


@dataclass(frozen=True)
class Friedman:
    """The result of :func:`friedman`.

    Attributes
    ----------
    average_ranks : tuple of float
        One a method, in the order given; 1 is best.
    datasets : int
        How many data sets were ranked (N).
    chi_square, chi_square_p : float
        Friedman's statistic, χ² with k - 1 degrees of freedom, and its p-value.
    f_statistic, f_p : float
        Iman and Davenport's less conservative F with k - 1 and (k - 1)(N - 1) degrees of freedom, and its p-value.
    """

    average_ranks: tuple[float, ...]
    datasets: int
    chi_square: float
    chi_square_p: float
    f_statistic: float
    f_p: float


def average_ranks(
    values: Sequence[Sequence[float]] | NDArray[Any], *, higher_is_better: bool = True
) -> tuple[float, ...]:
    """Rank the methods on each data set (1 is best, ties share the mean rank) and average over data sets.

    Parameters
    ----------
    values : array of shape (n_datasets, n_methods)
    higher_is_better : bool, default=True

    Examples
    --------
    >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]])
    (1.0, 2.25, 2.75)
    """
    return tuple(_ranks(values, higher_is_better).mean(axis=0).tolist())


def friedman(
    values: Sequence[Sequence[float]] | NDArray[Any], *, higher_is_better: bool = True, correct_ties: bool = True
) -> Friedman:
    """Test whether several methods differ, from one value a data set and method.

    Parameters
    ----------
    values : array of shape (n_datasets, n_methods)
        At least two data sets and two methods, every value finite.
    higher_is_better : bool, default=True
    correct_ties : bool, default=True
        Divide χ² by the factor for ties, as scipy does. Demšar's formulas leave it out, which is conservative.

    Examples
    --------
    >>> test = friedman([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7], [0.8, 0.9, 0.7]])
    >>> test.average_ranks, round(test.chi_square, 3)
    ((1.3333333333333333, 1.6666666666666667, 3.0), 4.667)
    """
    ranks = _ranks(values, higher_is_better)
    factor = _tie_factor(ranks) if correct_ties else 1.0
    return friedman_from_ranks(ranks.mean(axis=0).tolist(), len(ranks), tie_factor=factor)


def friedman_from_ranks(ranks: Sequence[float], datasets: int, *, tie_factor: float = 1.0) -> Friedman:
    """Compute the test from average ranks, as a paper prints them.

    χ² = 12 N / (k (k+1)) · [ Σ_j R_j² - k (k+1)²/4 ] / factor,   F = (N - 1) χ² / (N (k - 1) - χ²).

    Parameters
    ----------
    ranks : sequence of float
        Average rank of each method.
    datasets : int
        N, at least 2.
    tie_factor : float, default=1
        1 - Σ (t³ - t) / (N k (k² - 1)) over groups of t tied methods; 1 without ties, 0 if all are always tied.

    Examples
    --------
    >>> test = friedman_from_ranks([3.143, 2.000, 2.893, 1.964], 14)  # Demšar 2006, section 3.2.2
    >>> round(test.chi_square, 2), round(test.f_statistic, 2)
    (9.28, 3.69)
    """
    k = len(ranks)
    if k < 2 or datasets < 2:
        raise ValueError(
            f"expected at least two methods on two data sets; got {k} on {datasets}: there is nothing to compare"
        )
    mean_rank = (k + 1) / 2
    spread = float(sum((rank - mean_rank) ** 2 for rank in ranks))
    largest = datasets * (k - 1.0)
    # All methods tied everywhere: 0/0, and no sign of a difference. Rounding must not lift χ² over its maximum.
    chi_square = 0.0 if tie_factor == 0 else min(12 * datasets / (k * (k + 1)) * spread / tie_factor, largest)
    rest = largest - chi_square
    f_statistic = float("inf") if rest <= 1e-12 * largest else (datasets - 1) * chi_square / rest
    return Friedman(
        average_ranks=tuple(float(rank) for rank in ranks),
        datasets=datasets,
        chi_square=chi_square,
        chi_square_p=float(stats.chi2.sf(chi_square, k - 1)),
        f_statistic=f_statistic,
        f_p=float(stats.f.sf(f_statistic, k - 1, (k - 1) * (datasets - 1))),
    )


def _ranks(values: Sequence[Sequence[float]] | NDArray[Any], higher_is_better: bool) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"expected values of shape (data sets, methods); got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("expected finite values; got nan or inf: leave out data sets on which a method has no result")
    signed = -array if higher_is_better else array
    return np.stack([stats.rankdata(merge_near(row, tolerance_for(row))) for row in signed])


def _tie_factor(ranks: NDArray[np.float64]) -> float:
    n, k = ranks.shape
    if k < 2:
        return 1.0
    tied = sum(int(count) ** 3 - int(count) for row in ranks for count in np.unique(row, return_counts=True)[1])
    return float(1.0 - tied / (n * k * (k * k - 1)))
