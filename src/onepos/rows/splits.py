"""Rows to train on and rows to judge by: a part held out at random, or folds.

Labels are an indicator, dense or CSR. All functions draw among ``rows``, by default those with an observed positive.
They return pairs (to train on, held out) of sorted row numbers. All rows that are not held out are there to train on,
those without a label among them.

Rows with the same features describe one thing, as far as a model can tell. With ``alike``, from ``first_alike``, they
stay together: a model that has seen one of them would know the others.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.validation import has_label

RowNumbers = NDArray[np.intp]
Split = tuple[RowNumbers, RowNumbers]

#: With fewer rows a part of them alone would choose by luck: ``splits`` then makes so many folds.
FEW_ROWS, N_FOLDS = 2000, 5
#: Rows that repeat are taken for things if there are so many things, with so many rows each in the mean at most.
FEWEST_THINGS, MOST_ROWS_PER_THING = 20, 10


def hold_out(
    observed: Any,
    fraction: float,
    generator: np.random.Generator,
    *,
    rows: RowNumbers | None = None,
    alike: RowNumbers | None = None,
) -> Split:
    """Hold out a fraction of the rows, at least one; every label keeps a row to train on.

    Examples
    --------
    >>> train, held = hold_out(np.eye(3, dtype=np.int8)[[0, 0, 1, 2]], 0.5, np.random.default_rng(0))
    >>> train.tolist(), held.tolist()
    ([0, 2, 3], [1])
    """
    rows = _labelled(observed) if rows is None else rows
    spare = _spare(observed, rows, generator, alike)
    most = max(1, round(fraction * len(rows)))
    if alike is None:
        return _without(observed.shape[0], spare[:most])
    # Things in the order of their first rows; the last one is held out as a whole.
    _, first, thing = np.unique(alike[spare], return_index=True, return_inverse=True)
    place = first[thing]
    return _without(observed.shape[0], spare[place <= np.sort(place)[most - 1]])


def folds(
    observed: Any,
    n_folds: int,
    generator: np.random.Generator,
    *,
    rows: RowNumbers | None = None,
    keep_labels: bool = True,
    alike: RowNumbers | None = None,
) -> list[Split]:
    """Hold out every row once, in folds of equal size; there are fewer folds if there are fewer rows.

    With ``keep_labels`` one row of each label is in no fold, so that every label has a row to train on.
    """
    rows = _labelled(observed) if rows is None else rows
    if keep_labels:
        rows = _spare(observed, rows, generator, alike)
    n_folds = min(n_folds, len(rows))
    fold = generator.permutation(len(rows)) % n_folds
    if alike is not None:
        _, first, thing = np.unique(alike[rows], return_index=True, return_inverse=True)
        _, fold = np.unique(fold[first[thing]], return_inverse=True)  # none is empty
        n_folds = int(fold.max()) + 1
    return [_without(observed.shape[0], rows[fold == number]) for number in range(n_folds)]


def splits(
    observed: Any,
    fraction: float,
    generator: np.random.Generator,
    *,
    keep_labels: bool = True,
    alike: RowNumbers | None = None,
) -> list[Split]:
    """Hold out a fraction of the labelled rows once, or, of fewer than ``FEW_ROWS``, all in folds."""
    if len(_labelled(observed)) >= FEW_ROWS:
        return [hold_out(observed, fraction, generator, alike=alike)]
    return folds(observed, N_FOLDS, generator, keep_labels=keep_labels, alike=alike)


def can_hold_out(observed: Any) -> bool:
    """Whether some label has two rows, so that one of them can be held out."""
    rows = _labelled(observed)
    return len(np.unique(observed[rows].argmax(axis=1))) < len(rows)


def first_alike(X: Any) -> RowNumbers | None:
    """Return for each row the number of the first row with the same features; None if rows do not repeat.

    Many rows per thing, or few things, are taken for coarse features: None. X is an array or a CSR matrix; rows on disk
    are not compared.

    Examples
    --------
    >>> first_alike(np.arange(25.0)[[0, 1, 0, *range(2, 25)], None])[:4].tolist()
    [0, 1, 0, 3]
    """
    if sparse.issparse(X):
        entries = X.tocsr()
        numbers = _mixed(entries.data, entries.indices) * (entries.data != 0)
        sums = np.concatenate([[np.uint64(0)], np.cumsum(numbers, dtype=np.uint64)])
        return first_equal(sums[entries.indptr[1:]] - sums[entries.indptr[:-1]])
    if not isinstance(X, np.ndarray) or isinstance(X, np.memmap) or X.ndim != 2:
        return None
    marks = np.zeros(len(X), dtype=np.uint64)
    for column in range(X.shape[1]):
        marks += _mixed(X[:, column], np.array(column))
    return first_equal(marks)


def first_equal(marks: NDArray[Any]) -> RowNumbers | None:
    """Return for each row the number of the first row with the same mark; None as for ``first_alike``."""
    distinct, first, inverse = np.unique(marks, return_index=True, return_inverse=True)
    repeat = max(FEWEST_THINGS, len(marks) / MOST_ROWS_PER_THING) <= len(distinct) < len(marks)
    return np.asarray(first[inverse], dtype=np.intp) if repeat else None


def _mixed(values: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Return 64 bits for each value in its column: the sums of two rows are equal if the rows are, else hardly ever."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64) + columns.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(factor)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def _labelled(observed: Any) -> RowNumbers:
    return np.flatnonzero(has_label(observed))


def _spare(
    observed: Any, rows: RowNumbers, generator: np.random.Generator, alike: RowNumbers | None = None
) -> RowNumbers:
    """Shuffle rows and leave out the first one of each label, and rows like it; of several labels the first counts."""
    shuffled = generator.permutation(rows)
    _, first = np.unique(observed[shuffled].argmax(axis=1), return_index=True)
    spare = np.delete(shuffled, first)
    if not len(spare):
        raise ValueError(
            f"no row can be held out: {len(rows)} labelled rows for {len(first)} observed labels, and each needs a "
            "row to train on. Pass validation=(X_val, Y_val), or, for a network, early_stopping=False."
        )
    if alike is not None:
        apart = spare[~np.isin(alike[spare], alike[shuffled[first]])]
        return apart if len(apart) else spare
    return spare


def _without(n_rows: int, held: RowNumbers) -> Split:
    held = np.sort(held)
    return np.delete(np.arange(n_rows), held), held
