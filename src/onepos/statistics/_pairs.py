"""What the signed-rank test is made from: the paired differences, and the chance of a rank sum."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.statistics._ties import merge_near, tolerance_for


def differences(
    first: Sequence[float] | NDArray[Any], second: Sequence[float] | NDArray[Any], higher_is_better: bool
) -> NDArray[np.float64]:
    """Return by how much the first is better, pair by pair, with rounding noise taken out."""
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.ndim != 1 or ours.shape != theirs.shape:
        raise ValueError(
            f"expected two sequences of one length; got shapes {ours.shape} and {theirs.shape}: one value a data set"
        )
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        raise ValueError("expected finite values; got nan or inf: leave out data sets on which a method has no result")
    tolerance = tolerance_for(ours, theirs)
    difference = ours - theirs if higher_is_better else theirs - ours
    difference[np.abs(difference) <= tolerance] = 0.0
    return np.asarray(np.sign(difference) * merge_near(np.abs(difference), tolerance), dtype=np.float64)


def conditional_p(ranks: NDArray[np.float64], statistic: float) -> float:
    """Two-sided p-value over all signs of these ranks, by counting the ways to each rank sum."""
    # Average ranks are multiples of a half: doubled, they index an array of counts.
    doubled = np.rint(2 * ranks).astype(np.intp)
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1.0
    for rank in doubled:
        ways[rank:] = ways[rank:] + ways[:-rank]
    at_most = ways[: round(2 * statistic) + 1].sum() / ways.sum()
    return min(1.0, 2.0 * float(at_most))
