"""Check truth and scores, cut them into blocks of rows that fit a core's cache, and sum the measures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.validation import IntArray, MatrixLike

#: Entries per block: float32 scores of this size and their sorted copy stay near a core's cache.
_CHUNK_ENTRIES = 1 << 19
#: A sum over the rows that count, and their number.
_Partial = tuple[float, int]


def means(Y_true: MatrixLike, scores: MatrixLike, names: tuple[str, ...], threshold: float = 0.5) -> dict[str, float]:
    """Return the named measures; ValueError if one of them has no row to judge."""
    if not isfinite(threshold):
        raise ValueError(f"expected a finite threshold; got {threshold}: pass a number such as 0.5")
    totals = dict.fromkeys(names, 0.0)
    counts = dict.fromkeys(names, 0)
    for block in _blocks(Y_true, scores):
        ranked = block.ranked()
        for name in names:
            if name == "hamming_loss":
                total, count = _hamming_loss(block, float(threshold))
            elif len(ranked.scores):
                total, count = _RANKING_MEASURES[name](ranked)
            else:
                continue
            totals[name] += total
            counts[name] += count
    for name in names:
        if not counts[name]:
            kind = "a positive and a negative label" if name == "ranking_loss" else "a positive label"
            raise ValueError(
                f"{name} expected at least one row with {kind}; got none: check Y_true, or use another metric"
            )
    return {name: totals[name] / counts[name] for name in names}


@dataclass(eq=False)
class Block:
    """The scores (m, c) of some rows, and the flat positions (row * c + column, ascending) of their positives."""

    scores: NDArray[Any]
    positives: IntArray

    @cached_property
    def sizes(self) -> IntArray:
        """The number of positives per row."""
        m, c = self.scores.shape
        sizes: IntArray = np.diff(np.searchsorted(self.positives, np.arange(m + 1) * c))
        return sizes

    @cached_property
    def rows(self) -> IntArray:
        """The row of each positive."""
        return np.repeat(np.arange(len(self.scores)), self.sizes)

    @cached_property
    def starts(self) -> IntArray:
        """Where each row's positives begin."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def values(self) -> NDArray[Any]:
        """The score of each positive."""
        values: NDArray[Any] = self.scores.ravel().take(self.positives)
        return values

    def ranked(self) -> "Block":
        """Return the block without the rows that have no positive."""
        keep = self.sizes > 0
        if keep.all():
            return self
        new_row = np.cumsum(keep) - 1
        return Block(self.scores[keep], self.positives + (new_row[self.rows] - self.rows) * self.scores.shape[1])

    @cached_property
    def outranked_by(self) -> tuple[IntArray, IntArray]:
        """For the positives, best first in each row: their place k among them, and the number g."""
        c = self.scores.shape[1]
        if (keys := _sort_keys(self.scores)) is not None:
            is_negative = np.ones(keys.size, dtype=keys.dtype)
            is_negative[self.positives] = 0
            keys += is_negative.reshape(keys.shape)
            keys.sort(axis=1)
            places = np.flatnonzero(keys[:, ::-1] & 1 == 0)
            k = np.arange(1, len(places) + 1) - self.starts[self.rows]
            return k, places - self.rows * c + 1 - k
        ordered = np.sort(self.scores, axis=1).ravel()
        # Binary search for the first occurrence of each positive in its sorted row, all at once. The value is known
        # to be there, so the interval may shrink to one entry without a bounds check.
        below = self.rows * c
        length = c
        while length > 1:
            half = length // 2
            below += half * (ordered.take(below + (half - 1)) < self.values)
            length -= half
        # below = row * c + labels scored lower. Reversed inside the row it sorts best first, and integer keys sort
        # much faster than (row, score) pairs would.
        key = np.sort(self.rows * (3 * c) + (c - below))
        at_least = key - self.rows * (2 * c)
        k = np.arange(1, len(key) + 1) - self.starts[self.rows]
        # Tied positives share one g: of the labels with this score or a higher one, subtract the positives, whose
        # number is k at the end of the tie.
        last = np.flatnonzero(np.append(key[1:] != key[:-1], True))
        return k, at_least - np.repeat(k[last], np.diff(last, prepend=-1))


def _sort_keys(scores: NDArray[Any]) -> NDArray[Any] | None:
    """Return even integers in the order of float32 scores, equal where these are equal; None for other types.

    The free bit lets labels and scores be sorted in one go, which is faster than a search when there are many
    positives. Floating-point numbers of one sign are ordered as their bits are.
    """
    if scores.dtype != np.float32:
        return None
    if scores.min() > 0.0:  # probabilities: 32 bits suffice, which sort twice as fast as 64
        bits = scores.view(np.uint32)
        return bits + bits
    signed: NDArray[Any] = (scores + np.float32(0.0)).view(np.int32)  # −0 becomes 0
    signed ^= (signed >> 31) & 0x7FFFFFFF
    return 2 * signed.astype(np.int64)


def _average_precision(block: Block) -> _Partial:
    k, g = block.outranked_by
    return float((np.bincount(block.rows, weights=k / (k + g)) / block.sizes).sum()), len(block.sizes)


