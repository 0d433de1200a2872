"""The approximate neighbour graph: a faiss index of cells, widened until its recall is enough.

K-means divides the rows into about 4√n cells, and a row is compared with those of the nearest cells alone, whose number
is doubled until the index finds 95 in 100 exact neighbours of a few hundred rows. Unlike a graph index (HNSW), it gives
the same answer whatever the order in which threads add rows. Blocks of rows are read when they are needed. Beyond
``INDEX_LIMIT_BYTES`` the index holds 128 principal directions, and four times the candidates are ranked in full.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from onepos._utils.context import recall, warn
from onepos._utils.machine import require
from onepos._utils.validation import IntArray, MatrixLike
from onepos.exceptions import TrainingWarning
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
#: Rough size of a block of rows in float64, and of the rows that train the index in float32.
_BLOCK_BYTES = 1 << 25
_TRAINING_BYTES = 1 << 28


class ApproximateGraph(NamedTuple):
    """Neighbours of every row, (n_samples, k), nearest first, and the recall measured."""

    indices: NDArray[np.int64]
    recall: float


def approximate_graph(X: MatrixLike, n_neighbors: int, *, most: float = 1.0) -> ApproximateGraph | None:
    """Find k near other rows of every row; about 95 in 100 of them are among the k nearest.

    X is an array, a sparse matrix or DiskRows. None if the search takes more than ``most`` of the cells. The result is
    the same in every call with the same number of threads.

    Examples
    --------
    >>> approximate_graph(np.array([[0.0], [1.0], [3.0]]), 1).indices.ravel().tolist()
    [1, 0, 1]
    """
    if isinstance(X, DiskRows):  # not hashed: that would read all rows once more
        graph = _search_all(X, n_neighbors, most)
    else:
        X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
        graph = recall(lambda: _search_all(X, n_neighbors, most), "near neighbors", X, n_neighbors, most)
    if graph is not None and graph.recall < ENOUGH:
        warn(
            f"the approximate neighbour search finds {graph.recall:.0%} of the nearest rows only: its index has no "
            "room for all features. Reduce their number, or ask for graph_search='exact'.",
            TrainingWarning,
            stacklevel=3,
        )
    return graph


def _search_all(X: Any, n_neighbors: int, most: float) -> ApproximateGraph | None:
    index = _CellIndex(X, n_neighbors)
    sample = _sample(X.shape[0], SAMPLE)
    limits = _kth_distances(X, sample, n_neighbors)[:, None] * (1 + 1e-6)  # up to rounding
    cells = min(_FIRST_CELLS, index.n_cells)
    while (reached := float((index.search(sample, cells)[1] <= limits).mean())) < ENOUGH and cells < index.n_cells:
        cells = min(2 * cells, index.n_cells)
        if cells > most * index.n_cells:
            return None
    rows = np.arange(X.shape[0])
    return ApproximateGraph(np.vstack([index.search(rows[part], cells)[0] for part in _blocks(X)]), reached)


def _kth_distances(X: Any, rows: IntArray, k: int) -> NDArray[np.float64]:
    """Distance of the given rows to their k-th nearest other row, from all rows."""
    nearest = np.empty((len(rows), 0))
    for part in _blocks(X):
        block = X[part]
        search = NearestNeighbors(n_neighbors=min(k + 1, block.shape[0]), algorithm="brute").fit(block)
        nearest = np.sort(np.hstack([nearest, search.kneighbors(X[rows])[0]]), axis=1)[:, : k + 1]
    return nearest[:, k]  # the first is the row itself


class _CellIndex:
    """Cells of rows; finds the k nearest others of given rows among those of the nearest cells."""

    def __init__(self, X: Any, n_neighbors: int) -> None:
        faiss = require("faiss", extra="large", purpose="the approximate neighbour graph")
        self.X, self.n_neighbors = X, n_neighbors
        n, n_features = X.shape
        reduced = 4 * n * n_features > INDEX_LIMIT_BYTES and n_features > REDUCED
        #: A projection hides part of every distance: more candidates make up for it.
        self.n_candidates = min(n - 1, 4 * n_neighbors if reduced else n_neighbors)
        self.n_cells = max(1, min(round(4 * n**0.5), n // _TRAINING_ROWS))
        n_kept = REDUCED if reduced else n_features
        self.cells = faiss.IndexIVFFlat(faiss.IndexFlatL2(n_kept), n_kept, self.n_cells)
        self.cells.cp.seed = 0
        self.cells.cp.min_points_per_centroid = 1  # fewer are a matter of few rows, nothing to print about
        self.index = faiss.IndexPreTransform(faiss.PCAMatrix(n_features, n_kept), self.cells) if reduced else self.cells
        size = min(_TRAINING_ROWS * self.n_cells, max(2 * REDUCED, _TRAINING_BYTES // (4 * n_features)))
        self.index.train(_dense(X[_sample(n, size)]))
        for part in _blocks(X):
            self.index.add(_dense(X[part]))

    def search(self, rows: IntArray, cells: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Neighbours of the given rows, nearest first, and their distances, both (len(rows), k)."""
        candidates = self._candidates(rows, cells)
        short = (candidates < 0).any(axis=1)
        if short.any():  # cells with too few rows
            candidates[short] = self._candidates(rows[short], self.n_cells)
        distances = np.vstack([_distances(self.X, *pair) for pair in self._pieces(rows, candidates)])
        order = np.lexsort((candidates, distances), axis=1)[:, : self.n_neighbors]
        return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(distances, order, axis=1)

    def _candidates(self, rows: IntArray, cells: int) -> NDArray[np.int64]:
        self.cells.nprobe = cells
        nearest = self.index.search(_dense(self.X[rows]), self.n_candidates + 1)[1]
        drop = nearest == rows[:, None]
        drop[~drop.any(axis=1), -1] = True  # crowded out by duplicates of itself
        return np.asarray(nearest[~drop].reshape(len(rows), self.n_candidates))

    def _pieces(self, rows: IntArray, others: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Pieces of rows and their others, few enough to read the features of all of them."""
        step = max(1, _BLOCK_BYTES // (8 * self.X.shape[1] * others.shape[1]))
        for start in range(0, len(rows), step):
            yield rows[start : start + step], others[start : start + step]


def _distances(X: Any, rows: IntArray, others: IntArray) -> NDArray[np.float64]:
    """‖x_i − x_j‖ of every row i and each of its others, (len(rows), m), from direct differences in float64."""
    difference = X[others.ravel()].astype(np.float64) - X[np.repeat(rows, others.shape[1])]
    squares = difference.multiply(difference) if sparse.issparse(difference) else np.square(difference)
    return np.asarray(np.sqrt(squares.sum(axis=1)).reshape(others.shape))


def _dense(values: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float32)


def _blocks(X: Any) -> Iterator[slice]:
    """Slices that cover all rows."""
    step = max(1, _BLOCK_BYTES // (8 * X.shape[1]))
    for start in range(0, X.shape[0], step):
        yield slice(start, min(start + step, X.shape[0]))


def _sample(n: int, size: int) -> NDArray[np.int64]:
    """Return distinct row numbers, in order."""
    return np.arange(n) if size >= n else np.sort(np.random.default_rng(0).choice(n, size, replace=False))
