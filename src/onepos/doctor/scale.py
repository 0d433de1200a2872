"""Checks of the numbers: infinite, huge, of very different scale, heavy-tailed, codes of categories."""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from onepos.doctor.data import Column, Table
from onepos.doctor.diagnosis import Finding, counted, finding, listed
from onepos.table.kinds import NUMBER

#: Largest ratio of two columns' standard deviations that passes.
SPREAD = 1e3
#: float32, in which networks work, holds every whole number up to here and not beyond.
HUGE = 2.0**24
#: Distance from the median, in interquartile ranges, that a normal column reaches once in no lifetime.
TAIL = 100.0
#: A column of consecutive whole numbers with so many distinct values may hold codes.
FEWEST_CODES, MOST_CODES = 3, 30
ENOUGH_ROWS = 50


def check_scale(table: Table) -> list[Finding]:
    """Look at the numeric columns.

    Error: infinite values. Warnings: standard deviations that differ by more than 1,000 times; magnitudes beyond 2^24.
    Notes: a value more than 100 interquartile ranges from the median; consecutive whole numbers with 3 to 30 distinct
    values, three rows or more each on average and 50 rows in all, unless half of ten or more numeric columns are
    like that (counts, pixels).

    Of a sparse matrix: infinite and missing entries; magnitude, and its spread over columns.
    """
    if table.matrix is not None:
        return _sparse_scale(table)
    numeric = [column for column in table.columns if column.kind == NUMBER and len(column.distinct) > 1]
    every = [column for column in table.columns if column.kind == NUMBER]
    infinite = [column.name for column in every if column.values is not None and np.isinf(column.values).any()]
    largest = {column.name: _largest(column) for column in every}
    spreads = {column.name: spread for column in numeric if (spread := _deviation(column)) > 0}
    found = [*_infinite(infinite), *_spread(spreads), *_huge(largest)]
    tails = [column.name for column in numeric if _heavy(column)]
    if tails:
        detail = (
            f"In {counted(len(tails), 'column')} ({listed(tails)}): values more than {TAIL:.0f} interquartile ranges "
            "from the median, which then decide mean and scale. Take logarithms or quantiles, or clip."
        )
        found.append(finding("scale-heavy-tail", "note", detail, tails))
    return [*found, *_integer_codes(numeric)]


def _finite(column: Column) -> NDArray[np.float64]:
    assert column.values is not None
    return column.values[np.isfinite(column.values)]


def _largest(column: Column) -> float:
    return float(np.abs(_finite(column)).max(initial=0.0))


def _deviation(column: Column) -> float:
    """Standard deviation, from values divided by the largest: squares of large numbers do not overflow."""
    finite, largest = _finite(column), _largest(column)
    if largest == 0 or not finite.size:
        return 0.0
    with np.errstate(all="ignore"):
        return float(min(np.std(finite / largest) * largest, np.finfo(np.float64).max))


def _infinite(names: list[Hashable]) -> list[Finding]:
    if not names:
        return []
    detail = (
        f"In {counted(len(names), 'column')} ({listed(names)}): infinite values, which no method accepts. Find the "
        "division by zero or the overflow that made them; mark them as missing or clip them."
    )
    return [finding("scale-infinite", "error", detail, names)]


def _spread(spreads: dict[Hashable, float]) -> list[Finding]:
    """Compare standard deviations; of sparse columns, the largest magnitudes."""
    if not spreads:
        return []
    low, high = min(spreads, key=spreads.__getitem__), max(spreads, key=spreads.__getitem__)
    with np.errstate(over="ignore"):
        ratio = np.float64(spreads[high]) / np.float64(spreads[low])
    if ratio <= SPREAD:
        return []
    detail = (
        f"The scales of columns run from {spreads[low]:.3g} ({listed([low])}) to {spreads[high]:.3g} "
        f"({listed([high])}). "
        "Distances, and so neighbours, see the largest only, unless columns are scaled, as onepos does by default."
    )
    return [finding("scale-spread", "warning", detail, [low, high])]


def _huge(largest: dict[Hashable, float]) -> list[Finding]:
    names = [name for name, value in largest.items() if value > HUGE]
    if not names:
        return []
    detail = (
        f"In {counted(len(names), 'column')} ({listed(names)}): values up to {max(largest.values()):.3g}. Above "
        "2^24 float32 loses whole numbers. Check for codes of missing values such as 1e20 and for identifiers; take "
        "logarithms or change units."
    )
    return [finding("scale-huge", "warning", detail, names)]


def _heavy(column: Column) -> bool:
    finite = _finite(column)
    if finite.size < ENOUGH_ROWS:
        return False
    scaled = finite / max(_largest(column), 1e-300)
    low, middle, high = np.quantile(scaled, [0.25, 0.5, 0.75])
    return bool(high > low and np.abs(scaled - middle).max() > TAIL * (high - low))


def _integer_codes(numeric: list[Column]) -> list[Finding]:
    names = [column.name for column in numeric if _may_be_codes(column)]
    if not names or (len(numeric) >= 10 and len(names) > len(numeric) / 2):
        return []
    detail = (
        f"In {counted(len(names), 'column')} ({listed(names)}): a few consecutive whole numbers. They may be codes of "
        "categories without an order."
    )
    return [finding("scale-integer-codes", "note", detail, names)]


def _may_be_codes(column: Column) -> bool:
    n_distinct = len(column.distinct)
    if not FEWEST_CODES <= n_distinct <= MOST_CODES or not column.whole:
        return False
    finite = _finite(column)
    enough = finite.size >= max(ENOUGH_ROWS, 3 * n_distinct)
    return bool(enough and finite.max() - finite.min() == n_distinct - 1)


def _sparse_scale(table: Table) -> list[Finding]:
    matrix = table.matrix
    finite = np.isfinite(matrix.data)
    found = _infinite([int(j) for j in np.unique(matrix.indices[~finite])])
    largest = np.zeros(matrix.shape[1])
    np.maximum.at(largest, matrix.indices[finite], np.abs(matrix.data[finite]))
    # Not the deviation: that of a rare word is small because it is rare.
    spreads: dict[Hashable, float] = {int(j): float(largest[j]) for j in np.flatnonzero(largest > 0)}
    return [*found, *_spread(spreads), *_huge({int(j): float(largest[j]) for j in np.flatnonzero(largest > HUGE)})]
