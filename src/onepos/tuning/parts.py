"""The rows on which settings are fitted and scored."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing

from onepos._utils.validation import check_labels, check_validation_labels
from onepos.exceptions import LabelWarning
from onepos.methods._base import hold_out
from onepos.rows.stored import on_disk

#: With fewer labelled rows each is held out once, in FOLDS parts: a fifth of them alone would compare settings by luck.
SMALL = 2000
FOLDS = 5
#: Share held out above that: at least 400 rows.
FRACTION = 0.2

Indices: TypeAlias = NDArray[np.intp]
#: Returns X and Y to fit on, the pair to score on, and its labels as an indicator; called late, as X may be large.
Part: TypeAlias = Callable[[], tuple[Any, Any, tuple[Any, Any], NDArray[np.int8]]]


def make_parts(
    base: Any, X: Any, Y: Any, validation: Any, validation_labels: str, generator: np.random.Generator
) -> list[Part]:
    """Check labels and validation set, and choose the rows to fit on and to score on."""
    if validation_labels not in ("single", "full"):
        raise ValueError(f'validation_labels must be "single" or "full"; got {validation_labels!r}.')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)  # the last fit warns
        labels = check_labels(Y, complete=base._y_is_full)
    if validation is not None:
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X_val, Y_val); got {type(validation).__name__}.")
        truth = check_validation_labels(validation[1], labels.classes)
        return [lambda: (X, Y, validation, truth)]
    if validation_labels == "full":
        raise ValueError('validation_labels="full" needs validation=(X_val, Y_val).')
    if on_disk(X):
        raise ValueError(
            "X is memory-mapped, and holding rows of it out would load it: pass validation=(X_val, Y_val), or "
            "numpy.asarray(X) if it fits into memory."
        )
    # Other sparse formats have no rows to take.
    X, Y = (values.tocsr() if sparse.issparse(values) else values for values in (X, Y))

    def part(train: Indices, held: Indices) -> Any:
        fit_on, pair = ((_safe_indexing(X, rows), _safe_indexing(Y, rows)) for rows in (train, held))
        return *fit_on, pair, labels.observed[held]

    return [partial(part, *split) for split in split_rows(labels.observed, np.flatnonzero(labels.labelled), generator)]


def split_rows(
    observed: NDArray[np.int8], labelled: Indices, generator: np.random.Generator
) -> list[tuple[Indices, Indices]]:
    """Return pairs (train, held out). Training always has a row of each label, and the rows without a label."""
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
    everything = np.arange(len(observed))
    return [(np.setdiff1d(everything, part, assume_unique=True), part) for part in parts]
