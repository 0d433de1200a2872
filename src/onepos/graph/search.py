"""The neighbour graph of a training set: exact for as many rows as that is quick, approximate above."""

import os
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.result_cache import recall
from onepos._utils.validation import IntArray, MatrixLike
from onepos.exceptions import TrainingWarning
from onepos.graph.approximate import ENOUGH, ApproximateGraph, approximate_graph
from onepos.graph.exact import Metric, find_neighbors
from onepos.rows.stored import DiskRows

Search: TypeAlias = Literal["auto", "exact", "approximate"]
SEARCHES: tuple[str, ...] = ("auto", "exact", "approximate")

#: "auto" compares all pairs of up to this many rows.
EXACT_UP_TO = 30_000

#: In data without clusters the approximate search has to look at most rows. From this share on, comparing all pairs in
#: large matrix products is the faster way: for 50,000 rows of 128 features that takes about 36 s (seen on rows with
#: clusters), and the index 120 s on rows without.
_EXACT_ABOVE = 1 / 6


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
        return approximate_graph(X, n_neighbors, metric=metric, most=most, keep_distances=False)

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


# ÂX for rows that should not all be in memory: formed block by block, kept in memory or in a file.


#: Rough size of what a block reads, in float32.
_BLOCK_BYTES = 1 << 26


def aggregated_rows(X: Any, neighbors: IntArray, self_weight: float, folder: str | Path | None) -> Any:
    """Return ``s·x_i + (1−s)·mean of the neighbours of x_i`` for every row.

    Parameters
    ----------
    X : float32 array or DiskRows of shape (n_samples, n_features)
    neighbors : int array of shape (n_samples, k)
    self_weight : float
        s.
    folder : str, Path or None
        Where to put the result as a ``.npy`` file, which is removed when nothing refers to it any more.

    Returns
    -------
    float32 array, or with a folder DiskRows, of shape (n_samples, n_features)

    Examples
    --------
    >>> aggregated_rows(np.array([[0.0], [4.0]], dtype=np.float32), np.array([[1], [0]]), 0.75, None).tolist()
    [[1.0], [3.0]]
    """
    result: Any = np.empty(X.shape, dtype=np.float32) if folder is None else _new_file(Path(folder), X.shape)
    for part, nearby in _neighbor_means(X, neighbors):
        result[part] = self_weight * X[part] + (1.0 - self_weight) * nearby
    if folder is None:
        return result
    result.flush()
    return DiskRows(result)


def _neighbor_means(X: Any, neighbors: IntArray) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Blocks of NX, summed in the order of row numbers as ``onepos.graph.exact.mean_aggregate`` does."""
    k = neighbors.shape[1]
    step = max(1, _BLOCK_BYTES // (4 * X.shape[1] * (k + 1)))
    for start in range(0, len(neighbors), step):
        part = slice(start, min(start + step, len(neighbors)))
        needed, places = np.unique(neighbors[part], return_inverse=True)
        places = np.sort(places.reshape(-1, k), axis=1)
        shares = np.full(places.size, 1 / k, dtype=np.float32)
        offsets = np.arange(len(places) + 1) * k
        matrix = sparse.csr_array((shares, places.ravel(), offsets), shape=(len(places), len(needed)))
        yield part, matrix @ X[needed]


def _new_file(folder: Path, shape: tuple[int, int]) -> Any:
    """Return a writable float32 map of a new file, which goes when the map does."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="aggregated-", suffix=".npy", dir=folder, delete=False) as file:
        path = Path(file.name)
    values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if os.name == "posix":
        path.unlink()  # a file without a name lives as long as it is mapped, and is gone when the process is killed
    else:
        weakref.finalize(values, path.unlink, missing_ok=True)
    return values
