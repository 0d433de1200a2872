"""Hold out rows for validation without taking the last example of any label."""

import numpy as np
from numpy.typing import NDArray


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


def folds(n_rows: int, n_folds: int, generator: np.random.Generator) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split rows into (train, held out) once for each fold, at random; every row is held out once."""
    fold = generator.permutation(n_rows) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
