"""Checks of the rows and of their texts: empty ones, identical ones, and those that training and test share."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos.doctor.data import Column, Table, Tags, factorize
from onepos.doctor.diagnosis import Finding, Level, counted, finding, listed
from onepos.table.kinds import TEXT

#: Repeated rows and texts are a warning above this share, a note below.
REPEATED_SHARE = 0.01
#: A text with fewer letters and digits than this is nearly empty.
FEWEST_LETTERS = 3
_LETTER = re.compile(r"[^\W_]")
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def check_rows(table: Table, tags: Tags) -> Iterator[Finding]:
    """Look for rows without content, rows with identical features, and identical rows with different tags."""
    empty = table.empty_rows()
    if empty.any():
        said = (
            f"Nothing but zeros, missing entries or blanks in {counted(int(empty.sum()), 'row')}. Drop such rows, or "
        )
        yield finding("row-empty", "warning", said + "find out why they are empty.")
    group, size = groups_of(row_keys(table)[~empty])
    repeats = int((size - 1).sum())
    if not repeats:
        return
    share, chance = repeats / table.n_rows, chance_duplicates(table, size)
    said = f"The same features as in an earlier row in {counted(repeats, 'row')} ({share:.1%}). " + (
        "The columns are so coarse that rows coincide by chance; nothing needs to be done."
        if chance
        else "Drop copies of one record; keep repeated observations of one thing, all on the same side of a split."
    )
    yield finding("row-duplicate", "warning" if share > REPEATED_SHARE and not chance else "note", said)
    tagged = tags.codes[~empty] >= 0
    pairs = np.unique(np.stack([group[tagged], tags.codes[~empty][tagged]]), axis=1)[0]
    several, differ = int((np.bincount(group[tagged]) > 1).sum()), int((np.bincount(pairs) > 1).sum())
    if differ:
        said = (
            f"Different tags in {differ:,} of {counted(several, 'group')} of identical rows. If tags are correct, "
            "such rows have several labels, which is what onepos is for; else look for errors in the tags. The pairs "
            "also bound the number of labels per row: see cardinality-estimate."
        )
        yield finding("row-duplicate-disagrees", "note", said)


def chance_duplicates(table: Table, size: NDArray[np.int64]) -> bool:
    """Whether identical rows are no surprise, given the groups' sizes; of sparse matrices, never."""
    pairs = float((size * (size - 1.0)).sum() / 2)
    return table.matrix is None and by_chance(table.columns, table.n_rows, pairs)


def check_split_columns(table: Table, test: Table) -> Iterator[Finding]:
    """Compare the columns of training and test by name (of sparse matrices, by number)."""
    lacking, extra = (
        [n for n in one if n not in set(other)] for one, other in ((table.names, test.names), (test.names, table.names))
    )
    differences = [f"Not in test: {counted(len(lacking), 'column')} of training ({listed(lacking)})"] if lacking else []
    differences += [f"Not in training: {counted(len(extra), 'column')} of test ({listed(extra)})"] if extra else []
    if differences or (table.matrix is None) != (test.matrix is None):
        said = "; ".join(differences) or "One of the two is sparse, the other is not"
        said += ". Rows were not compared across the split. Give both the same columns."
        yield finding("column-split-mismatch", "error", said, [*lacking, *extra])


def check_split_rows(table: Table, test: Table) -> Iterator[Finding]:
    """Look for test rows whose features a training row has too, empty rows aside; the columns must be the same."""
    if table.matrix is not None:
        keys, test_keys = matrix_keys(table.matrix), matrix_keys(test.matrix)
    else:
        # Read together, so that equal values have equal codes.
        pairs = [(table.frame.iloc[:, j], test.frame.iloc[:, test.names.index(n)]) for j, n in enumerate(table.names)]
        together = [factorize(pd.Series([*ours, *theirs], dtype=object))[0] for ours, theirs in pairs]
        keys, test_keys = np.split(code_keys(together, table.n_rows + test.n_rows), [table.n_rows])
    shared = int((np.isin(test_keys, keys) & ~test.empty_rows()).sum())
    if shared:
        chance = table.matrix is None and by_chance(table.columns, table.n_rows, shared * table.n_rows / test.n_rows)
        said = f"The features of a training row in {shared:,} of {counted(test.n_rows, 'test row')}. "
        said += "The columns are so coarse that rows coincide by chance. " if chance else ""
        said += "Results on them flatter. Split by group, so that copies stay together."
        yield finding("row-in-both-splits", "note" if chance else "warning", said)


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
    counts = np.bincount(column.codes + 1).astype(np.float64)
    return float((counts * (counts - 1)).sum() / max(n_rows * (n_rows - 1.0), 1.0))


def check_texts(table: Table, test: Sequence[Column] = ()) -> Iterator[Finding]:
    """Look at the columns named as ``text``: nearly empty texts, equal ones, and those that training and test share."""
    for column, other in zip_longest(table.texts, test):
        (texts, blank), about = _plain_texts(column), [column.name]
        if blank.any():
            said = f"Fewer than {FEWEST_LETTERS} letters or digits in {counted(int(blank.sum()), 'text')} of "
            said += f"{listed(about)}. Nothing can be learnt from them; drop the rows or find the texts."
            yield finding("text-empty", "warning", said, about)
        known = set(texts[~blank].tolist())
        repeats = int((~blank).sum()) - len(known)
        if repeats:
            said = (
                f"The same as an earlier one, but for case and blanks: {counted(repeats, 'text')} of {listed(about)}. "
            )
            said += "Look for copies and for boilerplate; keep equal texts on the same side of a split."
            level: Level = "warning" if repeats > REPEATED_SHARE * table.n_rows else "note"
            yield finding("text-duplicate", level, said, about)
        others, test_blank = _plain_texts(column if other is None else other)
        shared = 0 if other is None else sum(text in known for text in others[~test_blank])
        if shared:
            said = f"In training too, but for case and blanks: {shared:,} of {counted(len(others), 'test text')}. "
            yield finding("text-in-both-splits", "warning", said + "Results on them flatter. Split by text.", about)


def nearly_empty(table: Table) -> NDArray[np.bool_]:
    """Return the rows whose texts are all nearly empty; none without a column of texts."""
    blank = [_plain_texts(column)[1] for column in table.texts]
    return np.logical_and.reduce(blank) if blank else np.zeros(table.n_rows, dtype=np.bool_)


def _plain_texts(column: Column) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return texts in lower case with single blanks, and which of them are nearly empty; missing ones are."""
    plain = [" ".join(str(value).casefold().split()) for value in column.distinct]
    blank = np.array([*(len(_LETTER.findall(text)) < FEWEST_LETTERS for text in plain), True], dtype=np.bool_)
    return np.array([*plain, ""], dtype=object)[column.codes], blank[column.codes]
