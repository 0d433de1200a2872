"""Holm's step-down correction for several tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def holm(p_values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Return p-values that may be compared with one level, however many tests there are.

    The i-th smallest of m is multiplied by m - i + 1, lifted to the one before it and clipped at 1. Rejecting
    what is below alpha keeps the chance of any false rejection at alpha or less, whatever the dependence.

    Parameters
    ----------
    p_values : sequence of float
        In any order; the result is in the same.

    Examples
    --------
    >>> holm([0.02, 0.01, 0.9]).tolist()
    [0.04, 0.03, 0.9]
    """
    values = np.asarray(p_values, dtype=np.float64)
    # The comparison is false for nan as well.
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"expected a sequence of p-values in [0, 1]; got {values.tolist()}: leave out tests that were not made"
        )
    order = np.argsort(values, kind="stable")
    scaled = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
