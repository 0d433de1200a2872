"""Rows to train on and rows to judge by: a part held out at random, or folds.

All functions draw among ``rows``, by default those with an observed positive, and return pairs (to train on, held out)
of sorted row numbers. All rows that are not held out are there to train on, those without a label among them.
"""

import numpy as np
from numpy.typing import NDArray

RowNumbers = NDArray[np.intp]
Split = tuple[RowNumbers, RowNumbers]

#: With fewer rows a part of them alone would choose by luck: ``splits`` then makes so many folds.
FEW_ROWS, N_FOLDS = 2000, 5


def hold_out(
    observed: NDArray[np.int8], fraction: float, generator: np.random.Generator, *, rows: RowNumbers | None = None
) -> Split:
    """Hold out a fraction of the rows, at least one; every label keeps a row to train on.

    Examples
    --------
    >>> train, held = hold_out(np.eye(3, dtype=np.int8)[[0, 0, 1, 2]], 0.5, np.random.default_rng(0))
    >>> train.tolist(), held.tolist()
    ([0, 2, 3], [1])
    """
    rows = _labelled(observed) if rows is None else rows
    spare = _spare(observed, rows, generator)
    return _without(len(observed), spare[: max(1, round(fraction * len(rows)))])


def folds(
    observed: NDArray[np.int8],
    n_folds: int,
    generator: np.random.Generator,
    *,
    rows: RowNumbers | None = None,
    keep_labels: bool = True,
) -> list[Split]:
    """Hold out every row once, in folds of equal size; there are fewer folds if there are fewer rows.

    With ``keep_labels`` one row of each label is in no fold, so that every label has a row to train on.
    """
    rows = _labelled(observed) if rows is None else rows
    if keep_labels:
        rows = _spare(observed, rows, generator)
    n_folds = min(n_folds, len(rows))
    fold = generator.permutation(len(rows)) % n_folds
    return [_without(len(observed), rows[fold == number]) for number in range(n_folds)]


def splits(
    observed: NDArray[np.int8], fraction: float, generator: np.random.Generator, *, keep_labels: bool = True
) -> list[Split]:
    """Hold out a fraction of the labelled rows once, or, of fewer than ``FEW_ROWS``, all in folds."""
    if len(_labelled(observed)) >= FEW_ROWS:
        return [hold_out(observed, fraction, generator)]
    return folds(observed, N_FOLDS, generator, keep_labels=keep_labels)


def can_hold_out(observed: NDArray[np.int8]) -> bool:
    """Whether some label has two rows, so that one of them can be held out."""
    rows = _labelled(observed)
    return len(np.unique(observed[rows].argmax(axis=1))) < len(rows)


def _labelled(observed: NDArray[np.int8]) -> RowNumbers:
    return np.flatnonzero((observed > 0).any(axis=1))


def _spare(observed: NDArray[np.int8], rows: RowNumbers, generator: np.random.Generator) -> RowNumbers:
    """Shuffle rows and leave out the first one of each label; a row with several labels counts for the first."""
    shuffled = generator.permutation(rows)
    _, first = np.unique(observed[shuffled].argmax(axis=1), return_index=True)
    if len(first) == len(rows):
        raise ValueError(
            f"no row can be held out: {len(rows)} labelled rows for {len(first)} observed labels, and each needs a "
            "row to train on. Pass validation=(X_val, Y_val), or, for a network, early_stopping=False."
        )
    return np.delete(shuffled, first)


def _without(n_rows: int, held: RowNumbers) -> Split:
    held = np.sort(held)
    return np.delete(np.arange(n_rows), held), held
