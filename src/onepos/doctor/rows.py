"""Checks of the rows: empty ones, identical ones, and identical ones with different tags."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.util import hash_pandas_object

from onepos.doctor.columns import Column
from onepos.doctor.diagnosis import Finding, counted, finding
from onepos.doctor.labels import Tags
from onepos.table.kinds import TEXT

REPEATED_SHARE = 0.01  # Repeated rows are a warning above this share, a note below
_BY_CHANCE = "The columns are so coarse that rows coincide by chance; nothing needs to be done."
_COPIES = "Drop copies of one record; keep repeated observations of one thing, all on the same side of a split."


def check_rows(columns: Sequence[Column], tags: Tags) -> Iterator[Finding]:
    """Look for rows without content, rows with identical features, and identical rows with different tags."""
    empty = empty_rows(columns)
    if empty.any():
        yield finding("row-empty", rows=counted(int(empty.sum()), "row"))
    group, size = groups_of(columns, ~empty)
    repeats = int((size - 1).sum())
    if not repeats:
        return
    share, chance = repeats / len(empty), chance_duplicates(columns, size)
    yield finding(
        "row-duplicate",
        level="warning" if share > REPEATED_SHARE and not chance else "note",
        rows=counted(repeats, "row"),
        share=share,
        meaning=_BY_CHANCE if chance else _COPIES,
    )
    codes = tags.codes[~empty]
    group, codes = group[codes >= 0], codes[codes >= 0]
    several = int((np.bincount(group) > 1).sum())
    differ = int((np.bincount(np.unique(np.stack([group, codes]), axis=1)[0]) > 1).sum())
    if differ:
        yield finding("row-duplicate-disagrees", differ=differ, groups=counted(several, "group"))


def empty_rows(columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Return the rows in which every entry is zero, missing or a blank string."""
    empty = np.ones(len(columns[0].codes), dtype=np.bool_)
    for column in columns:
        if column.values is not None:
            empty &= (column.values == 0) | (column.codes < 0)
        else:
            blank = [isinstance(value, str) and not value.strip() for value in column.distinct]
            empty &= np.array([*blank, True], dtype=np.bool_)[column.codes]  # the last entry is that of −1, missing
    return empty


def comparable_rows(columns: Sequence[Column], tags: Tags) -> NDArray[np.bool_]:
    """Return the rows that have one tag and content."""
    return (tags.codes >= 0) & ~empty_rows(columns)


def groups_of(columns: Sequence[Column], used: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of identical rows of each row that is used, and each group's size; gaps are equal."""
    codes = pd.DataFrame({number: column.codes for number, column in enumerate(columns)})
    keys = np.asarray(hash_pandas_object(codes, index=False))[used]
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    return group.astype(np.int64), size.astype(np.int64)


def chance_duplicates(columns: Sequence[Column], size: NDArray[np.int64]) -> bool:
    """Whether coarse columns alone would make a tenth of the pairs of identical rows, in groups of these sizes.

    If columns were independent, n(n−1)/2 · Π_c P(two rows agree in column c) pairs of rows would coincide. A column of
    prose never agrees by chance.
    """
    if any(column.kind == TEXT for column in columns):
        return False
    pairs = float((size * (size - 1.0)).sum() / 2)
    n_rows = len(columns[0].codes)
    every = max(n_rows * (n_rows - 1.0), 1.0)
    counts = [np.bincount(column.codes + 1).astype(np.float64) for column in columns]
    with np.errstate(divide="ignore"):
        agree = np.log([(count * (count - 1)).sum() / every for count in counts])
    return bool(agree.sum() + np.log(max(every / 2, 1.0)) >= np.log(max(0.1 * pairs, 1e-300)))
