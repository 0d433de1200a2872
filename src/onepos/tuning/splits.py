"""Which rows are held out to compare settings on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos.methods._holdout import hold_out

#: With fewer labelled rows each is held out once, in FOLDS parts: a fifth of them alone would compare settings by luck.
SMALL = 2000
FOLDS = 5
#: Share held out above that: at least 400 rows.
FRACTION = 0.2


class Split(NamedTuple):
    """Row numbers to fit on and to score on."""

    train: NDArray[np.intp]
    held: NDArray[np.intp]


def split_rows(observed: NDArray[np.int8], labelled: NDArray[np.intp], generator: np.random.Generator) -> list[Split]:
    """Return one split, or five where there are fewer than 2,000 labelled rows.

    One row of each label is never held out, so that no label is unseen in training; rows without a label are always in
    training.

    Examples
    --------
    >>> splits = split_rows(np.eye(4, dtype=np.int8)[np.arange(24) % 4], np.arange(24), np.random.default_rng(0))
    >>> [len(split.held) for split in splits]
    [4, 4, 4, 4, 4]
    """
    everything = np.arange(len(observed))
    if len(labelled) >= SMALL:
        parts = [hold_out(observed, labelled, FRACTION, generator)[1]]
    else:
        shuffled = generator.permutation(labelled)
        _, first = np.unique(observed[shuffled].argmax(axis=1), return_index=True)
        spare = np.delete(shuffled, first)
        if len(spare) == 0:
            raise ValueError(
                f"no row can be held out to compare settings: {len(labelled)} rows for {len(first)} observed labels. "
                "Pass validation=(X_val, Y_val)."
            )
        parts = [np.sort(part) for part in np.array_split(spare, min(FOLDS, len(spare)))]
    return [Split(np.setdiff1d(everything, part, assume_unique=True), part) for part in parts]
