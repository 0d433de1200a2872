"""How far down a ranking the last positive stands, compiled: the twin of ``coverage`` in ``onepos.metrics``."""

import numpy as np

from onepos.kernels.compilation import Array, Scalar, compiled

Integer = np.int32
#: The highest key; no finite score has it.
_NOTHING = Integer(0x7FFFFFFF)


@compiled
def depth_of_last(scores: Array, mask: Array) -> tuple[int, int]:
    """Labels scored at least as high as a row's lowest positive, less that one, over rows with one; number of rows."""
    lowest = _lowest_positives(scores.view(np.int32), mask)
    total, n_rows = 0, 0
    for i in range(scores.shape[0]):
        if lowest[i] != _NOTHING:
            n_rows += 1
            total -= 1
    reached = _reached(scores, lowest)
    for i in range(scores.shape[0]):
        total += reached[i]
    return total, n_rows


@compiled
def _lowest_positives(bits: Array, mask: Array) -> Array:
    """Integers in the order of the scores with these bits: the lowest of the positives of each row."""
    lowest = np.empty(bits.shape[0], np.int32)
    for i in range(bits.shape[0]):
        found = _NOTHING
        for j in range(bits.shape[1]):
            # Bits of negative numbers are turned round: then all are in the order of the numbers.
            key = Integer(bits[i, j] ^ ((bits[i, j] >> Integer(31)) & _NOTHING))
            key = key if mask[i, j] else _NOTHING
            found = min(key, found)
        lowest[i] = found
    return lowest


@compiled
def _reached(scores: Array, lowest: Array) -> Array:
    """Number of labels of each row whose score is at least the lowest one of a positive; 0 without a positive."""
    counts = np.empty(scores.shape[0], np.int32)
    for i in range(scores.shape[0]):
        key = lowest[i]
        bound = np.int32(key ^ ((key >> Integer(31)) & _NOTHING)).view(np.float32)  # NaN where there is none
        count = Integer(0)
        for j in range(scores.shape[1]):
            count = Integer(count + Integer(scores[i, j] >= bound))
        counts[i] = count
    return counts


@compiled
def mark_positives(values: Array, mask: Array) -> tuple[int, int]:
    """Write which values are 1; number of them, and of those that are neither 1 nor 0 nor -1."""
    n_positives: Scalar = 0
    n_wrong: Scalar = 0
    for i in range(values.shape[0]):
        positives, wrong = Integer(0), Integer(0)
        for j in range(values.shape[1]):
            value = values[i, j]
            is_one = value == 1
            mask[i, j] = is_one
            positives = Integer(positives + Integer(is_one))
            wrong = Integer(wrong + Integer((value != 1) & (value != 0) & (value != -1)))
        n_positives += positives
        n_wrong += wrong
    return n_positives, n_wrong
