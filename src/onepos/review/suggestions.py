"""Which labels are suggested for an example, and how sure the model is, in few characters."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Labels below this probability are not suggested, nor more than so many.
LEAST, MOST = 0.01, 20

#: Confidences are stored in thousandths: three digits.
SCALE = 1000


def check_probabilities(probabilities: ArrayLike, n_examples: int, n_labels: int) -> NDArray[np.floating]:
    """Return the probabilities as an array of floats, or say what is wrong with them."""
    array = np.asarray(probabilities)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if array.shape != (n_examples, n_labels):
        raise ValueError(f"probabilities must have the shape ({n_examples}, {n_labels}); got {array.shape}")
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"probabilities must lie between 0 and 1; got {array[row, column]} at [{row}, {column}]")
    return array


def check_thresholds(threshold: float | Sequence[float], n_labels: int) -> NDArray[np.float64]:
    """Return one threshold for each label."""
    array = np.asarray(threshold, dtype=np.float64)
    if array.shape not in ((), (n_labels,)):
        raise ValueError(f"threshold must be one number or one for each of {n_labels} labels; got {array.shape}")
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"threshold must lie between 0 and 1; got {threshold}")
    return np.broadcast_to(array, (n_labels,))


def scale_thresholds(thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the least whole number of thousandths that reaches each threshold."""
    # Rounded first: 0.1 + 0.2 is meant as 300 thousandths, not as the next one above.
    return np.ceil(np.round(SCALE * thresholds, 6)).astype(np.int64)


def scale_confidences(probabilities: NDArray[np.floating], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to thousandths, but never across the threshold: the page compares the rounded numbers."""
    limits = scale_thresholds(thresholds)
    rounded = np.rint(SCALE * probabilities.astype(np.float64)).astype(np.int64)
    # Compared in the probabilities' own precision, as ``probabilities >= 0.7`` does.
    above = probabilities >= thresholds.astype(probabilities.dtype)
    return np.where(above, np.maximum(rounded, limits), np.minimum(rounded, limits - 1))


def suggest(
    probabilities: NDArray[np.floating], thresholds: NDArray[np.float64], given: NDArray[np.int64]
) -> list[list[int]]:
    """Return each example's suggestions, best first, as ``[label, thousandths, label, thousandths, …]``.

    Parameters
    ----------
    probabilities : array of shape (n, c)
    thresholds : array of shape (c,)
    given : array of shape (n,)
        Number of the observed label, which needs no suggestion; -1 for none.
    """
    confidences = scale_confidences(probabilities, thresholds)
    # Ties stay in the order of the labels.
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, : MOST + 1]
    result = []
    for row, columns in enumerate(best):
        wanted = columns[(columns != given[row]) & (probabilities[row, columns] >= LEAST)][:MOST]
        result.append(np.column_stack((wanted, confidences[row, wanted])).ravel().tolist())
    return result


def most_uncertain(
    probabilities: NDArray[np.floating], thresholds: NDArray[np.float64], given: NDArray[np.int64], limit: int | None
) -> NDArray[np.int64]:
    """Return which examples to show, in their order: with a limit, those with a label closest to its threshold."""
    n_examples = len(probabilities)
    if limit is None or limit >= n_examples:
        return np.arange(n_examples)
    if limit < 1:
        raise ValueError(f"limit must be at least 1; got {limit}")
    margins = np.abs(probabilities - thresholds)
    known = np.flatnonzero(given >= 0)
    margins[known, given[known]] = np.inf
    return np.sort(np.argsort(margins.min(axis=1), kind="stable")[:limit])
