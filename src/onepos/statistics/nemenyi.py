"""Nemenyi's critical difference of average ranks, and the groups that a critical-difference diagram joins."""

import math
from collections.abc import Sequence

from scipy import stats


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

    Parameters
    ----------
    methods, datasets : int
        k and N.
    alpha : float, default=0.05
        The chance that any two of k equal methods are found to differ.

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

    Returns
    -------
    tuple of tuples of int
        Positions in ``average_ranks``, best first within a group and by group. Groups may overlap, none holds
        another, and a method that differs from all others is in none.

    Examples
    --------
    >>> cliques([3.143, 2.000, 2.893, 1.964], 1.25)
    ((3, 1, 2, 0),)
    >>> cliques([1.0, 2.0, 3.0, 9.0], 1.5)
    ((0, 1), (1, 2))
    """
    order = sorted(range(len(average_ranks)), key=lambda index: average_ranks[index])
    found: list[tuple[int, ...]] = []
    reached = 0
    for start, first in enumerate(order):
        end = start
        while end < len(order) and average_ranks[order[end]] - average_ranks[first] <= difference:
            end += 1
        # A group that ends where an earlier one ended lies inside it.
        if end > reached and end - start > 1:
            found.append(tuple(order[start:end]))
        reached = max(reached, end)
    return tuple(found)
