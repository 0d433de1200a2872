"""Rows as the approximate graph sees them, whatever holds them: blocks, distances, exact k-th distances of a few."""

from collections.abc import Iterator
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._typing import IntArray, MatrixLike
from onepos.disk import DiskRows
from onepos.graph import Metric, checked_features, unit_rows

#: Rough size of a block in float64.
_BLOCK_BYTES = 1 << 25


class GraphRows:
    """Rows between which squared Euclidean distances order as the metric does.

    Under "cosine" these are the rows at unit length with one more column, 1 for rows of zeros and 0 for others: a row
    of zeros is then as far from any other row as an orthogonal one. Squared distances are twice the cosine distances.

    Parameters
    ----------
    X : array, sparse matrix or DiskRows of shape (n_samples, n_features)
    metric : {"euclidean", "cosine"}

    Examples
    --------
    >>> rows = GraphRows([[3.0, 0.0], [0.0, 0.0], [0.0, 2.0]], "cosine")
    >>> rows.squares(np.array([0]), np.array([[1, 2]])).tolist()
    [[2.0, 2.0]]
    """

    def __init__(self, X: MatrixLike, metric: Metric) -> None:
        if metric not in ("euclidean", "cosine"):
            raise ValueError(f"expected metric 'euclidean' or 'cosine'; got {metric!r}: choose one of these")
        self.X = X if isinstance(X, DiskRows) else checked_features(X)
        self.metric = metric

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of a block."""
        return int(self.X.shape[1]) + (self.metric == "cosine")

    def check_neighbors(self, n_neighbors: int) -> None:
        """Raise unless every row has that many others."""
        if not 1 <= index(n_neighbors) < len(self):
            raise ValueError(
                f"expected 1 <= n_neighbors < {len(self)}, the number of rows, because a row is not its own neighbour; "
                f"got {n_neighbors}: lower n_neighbors or pass more rows"
            )

    def __getitem__(self, rows: Any) -> Any:
        """Read rows, dense or CSR."""
        values = self.X[rows]
        if self.metric == "euclidean":
            return values
        values, zero = unit_rows(values)
        column = zero[:, None].astype(np.float64)
        if isinstance(values, np.ndarray):
            return np.hstack([values, column])
        return sparse.csr_array(sparse.hstack([values, sparse.csr_array(column)]))

    def parts(self, width: int = 0) -> Iterator[slice]:
        """Slices that cover all rows, sized so that a block has room for ``width`` numbers and the features of each."""
        step = max(1, _BLOCK_BYTES // (8 * (width + self.n_features)))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)))

    def squares(self, rows: IntArray, others: IntArray) -> NDArray[np.float64]:
        """‖x_i − x_j‖² of every row i with each of its others (len(rows), m), from direct differences in float64."""
        result = np.empty(others.shape)
        step = max(1, _BLOCK_BYTES // (8 * self.n_features * others.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            own = self[rows[part]].astype(np.float64)
            difference = self[others[part].ravel()] - own[np.repeat(np.arange(own.shape[0]), others.shape[1])]
            result[part] = _squared_lengths(difference).reshape(-1, others.shape[1])
        return result

    def kth_squares(self, rows: IntArray, n_neighbors: int) -> NDArray[np.float64]:
        """Squared distance of the given rows to their k-th nearest other row, from all rows, in float64."""
        mine = self[rows].astype(np.float64)
        lengths = _squared_lengths(mine)[:, None]
        nearest = np.full((len(rows), n_neighbors), np.inf)
        for part in self.parts(len(rows)):
            block = self[part].astype(np.float64)
            product = mine @ block.T
            product = product if isinstance(product, np.ndarray) else product.toarray()
            squares = lengths + _squared_lengths(block) - 2.0 * product
            inside = np.flatnonzero((rows >= part.start) & (rows < part.stop))
            squares[inside, rows[inside] - part.start] = np.inf
            both = np.hstack([nearest, squares])
            both.partition(n_neighbors - 1, axis=1)
            nearest = both[:, :n_neighbors].copy()
        # Cancellation leaves an error in proportion to the lengths, not to the distance; duplicates are at 0 or below.
        return np.asarray(np.maximum(nearest.max(axis=1), 0.0) + 1e-12 * lengths[:, 0])

    def distances(self, indices: IntArray, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distances by the metric, of neighbours of all rows and their squared distances, both (n_samples, k)."""
        if self.metric == "euclidean":
            return np.sqrt(squares)
        zero = np.empty(len(self), dtype=bool)
        for part in self.parts():
            zero[part] = unit_rows(self.X[part])[1]
        # Two rows of zeros coincide here, but are at distance 1 as a row of zeros is from every row.
        return np.where(zero[:, None] & zero[indices], 1.0, squares / 2)


def _squared_lengths(values: Any) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", values, values))
    return np.asarray(values.multiply(values).sum(axis=1)).ravel()