def _one_error(block: Block) -> _Partial:
    best = np.maximum.reduceat(block.values, block.starts)
    at_top = np.bincount(block.rows[block.values == best[block.rows]])
    reached = np.count_nonzero(block.scores >= best[:, None], axis=1)
    return float(np.count_nonzero(reached > at_top)), len(block.sizes)


def _ranking_loss(block: Block) -> _Partial:
    pairs = block.sizes * (block.scores.shape[1] - block.sizes)
    wrong = np.bincount(block.rows, weights=block.outranked_by[1])
    return float((wrong[pairs > 0] / pairs[pairs > 0]).sum()), int(np.count_nonzero(pairs))


def _coverage(block: Block) -> _Partial:
    # Every label scored >= the last positive stands before it or is it: their number is its worst rank.
    m, c = block.scores.shape
    lowest = np.minimum.reduceat(block.values, block.starts)
    return float((np.count_nonzero(block.scores >= lowest[:, None]) - m) / c), m


def _hamming_loss(block: Block, threshold: float) -> _Partial:
    hits = np.count_nonzero(block.values >= threshold)
    wrong = np.count_nonzero(block.scores >= threshold) + len(block.values) - 2 * hits
    return float(wrong), block.scores.size


_RANKING_MEASURES: dict[str, Callable[[Block], _Partial]] = {
    "average_precision": _average_precision,
    "one_error": _one_error,
    "ranking_loss": _ranking_loss,
    "coverage": _coverage,
}


def _blocks(Y_true: MatrixLike, scores: MatrixLike) -> Iterator[Block]:
    """Check the inputs and cut them into blocks of rows."""
    Y, S = _truth(Y_true), _scores(scores)
    if Y.shape != S.shape:
        raise ValueError(
            f"expected Y_true and scores of one shape; got {Y.shape} and {S.shape}: "
            "pass the score of every label, in the same rows and columns as Y_true"
        )
    _check_columns(Y_true, scores)
    n, c = S.shape
    step = max(1, _CHUNK_ENTRIES // c)
    for start in range(0, n, step):
        # DataFrames often hold columns side by side: rows are made contiguous block by block.
        part = np.ascontiguousarray(S[start : start + step])
        if part.dtype == np.float16:
            part = part.astype(np.float32)  # NumPy sorts half precision slowly on most processors
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            row, column = np.argwhere(~np.isfinite(part))[0]
            raise ValueError(
                f"expected finite scores; got {part[row, column]} in row {start + row}, column {column}: "
                "check the model that produced them, or replace such scores by the lowest one"
            )
        yield Block(part, _positives(Y[start : start + step], start))


def _positives(Y: Any, start: int) -> IntArray:
    """Return the flat positions of the 1s of a block; everything else must be 0 or -1."""
    stored = Y.data if sparse.issparse(Y) else Y
    positive: NDArray[Any] = stored if stored.dtype == bool else stored == 1
    n_other = np.count_nonzero(stored) - np.count_nonzero(positive)
    if n_other and n_other != np.count_nonzero(stored == -1):
        wrong = stored[(stored != 0) & (stored != 1) & (stored != -1)][0]
        raise ValueError(
            f"expected Y_true with values 1 (positive) and 0 or -1 (negative); got {wrong} in rows "
            f"{start} to {start + Y.shape[0] - 1}: binarise it first, for example Y_true > 0"
        )
    if not sparse.issparse(Y):
        return np.flatnonzero(positive)
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    flat: IntArray = (rows * Y.shape[1] + Y.indices)[positive]  # ascending: the format is canonical
    return flat


def _truth(Y_true: MatrixLike) -> Any:
    """Y_true as a 2-D array or canonical CSR."""
    what = "an indicator matrix with one column per label"
    if not sparse.issparse(Y_true):
        return _dense(Y_true, "Y_true", what)
    Y: Any = sparse.csr_array(Y_true)
    if not Y.has_canonical_format:
        Y = Y.copy()  # sum_duplicates works in place, on what may be the caller's arrays
        Y.sum_duplicates()
    return _checked(Y, "Y_true", what)


def _scores(scores: MatrixLike) -> NDArray[Any]:
    if sparse.issparse(scores):
        raise TypeError("expected scores as an array or DataFrame; got a sparse matrix: call .toarray()")
    return _dense(scores, "scores", "one score per row and label")


def _dense(values: MatrixLike, name: str, what: str) -> NDArray[Any]:
    array: NDArray[Any] = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"expected {name} with numbers only; got an entry that is none ({error}): "
                "convert the columns to numbers and fill missing entries"
            ) from error
    checked: NDArray[Any] = _checked(array, name, what)
    return checked


def _checked(array: Any, name: str, what: str) -> Any:
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"expected {name} of shape (n_samples, n_labels), neither of them 0; got shape {array.shape}: pass {what}"
        )
    if array.dtype.kind not in "buif":
        raise ValueError(f"expected {name} with real numbers; got dtype {array.dtype}: pass {what}")
    return array


def _check_columns(Y_true: MatrixLike, scores: MatrixLike) -> None:
    """Refuse two DataFrames with the same columns in another order: matching by position would be wrong."""
    names, others = (list(getattr(frame, "columns", ())) for frame in (Y_true, scores))
    if names != others and set(names) == set(others):
        raise ValueError(
            f"expected the columns of scores in the order of Y_true ({names[:3]}…); got {others[:3]}…: "
            "reorder them with scores[Y_true.columns]"
        )
