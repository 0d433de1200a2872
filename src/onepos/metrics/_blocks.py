"""Truth and scores, checked and cut into blocks of rows that fit a core's cache."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.validation import IntArray, MatrixLike

#: Entries per chunk: float32 scores of this size and their sorted copy stay near a core's cache.
_CHUNK_ENTRIES = 1 << 19


#: From this share of positives on, masks of all entries are faster than positions of the positive ones.
_MANY_POSITIVES = 0.05


@dataclass(eq=False)
class Block:
    """Some rows' scores (m, c) and their truth.

    ``truth`` is a mask (m, c) of the positives; of sparse labels, their flat positions (row * c + column, ascending).
    """

    scores: NDArray[Any]
    truth: NDArray[Any]
    n_positives: int

    @property
    def has_many_positives(self) -> bool:
        """Whether it pays to go by a mask of all entries."""
        return self.n_positives >= _MANY_POSITIVES * self.scores.size

    @cached_property
    def positives(self) -> IntArray:
        """The flat positions of positives."""
        return np.flatnonzero(self.truth) if self.truth.ndim == 2 else self.truth

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Which entries are positive, (m, c)."""
        if self.truth.ndim == 2:
            return self.truth
        mask = np.zeros(self.scores.size, dtype=np.bool_)
        mask[self.truth] = True
        return mask.reshape(self.scores.shape)

    @cached_property
    def rows(self) -> IntArray:
        """The row of each positive."""
        return np.repeat(np.arange(len(self.scores)), self.sizes)

    @cached_property
    def sizes(self) -> IntArray:
        """The number of positives of each row."""
        if self.has_many_positives:
            counts: IntArray = np.add.reduce(self.mask.view(np.int8), axis=1, dtype=np.int32)
            return counts.astype(np.int64)
        m, c = self.scores.shape
        sizes: IntArray = np.diff(np.searchsorted(self.positives, np.arange(m + 1) * c))
        return sizes

    @cached_property
    def starts(self) -> IntArray:
        """Where each row's positives begin."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def values(self) -> NDArray[Any]:
        """The score of each positive."""
        values: NDArray[Any] = self.scores.ravel().take(self.positives)
        return values

    @property
    def ranked(self) -> "Block":
        """The same block without the rows that have no positive."""
        return self._ranked or self

    @cached_property
    def _ranked(self) -> "Block | None":
        # None, not the block itself, which would hold on to itself: blocks would pile up until they are collected.
        keep = self.sizes > 0
        if keep.all():
            return None
        if self.truth.ndim == 2:
            return Block(self.scores[keep], self.truth[keep], self.n_positives)
        c = self.scores.shape[1]
        row = np.cumsum(keep) - 1
        return Block(self.scores[keep], self.positives + (row[self.rows] - self.rows) * c, self.n_positives)

    @cached_property
    def lowest(self) -> NDArray[Any]:
        """The lowest score of a positive in each row; NaN in a row without one, in blocks with many others."""
        bits = np.dtype(f"i{self.scores.dtype.itemsize}")
        if not self.has_many_positives or self.scores.dtype.kind != "f":
            return np.asarray(np.minimum.reduceat(self.values, self.starts))
        # All bits set, which is NaN, at negatives, and none at positives: no choice at each entry, which would take
        # four times as long.
        bounds = (self.mask.view(np.int8) - np.int8(1)).astype(bits)
        bounds |= self.scores.view(bits)
        return np.asarray(np.fmin.reduce(bounds.view(self.scores.dtype), axis=1))

    @cached_property
    def negatives_ascending(self) -> NDArray[Any] | None:
        """Which labels of each row are negative, lowest score first, positives before negatives of the same score.

        Integers 0 and 1 (m, c). None for scores whose order integers do not have.
        """
        keys = _sort_keys(self.scores)
        if keys is None:
            return None
        keys += ~self.mask  # sorted in one go with the labels, in the bit that the keys leave free
        keys.sort(axis=1)
        keys &= 1
        return keys

    @cached_property
    def wrong_pairs(self) -> NDArray[Any]:
        """The number of pairs of a positive and a negative in each row with the negative scored at least as high."""
        m, c = self.scores.shape
        if (negative := self.negatives_ascending) is None:
            return np.bincount(self.rows, weights=self.outranked_by[1], minlength=m)
        # Places of negatives, less what they would be without positives. Whole numbers that the type holds exactly.
        exact = np.float32 if c * c < 1 << 25 else np.float64
        n_negatives = c - self.sizes
        places: NDArray[Any] = np.dot(negative.astype(exact), np.arange(c).astype(exact))
        return np.asarray(places.astype(np.float64) - n_negatives * (n_negatives - 1) // 2)

    @cached_property
    def outranked_by(self) -> tuple[IntArray, IntArray]:
        """For the positives, best first in each row: their place k among them, and g as defined above."""
        c = self.scores.shape[1]
        if (negative := self.negatives_ascending) is not None:
            places = np.flatnonzero(negative[:, ::-1] == 0)
            k = np.arange(1, len(places) + 1) - self.starts[self.rows]
            return k, places - self.rows * c + 1 - k
        ordered = np.sort(self.scores, axis=1).ravel()
        # Binary search for every positive's first occurrence in its row, all at once. The value is known
        # to be there, so the interval may shrink to one entry without a bounds check.
        below = self.rows * c
        length = c
        while length > 1:
            half = length // 2
            below += half * (ordered.take(below + (half - 1)) < self.values)
            length -= half
        # below = row * c + labels scored lower; reversing it inside the row sorts best first, and integer
        # keys sort much faster than (row, score) pairs would.
        key = np.sort(self.rows * (3 * c) + (c - below))
        at_least = key - self.rows * (2 * c)
        k = np.arange(1, len(key) + 1) - self.starts[self.rows]
        # Tied positives share one g: from the labels at this score or higher, take the positives among
        # them, whose number is k at the end of the tie.
        last = np.flatnonzero(np.append(key[1:] != key[:-1], True))
        return k, at_least - np.repeat(k[last], np.diff(last, prepend=-1))


def _sort_keys(scores: NDArray[Any]) -> NDArray[Any] | None:
    """Even integers in the order of single-precision scores, equal where they are equal; None for other types.

    Floating-point numbers of one sign are ordered as their bits are. Where the keys span 31 bits, as those of
    probabilities do, they have 32, which sort twice as fast as 64.
    """
    if scores.dtype != np.float32:
        return None
    if scores.min() > 0.0:
        keys = scores.view(np.uint32)
        return keys + keys
    signed: NDArray[Any] = (scores + np.float32(0.0)).view(np.int32)  # −0 becomes 0
    signed ^= (signed >> 31) & 0x7FFFFFFF
    low, high = int(signed.min()), int(signed.max())
    if high - low >= 1 << 31:
        wide = signed.astype(np.int64)
        return wide + wide
    signed -= np.int32(low)
    narrow = signed.view(np.uint32)
    return narrow + narrow


def blocks(Y_true: MatrixLike, scores: MatrixLike) -> Iterator[Block]:
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
        # DataFrames often hold columns side by side: rows are made contiguous chunk by chunk.
        part = np.ascontiguousarray(S[start : start + step])
        if part.dtype == np.float16:
            part = part.astype(np.float32)  # NumPy sorts half precision slowly on most processors
        if part.dtype.kind == "f" and not _all_finite(part):
            row, column = np.argwhere(~np.isfinite(part))[0]
            raise ValueError(
                f"expected finite scores; got {part[row, column]} in row {start + row}, column {column}: "
                "check the model that produced them, or replace such scores by the lowest one"
            )
        yield Block(part, *_truth_of(Y[start : start + step], start))


def _all_finite(part: NDArray[Any]) -> bool:
    # A finite sum of squares proves finite terms in one cheap pass; only one that overflows needs the second look.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.vdot(part, part))) or bool(np.isfinite(part).all())


def _is_sparse(matrix: Any) -> bool:
    return bool(sparse.issparse(matrix))


def _truth_of(Y: Any, start: int) -> tuple[NDArray[Any], int]:
    """Truth and number of positives of a block, as ``Block`` takes them; what is not 1 must be 0 or -1."""
    stored = Y.data if _is_sparse(Y) else Y
    positive: NDArray[Any] = stored if stored.dtype == bool else stored == 1
    found = int(np.count_nonzero(positive))
    nonzero = found if stored.dtype == bool else np.count_nonzero(stored)
    if nonzero != found and nonzero != found + np.count_nonzero(stored == -1):
        wrong = stored[(stored != 0) & (stored != 1) & (stored != -1)][0]
        raise ValueError(
            f"expected Y_true with values 1 (positive) and 0 or -1 (negative); got {wrong} in rows "
            f"{start} to {start + Y.shape[0] - 1}: binarise it first, for example Y_true > 0"
        )
    if not _is_sparse(Y):
        return np.ascontiguousarray(positive), found
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    flat: IntArray = (rows * Y.shape[1] + Y.indices)[positive]  # ascending: the format is canonical
    return flat, found


def _truth(Y_true: MatrixLike) -> Any:
    """Y_true as a 2-D array or canonical CSR."""
    if not _is_sparse(Y_true):
        return _dense(Y_true, "Y_true", "an indicator matrix with one column per label")
    Y: Any = sparse.csr_array(Y_true)
    if not Y.has_canonical_format:
        Y = Y.copy()  # sum_duplicates works in place, on what may be the caller's arrays
        Y.sum_duplicates()
    return _checked(Y, "Y_true", "an indicator matrix with one column per label")


def _scores(scores: MatrixLike) -> NDArray[Any]:
    if _is_sparse(scores):
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


# The measures of one block of rows, and their means over all blocks.


#: A sum over the rows that count, and their number.
_Partial = tuple[float, int]


def _average_precision(block: Block, threshold: float) -> _Partial:
    block = block.ranked
    k, g = block.outranked_by
    return float((np.bincount(block.rows, weights=k / (k + g)) / block.sizes).sum()), len(block.sizes)


def _one_error(block: Block, threshold: float) -> _Partial:
    block = block.ranked
    best = np.maximum.reduceat(block.values, block.starts)
    at_top = np.bincount(block.rows[block.values == best[block.rows]])
    reached = np.count_nonzero(block.scores >= best[:, None], axis=1)
    return float(np.count_nonzero(reached > at_top)), len(block.sizes)


def _ranking_loss(block: Block, threshold: float) -> _Partial:
    block = block.ranked
    pairs = block.sizes * (block.scores.shape[1] - block.sizes)
    return float((block.wrong_pairs[pairs > 0] / pairs[pairs > 0]).sum()), int(np.count_nonzero(pairs))


def _coverage(block: Block, threshold: float) -> _Partial:
    n_labels = block.scores.shape[1]
    if not block.has_many_positives or block.scores.dtype.kind != "f":
        block = block.ranked
    # Every label scored >= the last positive stands before it or is it: their number is its worst rank. In rows without
    # a positive, where the lowest score of one is NaN, no label is.
    n_rows = int(np.count_nonzero(block.lowest == block.lowest))
    depth = np.count_nonzero(block.scores >= block.lowest[:, None]) - n_rows
    return float(depth / n_labels), n_rows


def _hamming_loss(block: Block, threshold: float) -> _Partial:
    hits = np.count_nonzero(block.values >= threshold)
    wrong = np.count_nonzero(block.scores >= threshold) + len(block.values) - 2 * hits
    return float(wrong), block.scores.size


_PARTIALS: dict[str, Callable[[Block, float], _Partial]] = {
    "average_precision": _average_precision,
    "one_error": _one_error,
    "ranking_loss": _ranking_loss,
    "coverage": _coverage,
    "hamming_loss": _hamming_loss,
}


def means(Y_true: MatrixLike, scores: MatrixLike, names: tuple[str, ...], threshold: float = 0.5) -> dict[str, float]:
    if not isfinite(threshold):
        raise ValueError(f"expected a finite threshold; got {threshold}: pass a number such as 0.5")
    totals = dict.fromkeys(names, 0.0)
    counts = dict.fromkeys(names, 0)
    for block in blocks(Y_true, scores):
        # A block without any positive has no rows for the ranking measures, only for Hamming loss.
        for name in names if block.n_positives else set(names) & {"hamming_loss"}:
            total, count = _PARTIALS[name](block, float(threshold))
            totals[name] += total
            counts[name] += count
    for name in names:
        if not counts[name]:
            kind = "a positive and a negative label" if name == "ranking_loss" else "a positive label"
            raise ValueError(
                f"{name} expected at least one row with {kind}; got none: check Y_true, or use another metric"
            )
    return {name: totals[name] / counts[name] for name in names}
