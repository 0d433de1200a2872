"""Truth and scores, checked and cut into blocks of rows that fit a core's cache."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._typing import IntArray, MatrixLike

#: Entries per chunk: float32 scores of this size and their sorted copy stay near a core's cache.
_CHUNK_ENTRIES = 1 << 19


@dataclass(eq=False)
class Block:
    """Some rows' scores (m, c) and the flat positions (row * c + column, ascending) of positives."""

    scores: NDArray[Any]
    positives: IntArray

    @cached_property
    def rows(self) -> IntArray:
        """The row of each positive."""
        return np.repeat(np.arange(len(self.scores)), self.sizes)

    @cached_property
    def sizes(self) -> IntArray:
        """The number of positives of each row."""
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

    @cached_property
    def ranked(self) -> "Block":
        """The same block without the rows that have no positive."""
        keep = self.sizes > 0
        if keep.all():
            return self
        c = self.scores.shape[1]
        row = np.cumsum(keep) - 1
        return Block(self.scores[keep], self.positives + (row[self.rows] - self.rows) * c)

    @cached_property
    def outranked_by(self) -> tuple[IntArray, IntArray]:
        """For the positives, best first in each row: their place k among them, and g as defined above."""
        c = self.scores.shape[1]
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
        yield Block(part, _positives(Y[start : start + step], start))


def _all_finite(part: NDArray[Any]) -> bool:
    # A finite sum proves finite terms in one cheap pass; only a sum that overflows needs the second look.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(part.sum())) or bool(np.isfinite(part).all())


def _is_sparse(matrix: Any) -> bool:
    return bool(sparse.issparse(matrix))


def _positives(Y: Any, start: int) -> IntArray:
    """Flat positions of the ones of a block of truth, after a check that the rest is 0 or -1."""
    stored = Y.data if _is_sparse(Y) else Y
    positive = stored if stored.dtype == bool else stored == 1
    found: IntArray = np.flatnonzero(positive)
    nonzero = len(found) if stored.dtype == bool else np.count_nonzero(stored)
    if nonzero != len(found) and nonzero != len(found) + np.count_nonzero(stored == -1):
        wrong = stored[(stored != 0) & (stored != 1) & (stored != -1)][0]
        raise ValueError(
            f"expected Y_true with values 1 (positive) and 0 or -1 (negative); got {wrong} in rows "
            f"{start} to {start + Y.shape[0] - 1}: binarise it first, for example Y_true > 0"
        )
    if not _is_sparse(Y):
        return found
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    flat: IntArray = (rows * Y.shape[1] + Y.indices)[found]  # ascending: the format is canonical
    return flat


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
