"""Checks of the rows: empty ones, identical ones, and those that training and test share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos.doctor.data import Column, Table, Tags
from onepos.doctor.diagnosis import Finding, counted, finding, listed
from onepos.table.kinds import TEXT

#: Repeated rows are a warning above this share, a note below.
REPEATED_SHARE = 0.01
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def check_rows(table: Table, tags: Tags) -> list[Finding]:
    """Look for rows without content and rows with identical features.

    Warning: rows in which everything is zero, missing or blank. Identical rows (the empty ones aside): a note, a
    warning if more than 1 % of the rows repeat another one. Identical rows with different tags: a note, because with
    one observed label per row this is what several true labels look like.
    """
    found = []
    empty = table.empty_rows()
    if empty.any():
        detail = (
            f"Nothing but zeros, missing entries or blanks in {counted(int(empty.sum()), 'row')}. Drop such rows, or "
            "find out why they are empty."
        )
        found.append(finding("row-empty", "warning", detail))
    group, size = groups_of(row_keys(table)[~empty])
    repeats = int((size - 1).sum())
    if repeats:
        share = repeats / table.n_rows
        chance = chance_duplicates(table, size)
        detail = f"The same features as in an earlier row in {counted(repeats, 'row')} ({share:.1%}). " + (
            "The columns are so coarse that rows coincide by chance; nothing needs to be done."
            if chance
            else "Drop copies of one record; keep repeated observations of one thing, all on the same side of a split."
        )
        found.append(finding("row-duplicate", "warning" if share > REPEATED_SHARE and not chance else "note", detail))
        found += _disagreement(group, tags.codes[~empty])
    return found


def chance_duplicates(table: Table, size: NDArray[np.int64]) -> bool:
    """Whether identical rows are no surprise, given the groups' sizes; of sparse matrices, never."""
    pairs = float((size * (size - 1.0)).sum() / 2)
    return table.matrix is None and by_chance(table.columns, table.n_rows, pairs)


def _disagreement(group: NDArray[np.int64], codes: NDArray[np.int64]) -> list[Finding]:
    """Groups of identical rows with at least two tags, of which two differ."""
    group, codes = group[codes >= 0], codes[codes >= 0]
    if not group.size:
        return []
    sizes = np.bincount(group)
    distinct = np.bincount(np.unique(np.stack([group, codes]), axis=1)[0], minlength=len(sizes))
    several, differ = int((sizes > 1).sum()), int((distinct > 1).sum())
    if not differ:
        return []
    detail = (
        f"Different tags in {differ:,} of {counted(several, 'group')} of identical rows. If tags are correct, "
        "such rows have several labels, which is what onepos is for; else look for errors in the tags. The pairs "
        "also bound the number of labels per row: see cardinality-estimate."
    )
    return [finding("row-duplicate-disagrees", "note", detail)]


def check_split_columns(table: Table, test: Table) -> list[Finding]:
    """Compare the columns of training and test by name (of sparse matrices, by number)."""
    known, other = set(table.names), set(test.names)
    if known == other and (table.matrix is None) == (test.matrix is None):
        return []
    lacking, extra = [n for n in table.names if n not in other], [n for n in test.names if n not in known]
    differences = [f"Not in test: {counted(len(lacking), 'column')} of training ({listed(lacking)})"] if lacking else []
    differences += [f"Not in training: {counted(len(extra), 'column')} of test ({listed(extra)})"] if extra else []
    said = "; ".join(differences) or "One of the two is sparse, the other is not"
    detail = f"{said}. Rows were not compared across the split. Give both the same columns."
    return [finding("column-split-mismatch", "error", detail, [*lacking, *extra])]


def check_split_rows(table: Table, test: Table) -> list[Finding]:
    """Test rows whose features a training row has too, rows without content aside; the columns must be the same.

    A warning, or a note if rows coincide by chance because the columns are coarse.
    """
    if table.matrix is not None:
        keys, test_keys = matrix_keys(table.matrix), matrix_keys(test.matrix)
    else:
        of_test = {column.name: column for column in test.columns}
        keys = row_keys(table)
        test_keys = code_keys([codes_in(column, of_test[column.name]) for column in table.columns], test.n_rows)
    shared = int((np.isin(test_keys, keys) & ~test.empty_rows()).sum())
    if not shared:
        return []
    chance = table.matrix is None and by_chance(table.columns, table.n_rows, shared * table.n_rows / test.n_rows)
    detail = (
        f"The features of a training row in {shared:,} of {counted(test.n_rows, 'test row')}. "
        + ("The columns are so coarse that rows coincide by chance. " if chance else "")
        + "Results on them flatter. Split by group, so that copies stay together."
    )
    return [finding("row-in-both-splits", "note" if chance else "warning", detail)]


def row_keys(table: Table) -> NDArray[np.uint64]:
    """Return one 64-bit number per row: equal rows have equal keys."""
    if table.matrix is not None:
        return matrix_keys(table.matrix)
    return code_keys([column.codes for column in table.columns], table.n_rows)


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


def codes_in(column: Column, other: Column) -> NDArray[np.int64]:
    """Codes of ``other``'s entries as ``column`` has them; values that ``column`` lacks get codes beyond its own."""
    place = _index(column).get_indexer(_index(other))
    place = np.where(place >= 0, place, len(column.distinct) + np.arange(len(place)))
    return np.append(place, -1)[other.codes].astype(np.int64)


def _index(column: Column) -> Any:
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


def by_chance(columns: Sequence[Column], n_rows: int, pairs: float) -> bool:
    """Whether identical rows are no surprise: coarse columns alone would make a tenth of the pairs.

    If columns were independent, n(n−1)/2 · Π_c P(two rows agree in column c) pairs of rows would coincide. A column of
    prose never agrees by chance.
    """
    if any(column.kind == TEXT for column in columns):
        return False
    agree = [_agreement(column, n_rows) for column in columns]
    with np.errstate(divide="ignore"):
        logarithm = float(np.log(agree).sum()) + np.log(max(n_rows * (n_rows - 1) / 2, 1.0))
    return bool(logarithm >= np.log(max(0.1 * pairs, 1e-300)))


def _agreement(column: Column, n_rows: int) -> float:
    counts = np.append(column.counts, column.missing).astype(np.float64)
    return float((counts * (counts - 1)).sum() / max(n_rows * (n_rows - 1.0), 1.0))
