"""The approximate neighbour graph: a faiss index of cells, widened until its recall is enough.

K-means divides the rows into about 4√n cells, and a row is compared with those of the nearest cells alone, whose number
is doubled until the index finds 95 in 100 exact neighbours of a few hundred rows. Unlike a graph index (HNSW), it gives
the same answer whatever the order in which threads add rows. Blocks of rows are read when they are needed. Beyond
``INDEX_LIMIT_BYTES`` the index holds 128 singular directions, and four times the candidates are ranked in full.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import recall
from onepos._utils.machine import require
from onepos._utils.validation import IntArray, MatrixLike
from onepos.exceptions import TrainingWarning
from onepos.graph.neighbors import Metric, check_request, checked_features, squared_lengths, unit_rows
from onepos.rows.stored import DiskRows

#: Beyond this, the index holds ``REDUCED`` directions of the rows instead of all their features.
INDEX_LIMIT_BYTES = 1 << 31
REDUCED = 128
#: The share of true neighbours that is enough, on this many random rows.
ENOUGH = 0.95
SAMPLE = 500
#: Cells looked at to begin with; rows per cell that train k-means, about the fewest that it asks for.
_FIRST_CELLS = 8
_TRAINING_ROWS = 40
#: Rough sizes in float64: of a block of rows, and of the rows that find the singular directions.
_BLOCK_BYTES = 1 << 25
_SVD_BYTES = 1 << 28


class ApproximateGraph(NamedTuple):
    """Neighbours of every row, (n_samples, k), nearest first, and the recall measured."""

    indices: NDArray[np.int64]
    recall: float


def approximate_graph(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean", most: float = 1.0
) -> ApproximateGraph | None:
    """Find k near other rows of every row; about 95 in 100 of them are among the k nearest.

    Parameters as in ``nearest_neighbors``; X may also be DiskRows. None if the search takes more than ``most`` of the
    cells. The result is the same in every call with the same number of threads.

    Examples
    --------
    >>> approximate_graph([[0.0], [1.0], [3.0]], 1).indices.ravel().tolist()
    [1, 0, 1]
    """
    rows = GraphRows(X, metric)
    check_request(len(rows), n_neighbors, metric)
    index = _Index(rows, n_neighbors)
    sample = _sample(len(rows), SAMPLE)
    limits = rows.kth_squares(sample, n_neighbors)
    cells = min(_FIRST_CELLS, index.n_cells)
    while (reached := _share_within(index.search(sample, cells)[1], limits)) < ENOUGH and cells < index.n_cells:
        cells = min(2 * cells, index.n_cells)
        if cells > most * index.n_cells:
            return None
    indices = np.empty((len(rows), n_neighbors), dtype=np.int64)
    for part in rows.parts():
        indices[part] = index.search(np.arange(part.start, part.stop), cells)[0]
    return ApproximateGraph(indices, reached)


def remembered_graph(X: MatrixLike, n_neighbors: int, metric: Metric, most: float) -> ApproximateGraph | None:
    """``approximate_graph``, from memory within ``remember_work``; warns of a recall that is not enough."""

    def compute() -> ApproximateGraph | None:
        return approximate_graph(X, n_neighbors, metric=metric, most=most)

    # Rows on disk are not hashed: that would read them all once more.
    found = compute() if isinstance(X, DiskRows) else recall(compute, "near neighbors", X, n_neighbors, metric, most)
    if found is not None and found.recall < ENOUGH:
        warnings.warn(
            f"the approximate neighbour search finds {found.recall:.0%} of the nearest rows only: its index has no "
            "room for all features. Reduce their number, or ask for graph_search='exact'.",
            TrainingWarning,
            stacklevel=3,
        )
    return found


class GraphRows:
    """Rows between which squared Euclidean distances order as the metric does.

    Under "cosine" these have unit length, and one more column, which is 1 for rows of zeros and 0 for others.
    """

    def __init__(self, X: MatrixLike, metric: Metric) -> None:
        self.X = X if isinstance(X, DiskRows) else checked_features(X)
        self.metric = metric

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of a block."""
        return int(self.X.shape[1]) + (self.metric == "cosine")

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
            result[part] = squared_lengths(difference).reshape(-1, others.shape[1])
        return result

    def kth_squares(self, rows: IntArray, n_neighbors: int) -> NDArray[np.float64]:
        """Squared distance of the given rows to their k-th nearest other row, from all rows, in float64."""
        mine = self[rows].astype(np.float64)
        lengths = squared_lengths(mine)[:, None]
        nearest = np.full((len(rows), n_neighbors), np.inf)
        for part in self.parts(len(rows)):
            block = self[part].astype(np.float64)
            product = mine @ block.T
            product = product if isinstance(product, np.ndarray) else product.toarray()
            squares = lengths + squared_lengths(block) - 2.0 * product
            inside = np.flatnonzero((rows >= part.start) & (rows < part.stop))
            squares[inside, rows[inside] - part.start] = np.inf
            both = np.hstack([nearest, squares])
            both.partition(n_neighbors - 1, axis=1)
            nearest = both[:, :n_neighbors].copy()
        # Cancellation leaves an error in proportion to the lengths, not to the distance; duplicates are at 0 or below.
        return np.asarray(np.maximum(nearest.max(axis=1), 0.0) + 1e-12 * lengths[:, 0])


