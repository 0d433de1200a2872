"""Identical rows, found by one 64-bit key per row."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onepos.doctor._column import Column

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter 64-bit numbers so that sums of them collide by chance only (the finaliser of SplitMix64)."""
    z = numbers + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def code_keys(codes: Sequence[NDArray[np.int64]], n_rows: int) -> NDArray[np.uint64]:
    """Keys of rows that are given by one code per column; missing equals missing."""
    keys = np.zeros(n_rows, dtype=np.uint64)
    for column in codes:
        keys = mixed(keys ^ mixed(column.astype(np.uint64)))
    return keys


def codes_in(column: "Column", other: "Column") -> NDArray[np.int64]:
    """Codes of ``other``'s entries as ``column`` has them; values that ``column`` lacks get codes beyond its own."""
    place = _index(column).get_indexer(_index(other))
    place = np.where(place >= 0, place, len(column.distinct) + np.arange(len(place)))
    return np.append(place, -1)[other.codes].astype(np.int64)


def _index(column: "Column") -> Any:
    objects = pd.Index(column.distinct, dtype=object)
    if column.values is None or not len(objects):
        return objects
    first = np.zeros(len(column.distinct), dtype=np.int64)
    rows = np.flatnonzero(column.codes >= 0)[::-1]
    first[column.codes[rows]] = rows
    numbers = pd.Index(column.values[first])
    # Whole numbers beyond 2^53 may be one in float64.
    return numbers if numbers.is_unique else objects


def matrix_keys(matrix: Any) -> NDArray[np.uint64]:
    """Keys of the rows of a CSR matrix without stored zeros; comparable across matrices."""
    entries = mixed(mixed(matrix.indices.astype(np.uint64)) ^ matrix.data.astype(np.float64).view(np.uint64))
    # Sums wrap around, so a row's sum is a difference of running sums even so.
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(entries, dtype=np.uint64)])
    return np.asarray(running[matrix.indptr[1:]] - running[matrix.indptr[:-1]], dtype=np.uint64)


def groups_of(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each row's group and each group's size.

    Examples
    --------
    >>> [part.tolist() for part in groups_of(np.array([7, 3, 7], dtype=np.uint64))]
    [[1, 0, 1], [1, 2]]
    """
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    return group.astype(np.int64), size.astype(np.int64)


def by_chance(columns: "Sequence[Column]", n_rows: int, pairs: float) -> bool:
    """Whether identical rows are no surprise: coarse columns alone would make a tenth of the pairs.

    If columns were independent, n(n−1)/2 · Π_c P(two rows agree in column c) pairs of rows would coincide. A column of
    prose never agrees by chance.
    """
    if any(column.kind == "text" for column in columns):
        return False
    agree = [_agreement(column, n_rows) for column in columns]
    with np.errstate(divide="ignore"):
        logarithm = float(np.log(agree).sum()) + np.log(max(n_rows * (n_rows - 1) / 2, 1.0))
    return bool(logarithm >= np.log(max(0.1 * pairs, 1e-300)))


def _agreement(column: "Column", n_rows: int) -> float:
    counts = np.append(column.counts, column.missing).astype(np.float64)
    return float((counts * (counts - 1)).sum() / max(n_rows * (n_rows - 1.0), 1.0))
