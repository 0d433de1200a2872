"""The neighbour graph of a training set: exact for as many rows as that is quick, approximate above.

The approximate search is a faiss index of cells, widened until its recall is enough. K-means divides the rows into
about 4√n cells, and a row is compared with those of the nearest cells alone. The exact neighbours of a few hundred
rows are known, and the number of cells is doubled until the index finds 95 in 100 of them. With all cells the search is
exact. Unlike a graph index (HNSW), it gives the same answer whatever the order in which threads add rows.

Every block of rows is read when it is needed, so the rows may be dense, sparse, or on disk. The index holds them dense
in float32; beyond ``INDEX_LIMIT_BYTES`` it holds 128 singular directions of them instead, and four times the candidates
are ranked by distances in full.
"""

import time
import warnings
from collections.abc import Iterator
from importlib import import_module
from operator import index
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import recall
from onepos._utils.machine import require
from onepos._utils.validation import IntArray, MatrixLike
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.graph.exact import Metric, checked_features, find_neighbors, unit_rows
from onepos.rows.stored import DiskRows

Search: TypeAlias = Literal["auto", "exact", "approximate"]
SEARCHES: tuple[str, ...] = ("auto", "exact", "approximate")

#: "auto" compares all pairs of up to this many rows.
EXACT_UP_TO = 30_000

#: In data without clusters the approximate search has to look at most rows. From this share on, comparing all pairs in
#: large matrix products is the faster way: for 50,000 rows of 128 features that takes about 36 s (seen on rows with
#: clusters), and the index 120 s on rows without.
_EXACT_ABOVE = 1 / 6


class ApproximateGraph(NamedTuple):
    """Neighbours of every row, (n_samples, k), nearest first, and the recall measured."""

    indices: NDArray[np.int64]
    recall: float


class NeighborGraph(NamedTuple):
    """Neighbours of every row, int64 (n_samples, k), and facts: the kind of search, its recall, its seconds."""

    neighbors: NDArray[np.int64]
    facts: dict[str, Any]


def neighbor_graph(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean", search: Search = "auto"
) -> NeighborGraph:
    """Find the k nearest other rows of every row, the way that suits their number.

    Parameters
    ----------
    X : array, sparse matrix or DiskRows of shape (n_samples, n_features)
    n_neighbors : int
    metric : {"euclidean", "cosine"}
    search : {"auto", "exact", "approximate"}
        "auto" is exact up to 30,000 rows and approximate above, if faiss is installed; exact there too for rows in
        memory without clusters, where it is the faster one. The exact search reads rows on disk into memory.

    Examples
    --------
    >>> graph = neighbor_graph(np.array([[0.0], [1.0], [3.0]]), 1)
    >>> graph.neighbors.ravel().tolist(), graph.facts["search"], graph.facts["recall"]
    ([1, 0, 1], 'exact', 1.0)
    """
    started = time.perf_counter()
    found = None
    if resolve_search(search, X.shape[0]) == "approximate":
        may_give_up = search == "auto" and not isinstance(X, DiskRows)
        found = _approximate(X, n_neighbors, metric, _EXACT_ABOVE if may_give_up else 1.0)
    facts = {"search": "exact", "recall": 1.0} if found is None else {"search": "approximate", "recall": found.recall}
    if found is None:
        neighbors, _ = find_neighbors(X[:] if isinstance(X, DiskRows) else X, n_neighbors, metric=metric)
    else:
        neighbors = found.indices
    return NeighborGraph(neighbors, facts | {"seconds": time.perf_counter() - started})


def usable_neighbors(n_neighbors: int, n_samples: int) -> int:
    """Return k, lowered with a warning where there are no k other rows."""
    k = min(n_neighbors, n_samples - 1)
    if k < n_neighbors:
        warnings.warn(
            f"n_neighbors={n_neighbors} needs more than {n_samples} rows; {k} neighbours are used.",
            LabelWarning,
            stacklevel=6,
        )
    return k


def resolve_search(search: Search, n_samples: int) -> Literal["exact", "approximate"]:
    """Decide "auto" by the number of rows; warns where only a missing faiss keeps it exact.

    Examples
    --------
    >>> resolve_search("auto", 1000), resolve_search("approximate", 1000)
    ('exact', 'approximate')
    """
    if search != "auto":
        return search
    if n_samples <= EXACT_UP_TO:
        return "exact"
    try:
        import_module("faiss")
    except ImportError:
        warnings.warn(
            f"the exact neighbour search compares all pairs of {n_samples} rows, which may take long. For the "
            "approximate one: pip install 'onepos[large]'; graph_search='exact' keeps this one without a warning.",
            TrainingWarning,
            stacklevel=2,
        )
        return "exact"
    return "approximate"


