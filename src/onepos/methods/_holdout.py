"""Hold out rows for validation: a part that never takes the last example of a label, or folds."""

import numpy as np
from numpy.typing import NDArray

#: With fewer rows there are so many folds instead of one part that is held out.
FEW_ROWS, N_FOLDS = 2000, 5


def hold_out(
    observed: NDArray[np.int8], labelled: NDArray[np.intp], fraction: float, generator: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split ``labelled`` row numbers into (train, held out), at random.

    The first row of each label in random order always stays in training, so holding out never makes a label
    unseen.
    """
    shuffled = generator.permutation(labelled)
    first_label = observed[shuffled].argmax(axis=1)
    _, first_rows = np.unique(first_label, return_index=True)
    spare = np.setdiff1d(np.arange(len(shuffled)), first_rows, assume_unique=True)
    n_held = min(max(1, round(fraction * len(labelled))), len(spare))
    held = np.sort(shuffled[spare[:n_held]])
    if n_held == 0:
        raise ValueError(
            f"cannot hold out a validation part: {len(labelled)} rows for {len(first_rows)} observed labels. "
            "Pass validation=(X_val, Y_val), or early_stopping=False."
        )
    return np.setdiff1d(labelled, held, assume_unique=True), held


def splits(
    observed: NDArray[np.int8], fraction: float, generator: np.random.Generator
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split all rows into (train, held out): once, or into folds if a part of the rows were too few to choose by."""
    rows = np.arange(len(observed))
    if len(rows) >= FEW_ROWS:
        return [hold_out(observed, rows, fraction, generator)]
    n_folds = min(N_FOLDS, len(rows))
    fold = generator.permutation(len(rows)) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
