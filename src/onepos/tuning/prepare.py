"""What the search starts from: the estimator to copy, and the rows to compare settings on."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from onepos._validation import Labels, check_labels, check_validation_labels
from onepos.disk import on_disk
from onepos.exceptions import LabelWarning
from onepos.methods._base import OnePositiveClassifier
from onepos.registry import make_classifier
from onepos.tuning.splits import split_rows
from onepos.tuning.trial import Part


def prepare_estimator(method: Any, seed: np.random.SeedSequence) -> Any:
    """Return the estimator to copy, with a seed: trials shall differ by their settings, not by luck."""
    if isinstance(method, str):
        method = make_classifier(method)
    if not isinstance(method, OnePositiveClassifier):
        raise ValueError(f"give the key of a method or a onepos classifier to tune; got {type(method).__name__}.")
    base = clone(method)
    if base.get_params(deep=False).get("random_state", 0) is None:
        base.set_params(random_state=as_integer(seed))
    return base


def as_integer(sequence: np.random.SeedSequence) -> int:
    """Return a seed of 32 bits, which everybody takes."""
    return int(sequence.generate_state(1)[0])


def make_parts(
    base: Any, X: Any, Y: Any, validation: Any, validation_labels: str, generator: np.random.Generator
) -> list[Part]:
    """Check labels and validation set and say on which rows settings are fitted and compared."""
    if validation_labels not in ("single", "full"):
        raise ValueError(f'validation_labels must be "single" or "full"; got {validation_labels!r}.')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)  # the last fit says it
        labels: Labels = check_labels(Y, complete=base._y_is_full)
    if validation is not None:
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X_val, Y_val); got {type(validation).__name__}.")
        truth = check_validation_labels(validation[1], labels.classes)
        return [Part(X, Y, truth, validation_labels == "full", given=validation)]
    if validation_labels == "full":
        raise ValueError('validation_labels="full" needs validation=(X_val, Y_val).')
    if on_disk(X):
        raise ValueError(
            "X is memory-mapped, and holding rows of it out would load it: pass validation=(X_val, Y_val), or "
            "numpy.asarray(X) if it fits into memory."
        )
    # Other sparse formats have no rows to take.
    X, Y = (values.tocsr() if sparse.issparse(values) else values for values in (X, Y))
    splits = split_rows(labels.observed, np.flatnonzero(labels.labelled), generator)
    return [Part(X, Y, labels.observed[split.held], base._y_is_full, split) for split in splits]
