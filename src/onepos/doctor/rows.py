"""Checks of the rows and of their texts: empty ones, identical ones, and those that training and test share."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.util import hash_array, hash_pandas_object

from onepos.doctor.data import Column, Table, Tags, factorize
from onepos.doctor.diagnosis import Seen, counted, listed, seen
from onepos.table.kinds import TEXT

REPEATED_SHARE = 0.01  # Repeated rows and texts are a warning above this share, a note below
FEWEST_LETTERS = 3  # A text with fewer letters and digits than this is nearly empty
_LETTER = re.compile(r"[^\W_]")
_COARSE = "The columns are so coarse that rows coincide by chance"


def check_rows(table: Table, tags: Tags) -> Iterator[Seen]:
    """Look for rows without content, rows with identical features, and identical rows with different tags."""
    empty = table.empty_rows()
    if empty.any():
        yield seen("row-empty", rows=counted(int(empty.sum()), "row"))
    group, size = groups_of(table, ~empty)
    repeats = int((size - 1).sum())
    if not repeats:
        return
    share, chance = repeats / table.n_rows, chance_duplicates(table, size)
    yield seen(
        "row-duplicate",
        level="warning" if share > REPEATED_SHARE and not chance else "note",
        rows=counted(repeats, "row"),
        share=share,
        meaning=f"{_COARSE}; nothing needs to be done."
        if chance
        else "Drop copies of one record; keep repeated observations of one thing, all on the same side of a split.",
    )
    codes = tags.codes[~empty]
    group, codes = group[codes >= 0], codes[codes >= 0]
    several = int((np.bincount(group) > 1).sum())
    differ = int((np.bincount(np.unique(np.stack([group, codes]), axis=1)[0]) > 1).sum())
    if differ:
        yield seen("row-duplicate-disagrees", differ=differ, groups=counted(several, "group"))


def check_split_columns(table: Table, test: Table) -> Iterator[Seen]:
    """Compare the columns of training and test by name (of sparse matrices, by number)."""
    lacking = [name for name in table.names if name not in set(test.names)]
    extra = [name for name in test.names if name not in set(table.names)]
    differences = [f"Not in test: {counted(len(lacking), 'column')} of training ({listed(lacking)})"] if lacking else []
    differences += [f"Not in training: {counted(len(extra), 'column')} of test ({listed(extra)})"] if extra else []
    if not differences and (table.matrix is None) != (test.matrix is None):
        differences = ["One of the two is sparse, the other is not"]
    if differences:
        yield seen("column-split-mismatch", [*lacking, *extra], differences="; ".join(differences))


def check_split_rows(table: Table, test: Table) -> Iterator[Seen]:
    """Look for test rows whose features a training row has too, empty rows aside; the columns must be the same."""
    if table.matrix is not None:
        keys, test_keys = matrix_keys(table.matrix), matrix_keys(test.matrix)
    else:
        # Read together, so that equal values have equal codes.
        pairs = [(table.frame.iloc[:, j], test.frame.iloc[:, test.names.index(n)]) for j, n in enumerate(table.names)]
        together = [factorize(pd.Series([*ours, *theirs], dtype=object))[0] for ours, theirs in pairs]
        keys, test_keys = np.split(_code_keys(together), [table.n_rows])
    shared = int((np.isin(test_keys, keys) & ~test.empty_rows()).sum())
    if shared:
        chance = _by_chance(table, shared * table.n_rows / test.n_rows)
        yield seen(
            "row-in-both-splits",
            level="note" if chance else "warning",
            shared=shared,
            rows=counted(test.n_rows, "test row"),
            meaning=f"{_COARSE}. " if chance else "",
        )


def groups_of(table: Table, used: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of identical rows of each row that is used, and each group's size."""
    sparse = table.matrix is not None
    keys = matrix_keys(table.matrix) if sparse else _code_keys([column.codes for column in table.columns])
    _, group, size = np.unique(keys[used], return_inverse=True, return_counts=True)
    return group.astype(np.int64), size.astype(np.int64)


def _code_keys(codes: Sequence[NDArray[np.int64]]) -> NDArray[np.uint64]:
    """Return a 64-bit key per row from one code per column: equal rows have equal keys; missing equals missing."""
    return np.asarray(hash_pandas_object(pd.DataFrame(dict(enumerate(codes))), index=False), dtype=np.uint64)


def matrix_keys(matrix: Any) -> NDArray[np.uint64]:
    """Return a key per row of a CSR matrix without stored zeros; comparable across matrices."""
    entries = hash_array(hash_array(matrix.indices.astype(np.uint64)) ^ matrix.data.astype(np.float64).view(np.uint64))
    # Sums wrap around modulo 2^64, so the difference of two running sums is still the sum of the row.
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(entries, dtype=np.uint64)])
    return np.asarray(running[matrix.indptr[1:]] - running[matrix.indptr[:-1]], dtype=np.uint64)


def chance_duplicates(table: Table, size: NDArray[np.int64]) -> bool:
    """Whether groups of identical rows of these sizes are no surprise."""
    return _by_chance(table, float((size * (size - 1.0)).sum() / 2))


def _by_chance(table: Table, pairs: float) -> bool:
    """Whether coarse columns alone would make a tenth of the pairs of identical rows; of sparse matrices, never.

    If columns were independent, n(n−1)/2 · Π_c P(two rows agree in column c) pairs of rows would coincide. A column of
    prose never agrees by chance.
    """
    if table.matrix is not None or any(column.kind == TEXT for column in table.columns):
        return False
    counts = [np.bincount(column.codes + 1).astype(np.float64) for column in table.columns]
    every = max(table.n_rows * (table.n_rows - 1.0), 1.0)
    with np.errstate(divide="ignore"):
        agree = np.log([(count * (count - 1)).sum() / every for count in counts])
    return bool(agree.sum() + np.log(max(every / 2, 1.0)) >= np.log(max(0.1 * pairs, 1e-300)))


def check_texts(table: Table, test: Sequence[Column] = ()) -> Iterator[Seen]:
    """Look at the columns named as ``text``: nearly empty texts, equal ones, and those that training and test share."""
    for column, other in zip_longest(table.texts, test):
        (texts, blank), about = _plain_texts(column), [column.name]
        if blank.any():
            yield seen("text-empty", about, fewest=FEWEST_LETTERS, texts=counted(int(blank.sum()), "text"))
        known = set(texts[~blank].tolist())
        repeats = int((~blank).sum()) - len(known)
        if repeats:
            often = repeats > REPEATED_SHARE * table.n_rows
            yield seen("text-duplicate", about, level="warning" if often else "note", texts=counted(repeats, "text"))
        if other is not None:
            others, test_blank = _plain_texts(other)
            shared = sum(text in known for text in others[~test_blank])
            if shared:
                yield seen("text-in-both-splits", about, shared=shared, texts=counted(len(others), "test text"))


def comparable_rows(table: Table, tags: Tags) -> NDArray[np.bool_]:
    """Return the rows that have one tag and content: neither all entries are empty nor all texts nearly so."""
    used = (tags.codes >= 0) & ~table.empty_rows()
    if table.texts:
        used &= ~np.logical_and.reduce([_plain_texts(column)[1] for column in table.texts])
    return used


def _plain_texts(column: Column) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return texts in lower case with single blanks, and which of them are nearly empty; missing ones are."""
    plain = [" ".join(str(value).casefold().split()) for value in column.distinct]
    blank = np.array([*(len(_LETTER.findall(text)) < FEWEST_LETTERS for text in plain), True], dtype=np.bool_)
    return np.array([*plain, ""], dtype=object)[column.codes], blank[column.codes]
