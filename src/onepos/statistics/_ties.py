"""What counts as equal: 0.3 - 0.2 and 0.2 - 0.1 are one value, though their floats differ."""

import numpy as np
from numpy.typing import NDArray

#: Values closer than this share of the largest magnitude at hand are taken as one value: rounding, no evidence.
RELATIVE_TOLERANCE = 1e-12


def tolerance_for(*arrays: NDArray[np.float64]) -> float:
    """Return the absolute tolerance that belongs to the largest magnitude among the arrays."""
    return RELATIVE_TOLERANCE * max((float(np.abs(array).max()) for array in arrays if array.size), default=0.0)


def merge_near(values: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Give values of one run of near neighbours the value of its smallest.

    Rounding to a number of digits would not do: two near values can lie on both sides of a rounding edge.

    Examples
    --------
    >>> merge_near(np.array([0.2, 0.1, 0.1 + 1e-16]), 1e-12).tolist()
    [0.2, 0.1, 0.1]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.ones(len(values), dtype=bool)
    starts[1:] = np.diff(ordered) > tolerance
    merged = np.empty_like(values)
    merged[order] = ordered[starts][np.cumsum(starts) - 1]
    return merged