class _Index:
    """Cells of rows; finds the k nearest others of given rows among those of the nearest cells."""

    def __init__(self, rows: GraphRows, n_neighbors: int) -> None:
        faiss = require("faiss", extra="large", purpose="the approximate neighbour graph")
        self.rows, self.n_neighbors = rows, n_neighbors
        n = len(rows)
        self.project: Any = None
        if 4 * n * rows.n_features > INDEX_LIMIT_BYTES and rows.n_features > REDUCED:
            from sklearn.decomposition import TruncatedSVD

            svd = TruncatedSVD(REDUCED, random_state=0)
            size = max(2 * REDUCED, min(100 * REDUCED, _SVD_BYTES // (8 * rows.n_features)))
            self.project = svd.fit(rows[_sample(n, size)]).transform
        #: A projection hides part of every distance: more candidates make up for it.
        self.n_candidates = min(n - 1, n_neighbors if self.project is None else 4 * n_neighbors)
        self.n_cells = max(1, min(round(4 * n**0.5), n // _TRAINING_ROWS))
        training = self._read(_sample(n, _TRAINING_ROWS * self.n_cells))
        self.index = faiss.IndexIVFFlat(faiss.IndexFlatL2(training.shape[1]), training.shape[1], self.n_cells)
        self.index.cp.seed = 0
        self.index.cp.min_points_per_centroid = 1  # fewer are a matter of few rows, nothing to print about
        self.index.train(training)
        for part in rows.parts():
            self.index.add(self._dense(rows[part]))

    def _read(self, rows: IntArray) -> NDArray[np.float32]:
        pieces = np.array_split(rows, max(1, 8 * len(rows) * self.rows.n_features // _SVD_BYTES))
        return np.vstack([self._dense(self.rows[piece]) for piece in pieces])

    def _dense(self, values: Any) -> NDArray[np.float32]:
        if self.project is not None:
            values = self.project(values)
        return np.ascontiguousarray(values if isinstance(values, np.ndarray) else values.toarray(), dtype=np.float32)

    def search(self, rows: IntArray, cells: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Neighbours of the given rows, nearest first, and their squared distances, both (len(rows), k)."""
        found = self._candidates(rows, cells)
        short = (found < 0).any(axis=1)
        if short.any():  # cells with too few rows
            found[short] = self._candidates(rows[short], self.n_cells)
        squares = self.rows.squares(rows, found)
        order = np.lexsort((found, squares), axis=1)[:, : self.n_neighbors]
        return np.take_along_axis(found, order, axis=1), np.take_along_axis(squares, order, axis=1)

    def _candidates(self, rows: IntArray, cells: int) -> NDArray[np.int64]:
        self.index.nprobe = cells
        found = self.index.search(self._dense(self.rows[rows]), self.n_candidates + 1)[1]
        drop = found == rows[:, None]
        drop[~drop.any(axis=1), -1] = True  # crowded out by duplicates of itself
        return np.asarray(found[~drop].reshape(len(rows), self.n_candidates))


def _sample(n: int, size: int) -> NDArray[np.int64]:
    """Return distinct row numbers, in order."""
    if size >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def _share_within(squares: NDArray[np.float64], limits: NDArray[np.float64]) -> float:
    """Share of squared distances (rows, k) that do not exceed their row's limit, up to the rounding of both."""
    return float((squares <= limits[:, None] * (1 + 1e-6)).mean())