def _approximate(X: MatrixLike, n_neighbors: int, metric: Metric, most: float) -> ApproximateGraph | None:
    def compute() -> ApproximateGraph | None:
        return approximate_graph(X, n_neighbors, metric=metric, most=most)

    # Rows on disk are not hashed: that would read them all once more.
    found = compute() if isinstance(X, DiskRows) else recall(compute, "near neighbors", X, n_neighbors, metric, most)
    if found is not None and found.recall < ENOUGH:
        warnings.warn(
            f"the approximate neighbour search finds {found.recall:.0%} of the nearest rows only: its index has no "
            "room for all features. Reduce their number, or ask for graph_search='exact'.",
            TrainingWarning,
            stacklevel=2,
        )
    return found


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


def _squared_lengths(values: Any) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", values, values))
    return np.asarray(values.multiply(values).sum(axis=1)).ravel()


#: Beyond this, the index holds ``REDUCED`` directions of the rows instead of all their features.
INDEX_LIMIT_BYTES = 1 << 31


REDUCED = 128


#: The share of true neighbours that is enough, on this many random rows.
ENOUGH = 0.95


SAMPLE = 500


#: Cells looked at to begin with; rows per cell that train k-means, about the fewest that it asks for.
_FIRST_CELLS = 8


_TRAINING_ROWS = 40


#: What the rows that find the singular directions may take in float64.
_SVD_BYTES = 1 << 28


def approximate_graph(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean", seed: int = 0, most: float = 1.0
) -> ApproximateGraph | None:
    """Find k near other rows of every row; about 95 in 100 of them are among the k nearest.

    Parameters as in ``nearest_neighbors``; X may also be DiskRows, and two rows of zeros are sought as if they were
    equal. ``seed`` is that of the k-means and of the sample: equal seeds and threads give equal results. None if the
    search takes more than ``most`` of the cells. The recall is measured on the rows by which the search was widened.

    Examples
    --------
    >>> approximate_graph([[0.0], [1.0], [3.0]], 1).indices.ravel().tolist()
    [1, 0, 1]
    """
    rows = GraphRows(X, metric)
    rows.check_neighbors(n_neighbors)
    index = _Index(rows, n_neighbors, seed)
    sample = _sample(len(rows), SAMPLE, seed)
    limits = rows.kth_squares(sample, n_neighbors)
    cells = min(_FIRST_CELLS, index.n_cells)
    reached = _share_within(index.search(sample, cells)[1], limits)
    while reached < ENOUGH and cells < index.n_cells:
        cells = min(2 * cells, index.n_cells)
        if cells > most * index.n_cells:
            return None
        reached = _share_within(index.search(sample, cells)[1], limits)
    indices = np.empty((len(rows), n_neighbors), dtype=np.int64)
    for part in rows.parts():
        indices[part] = index.search(np.arange(part.start, part.stop), cells)[0]
    return ApproximateGraph(indices, reached)


class _Index:
    """Cells of rows; finds the k nearest others of given rows among those of the nearest cells."""

    def __init__(self, rows: GraphRows, n_neighbors: int, seed: int) -> None:
        faiss = require("faiss", extra="large", purpose="the approximate neighbour graph")
        self.rows, self.n_neighbors = rows, n_neighbors
        n = len(rows)
        self.project: Any = None
        if 4 * n * rows.n_features > INDEX_LIMIT_BYTES and rows.n_features > REDUCED:
            from sklearn.decomposition import TruncatedSVD

            svd = TruncatedSVD(REDUCED, random_state=seed)
            size = max(2 * REDUCED, min(100 * REDUCED, _SVD_BYTES // (8 * rows.n_features)))
            self.project = svd.fit(rows[_sample(n, size, seed)]).transform
        #: A projection hides part of every distance: more candidates make up for it.
        self.n_candidates = min(n - 1, n_neighbors if self.project is None else 4 * n_neighbors)
        self.n_cells = max(1, min(round(4 * n**0.5), n // _TRAINING_ROWS))
        training = self._read(_sample(n, _TRAINING_ROWS * self.n_cells, seed))
        self.index = faiss.IndexIVFFlat(faiss.IndexFlatL2(training.shape[1]), training.shape[1], self.n_cells)
        self.index.cp.seed = seed
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


def _sample(n: int, size: int, seed: int) -> NDArray[np.int64]:
    """Return distinct row numbers, in order."""
    if size >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size, replace=False))


def _share_within(squares: NDArray[np.float64], limits: NDArray[np.float64]) -> float:
    """Share of squared distances (rows, k) that do not exceed their row's limit, up to the rounding of both."""
    return float((squares <= limits[:, None] * (1 + 1e-6)).mean())
