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
from onepos.rows.splits import RowNumbers, splits
from onepos.rows.stored import on_disk

#: Share of 2,000 labelled rows or more that is held out; fewer are held out in folds.
FRACTION = 0.2

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

    def part(train: RowNumbers, held: RowNumbers) -> Any:
        fit_on, pair = ((_safe_indexing(X, rows), _safe_indexing(Y, rows)) for rows in (train, held))
        return *fit_on, pair, labels.observed[held]

    return [partial(part, *split) for split in splits(labels.observed, FRACTION, generator)]
