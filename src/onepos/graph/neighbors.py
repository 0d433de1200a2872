"""The k-nearest-neighbour graph of the training rows, and the means over neighbourhoods."""

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from onepos._utils.context import recall, time_left, warn
from onepos._utils.validation import IntArray, MatrixLike
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.rows.stored import DiskRows

Metric: TypeAlias = Literal["euclidean", "cosine"]
SearchKind: TypeAlias = Literal["auto", "exact", "approximate"]
SEARCHES: tuple[str, ...] = ("auto", "exact", "approximate")

#: "auto" compares all pairs of up to this many rows.
EXACT_UP_TO = 30_000
#: In data without clusters the approximate search has to look at most rows. From this share on, comparing all pairs is
#: faster.
_EXACT_ABOVE = 1 / 6
#: Rough limit of temporary memory of the exact search.
_CHUNK_MIB = 128
#: Rough size of what a block of ``aggregated_rows`` reads, in float32.
_BLOCK_BYTES = 1 << 26


class NeighborGraph(NamedTuple):
    """Neighbours of every row, int64 (n_samples, k), and facts: the kind of search, its recall, its seconds."""

    neighbors: NDArray[np.int64]
    facts: dict[str, Any]


def neighbor_graph(X: MatrixLike, n_neighbors: int, *, search: SearchKind = "auto") -> NeighborGraph:
    """Find the k nearest other rows of every row, the way that suits their number.

    Without time for a search each row is its own neighbour; there is no time to train with them either.

    Parameters
    ----------
    X : array, sparse matrix or DiskRows of shape (n_samples, n_features)
    n_neighbors : int
        k, lowered with a warning where there are no k other rows.
    search : {"auto", "exact", "approximate"}
        "auto" is exact up to 30,000 rows and approximate above, if faiss is installed; exact there too for rows in
        memory without clusters, where it is the faster one. The exact search reads rows on disk into memory.

    Examples
    --------
    >>> graph = neighbor_graph(np.array([[0.0], [1.0], [3.0]]), 1)
    >>> graph.neighbors.ravel().tolist(), graph.facts["search"], graph.facts["recall"]
    ([1, 0, 1], 'exact', 1.0)
    """
    wanted, n_neighbors = n_neighbors, min(n_neighbors, X.shape[0] - 1)
    if n_neighbors < wanted:
        warn(
            f"n_neighbors={wanted} needs more than {X.shape[0]} rows; {n_neighbors} neighbours are used.",
            LabelWarning,
            stacklevel=5,
        )
    if time_left() <= 0:
        own = np.arange(X.shape[0], dtype=np.int64)
        return NeighborGraph(np.tile(own[:, None], (1, n_neighbors)), {"search": "no time"})
    started = time.perf_counter()
    facts: dict[str, Any] = {"search": "exact", "recall": 1.0}
    neighbors = None
    many = X.shape[0] > EXACT_UP_TO
    if search == "auto" and many and find_spec("faiss") is None:
        warn(
            f"the exact neighbour search compares all pairs of {X.shape[0]} rows, which may take long. For the "
            "approximate one: pip install 'onepos[large]'; graph_search='exact' keeps this one without a warning.",
            TrainingWarning,
            stacklevel=2,
        )
    elif search == "approximate" or (search == "auto" and many):
        from onepos.graph.approximate import approximate_graph

        may_give_up = search == "auto" and not isinstance(X, DiskRows)
        graph = approximate_graph(X, n_neighbors, most=_EXACT_ABOVE if may_give_up else 1.0)
        if graph is not None:
            neighbors, facts = graph.indices, {"search": "approximate", "recall": graph.recall}
    if neighbors is None:
        neighbors, _ = nearest_neighbors(X[:] if isinstance(X, DiskRows) else X, n_neighbors)
    return NeighborGraph(neighbors, facts | {"seconds": time.perf_counter() - started})


def nearest_neighbors(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean"
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find the k nearest other rows of every row, exactly, by scikit-learn's comparison of all pairs.

    Parameters
    ----------
    X : array or sparse of shape (n_samples, n_features)
        Finite features.
    n_neighbors : int
        k, from 1 to n_samples - 1.
    metric : {"euclidean", "cosine"}, default="euclidean"
        ‖a − b‖, or 1 − ab / (‖a‖ ‖b‖) where a row of zeros has distance 1 to every row.

    Returns
    -------
    indices : ndarray of int64, shape (n_samples, n_neighbors)
        Nearest first. A row is never its own neighbour, even when it has duplicates.
    distances : ndarray of shape (n_samples, n_neighbors)
        Their distances.

    Notes
    -----
    Which of the rows tied at the k-th place are taken is arbitrary, but the same in every call. No n×n array is formed.

    Examples
    --------
    >>> indices, distances = nearest_neighbors([[0.0], [1.0], [3.0]], 1)
    >>> indices.ravel().tolist(), distances.ravel().tolist()
    ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute", metric=metric).fit(X)
    with sklearn.config_context(working_memory=_CHUNK_MIB):
        distances, indices = recall(search.kneighbors, "neighbors", X, n_neighbors, metric)
    return indices, distances


def neighbor_means(indices: IntArray, n: int) -> Any:
    """N, float32 CSR (m, n), with mean neighbours NX: n_ij = 1/k if row i of ``indices``, (m, k), lists j, else 0.

    Examples
    --------
    >>> neighbor_means(np.array([[1, 2], [0, 2]]), 3).toarray().tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]
    """
    rows, k = indices.shape
    columns = np.sort(indices, axis=1).ravel()  # a fixed order of summation, whatever the order of the neighbours
    shares = np.full(rows * k, 1 / k, dtype=np.float32)
    return sparse.csr_array((shares, columns, np.arange(rows + 1) * k), shape=(rows, n))


def aggregated_rows(X: Any, neighbors: IntArray, self_weight: float, folder: str | Path | None) -> Any:
    """Return ``s·x_i + (1−s)·mean of the neighbours of x_i`` for every row of a float32 array, CSR array or DiskRows.

    ``neighbors`` has shape (n_samples, k), ``self_weight`` is s. With a ``folder`` a dense result is put there, in a
    file that is removed when nothing refers to the DiskRows returned any more.

    Examples
    --------
    >>> aggregated_rows(np.array([[0.0], [4.0]], dtype=np.float32), np.array([[1], [0]]), 0.75, None).tolist()
    [[1.0], [3.0]]
    """
    n, k = neighbors.shape
    if sparse.issparse(X):
        return self_weight * X + (1.0 - self_weight) * (neighbor_means(neighbors, n) @ X)
    result: Any = np.empty(X.shape, dtype=np.float32) if folder is None else _unnamed_map(Path(folder), X.shape)
    step = max(1, _BLOCK_BYTES // (4 * X.shape[1] * (k + 1)))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        needed, places = np.unique(neighbors[part], return_inverse=True)
        nearby = neighbor_means(places.reshape(-1, k), len(needed)) @ X[needed]
        result[part] = self_weight * X[part] + (1.0 - self_weight) * nearby
    return result if folder is None else DiskRows(result)


def _unnamed_map(folder: Path, shape: tuple[int, int]) -> Any:
    """Return a writable float32 map of a temporary file, which is gone with the map or when the process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(prefix="aggregated-", dir=folder) as file:
        return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
