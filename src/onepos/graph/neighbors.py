"""The k-nearest-neighbour graph of the training rows, its adjacency (Eq. 7) and the means over neighbourhoods.

The search is exact for as many rows as that is quick, and approximate above (``onepos.graph.approximate``).

The exact search mostly runs in fast matrix products. For a block of rows, squared distances ‖a‖² + ‖b‖² − 2ab come from
one product, together with a bound on their rounding error. Every row that could be among the k nearest within that
bound is a candidate. Candidates alone are ranked by float64 distances of direct differences, which do not suffer from
cancellation. No n×n array is formed.
"""

import os
import tempfile
import time
import warnings
import weakref
from importlib import import_module
from operator import index
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import recall
from onepos._utils.validation import FloatArray, IntArray, MatrixLike
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.rows.stored import DiskRows

Metric: TypeAlias = Literal["euclidean", "cosine"]
Search: TypeAlias = Literal["auto", "exact", "approximate"]
SEARCHES: tuple[str, ...] = ("auto", "exact", "approximate")

#: "auto" compares all pairs of up to this many rows.
EXACT_UP_TO = 30_000
#: In data without clusters the approximate search has to look at most rows. From this share on, comparing all pairs in
#: large matrix products is faster: about 36 s for 50,000 rows of 128 features, where the index takes 120 s.
_EXACT_ABOVE = 1 / 6
#: Above this share of stored entries, a dense product beats a sparse one.
_DENSE_ABOVE = 0.1
#: Rough limit of temporary memory of the exact search, beyond a float32 copy of dense rows.
_CHUNK_BYTES = 1 << 27
#: Rough size of what a block of ``aggregated_rows`` reads, in float32.
_BLOCK_BYTES = 1 << 26


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
        from onepos.graph.approximate import remembered_graph

        may_give_up = search == "auto" and not isinstance(X, DiskRows)
        found = remembered_graph(X, n_neighbors, metric, _EXACT_ABOVE if may_give_up else 1.0)
    if found is None:
        neighbors, _ = nearest_neighbors(X[:] if isinstance(X, DiskRows) else X, n_neighbors, metric=metric)
        facts: dict[str, Any] = {"search": "exact", "recall": 1.0}
    else:
        neighbors, facts = found.indices, {"search": "approximate", "recall": found.recall}
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
    """Decide "auto" by the number of rows; warn where only a missing faiss keeps it exact."""
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


def nearest_neighbors(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean"
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find the k nearest other rows of every row, exactly.

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
    distances : ndarray of float64, shape (n_samples, n_neighbors)
        Their distances.

    Notes
    -----
    Equal float64 distances are ordered by lower index. Rows tied at the k-th place are all examined, so data in which
    most rows are duplicates cost as much as brute force.

    Examples
    --------
    >>> indices, distances = nearest_neighbors([[0.0], [1.0], [3.0]], 1)
    >>> indices.ravel().tolist(), distances.ravel().tolist()
    ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    X = checked_features(X)
    check_request(X.shape[0], n_neighbors, metric)
    return recall(lambda: _search_all(X, n_neighbors, metric), "neighbors", X, n_neighbors, metric)


def check_request(n_samples: int, n_neighbors: int, metric: str) -> None:
    """Raise unless every row has that many others and the metric is known."""
    try:
        number = index(n_neighbors)
    except TypeError as error:
        raise TypeError(f"expected an integer n_neighbors; got {n_neighbors!r}: pass a whole number") from error
    if not 1 <= number < n_samples:
        raise ValueError(
            f"expected 1 <= n_neighbors < {n_samples}, the number of rows, because a row is not its own neighbour; "
            f"got {n_neighbors}: lower n_neighbors or pass more rows"
        )
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f"expected metric 'euclidean' or 'cosine'; got {metric!r}: choose one of these")


def _search_all(X: Any, n_neighbors: int, metric: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    n = X.shape[0]
    if not isinstance(X, np.ndarray):
        X = X.astype(np.float64)  # sparse products gain nothing from float32
    zero = np.zeros(n, dtype=bool)
    if metric == "cosine":
        X, zero = unit_rows(X)
    fast, squares, slack = _fast_copy(X, metric)
    indices = np.empty((n, n_neighbors), dtype=np.int64)
    squared = np.empty((n, n_neighbors))
    # Per entry of a block: two products, a mask, and at worst a pair of candidate indices and a distance.
    step = max(1, _CHUNK_BYTES // (n * (2 * fast.dtype.itemsize + 40)))
    for start in range(0, n, step):
        block = slice(start, min(start + step, n))
        mask = _candidates(fast, squares, slack, block, n_neighbors)
        # A row of zeros is at distance 1 from all, so the lowest indices win; skip the comparison.
        mask[zero[block], n_neighbors + 1 :] = False
        rows, columns = np.nonzero(mask)
        exact = _squared_distances(X, rows + start, columns)
        exact[zero[rows + start] | zero[columns]] = 2.0
        indices[block], squared[block] = ranked(rows, columns, exact, n_neighbors)
    # For unit vectors 1 − cos = ‖a − b‖² / 2.
    return indices, squared / 2 if metric == "cosine" else np.sqrt(squared)


def ranked(rows: IntArray, columns: IntArray, squared: NDArray[np.float64], k: int) -> tuple[Any, Any]:
    """Return the k columns of every row with the smallest values, ties by lower index, and these values, (n, k)."""
    order = np.lexsort((columns, squared, rows))
    sizes = np.bincount(rows)
    first = (np.cumsum(sizes) - sizes)[:, None] + np.arange(k)
    return columns[order][first], squared[order][first]


def checked_features(X: MatrixLike) -> Any:
    """X as a 2-D float32 or float64 array, or CSR in canonical format; finite."""
    X = sparse.csr_array(X) if bool(sparse.issparse(X)) else np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(
            f"expected X of shape (n_samples, n_features), neither of them 0; got shape {X.shape}: "
            "pass one row per example"
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not isinstance(X, np.ndarray) and not X.has_canonical_format:
        X = X.copy()  # sum_duplicates works in place, on what may be the caller's arrays
        X.sum_duplicates()
    stored = X if isinstance(X, np.ndarray) else X.data
    if not np.isfinite(stored).all():
        raise ValueError("expected finite features; got NaN or infinity: impute or drop such entries")
    return X


def unit_rows(X: Any) -> tuple[Any, NDArray[np.bool_]]:
    """X with rows of length one in float64, and which rows are zero (these stay so)."""
    X = X.astype(np.float64)
    dense = isinstance(X, np.ndarray)
    # Two steps, so that the squares of very large or small entries neither overflow nor vanish.
    for largest in (True, False):
        if largest:
            norms = np.abs(X).max(axis=1) if dense else abs(X).max(axis=1).toarray()
        else:
            norms = np.sqrt((X * X if dense else X.multiply(X)).sum(axis=1))
        norms = np.asarray(norms, dtype=np.float64).ravel()
        zero = norms == 0
        norms[zero] = 1
        X = X / norms[:, None] if dense else sparse.csr_array(sparse.diags_array(1 / norms) @ X)
    return X, zero


def _fast_copy(X: Any, metric: str) -> tuple[Any, FloatArray, FloatArray]:
    """Prepare for the product: a copy of X, its squared lengths, and the error bound's part of every row.

    A dot product of length q in precision u errs by about q u ‖a‖ ‖b‖ <= q u (‖a‖² + ‖b‖²) / 2: a part per row.
    """
    n, q = X.shape
    if not isinstance(X, np.ndarray) and X.nnz > _DENSE_ABOVE * n * q:
        X = X.toarray()
    # Scaling changes no neighbour and keeps squares in range; twice the largest entry outlasts the shift.
    # Unit rows need none.
    scale = 2 * max(float(X.max()), -float(X.min()), 1e-300) if metric == "euclidean" else 1.0
    if isinstance(X, np.ndarray):
        # Nor does a shift; it shortens the rows, and errors grow with their lengths, not their distances.
        shift = X.mean(axis=0, dtype=np.float64) if metric == "euclidean" else 0.0
        fast: Any = np.empty(X.shape, dtype=np.float32)
        step = max(1, (1 << 20) // q)
        for start in range(0, n, step):
            fast[start : start + step] = (X[start : start + step] - shift) / scale
        terms = q
    else:
        fast = sparse.csr_array(X / scale)
        terms = int(np.diff(fast.indptr).max())
    squares = squared_lengths(fast).astype(np.float64)
    if metric == "cosine":
        squares[:] = 1  # rows of zeros too: this puts them at distance 1 from all
    # Twice what the bound above asks for; 1e-30 stands for entries that vanished in float32.
    slack = (2 * terms + 16) * float(np.finfo(fast.dtype).eps) * squares + 1e-30
    return fast, squares.astype(fast.dtype), slack.astype(fast.dtype)


def _candidates(fast: Any, squares: FloatArray, slack: FloatArray, block: slice, k: int) -> NDArray[np.bool_]:
    """Mask (rows of the block, n) of all rows that may be among the k nearest, given the error bound."""
    product = fast[block] @ fast.T
    near: FloatArray = product if isinstance(product, np.ndarray) else product.toarray()
    near *= -2
    near += squares  # ‖b‖² − 2ab: the row's own ‖a‖² shifts all its entries alike
    own = np.arange(block.start, block.stop)
    near[own - block.start, own] = np.inf
    # The k-th smallest upper bound is no less than the k-th distance; a candidate's lower bound is no more.
    upper = near + slack
    upper.partition(k - 1, axis=1)
    near -= slack
    mask: NDArray[np.bool_] = near <= (upper[:, k - 1] + 2 * slack[block])[:, None]
    return mask


def _squared_distances(X: Any, rows: IntArray, columns: IntArray) -> NDArray[np.float64]:
    """‖x_i − x_j‖² for pairs (i, j), from direct differences in float64."""
    width = X.shape[1] if isinstance(X, np.ndarray) else 4 * X.nnz // X.shape[0] + 1
    step = max(1, _CHUNK_BYTES // (32 * width))
    result = np.empty(len(rows))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        result[part] = squared_lengths(X[rows[part]].astype(np.float64) - X[columns[part]])
    return result


def squared_lengths(values: Any) -> NDArray[Any]:
    """‖x_i‖² of the rows of an array or a CSR array, in its precision."""
    if isinstance(values, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", values, values))
    return np.asarray(values.multiply(values).sum(axis=1)).ravel()


def adjacency(indices: IntArray, n: int) -> Any:
    """Adjacency of Eq. 7, float32 CSR (n, n): a_ij = 1 if row j of ``indices``, (n, k), lists i, else 0.

    Examples
    --------
    >>> adjacency(np.array([[1], [0], [1]]), 3).toarray().astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    """
    return _marks(indices, n, 1.0).T.tocsr()


def neighbor_means(indices: IntArray, n: int) -> Any:
    """N, float32 CSR (m, n), with mean neighbours NX: n_ij = 1/k if row i of ``indices``, (m, k), lists j, else 0.

    Examples
    --------
    >>> neighbor_means(np.array([[1, 2], [0, 2]]), 3).toarray().tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]
    """
    # A fixed order of summation, whatever the order of the neighbours.
    return _marks(np.sort(indices, axis=1), n, 1 / np.shape(indices)[1])


def _marks(indices: IntArray, n: int, value: float) -> Any:
    """CSR array with n columns that has a value where row i of ``indices`` lists column j."""
    if indices.ndim != 2 or indices.dtype.kind not in "iu" or indices.min() < 0 or indices.max() >= n:
        raise ValueError(
            f"expected row numbers from 0 to {n - 1} of shape (rows, k); got {indices.dtype} of shape {indices.shape}, "
            f"from {indices.min()} to {indices.max()}: pass the first result of nearest_neighbors"
        )
    rows, k = indices.shape
    data = np.full(rows * k, value, dtype=np.float32)
    return sparse.csr_array((data, indices.ravel(), np.arange(rows + 1) * k), shape=(rows, n))


def aggregated_rows(X: Any, neighbors: IntArray, self_weight: float, folder: str | Path | None) -> Any:
    """Return ``s·x_i + (1−s)·mean of the neighbours of x_i`` for every row of a float32 array, CSR array or DiskRows.

    ``neighbors`` has shape (n_samples, k), ``self_weight`` is s. With a ``folder`` a dense result is put there as a
    ``.npy`` file, which is removed when nothing refers to the DiskRows returned any more.

    Examples
    --------
    >>> aggregated_rows(np.array([[0.0], [4.0]], dtype=np.float32), np.array([[1], [0]]), 0.75, None).tolist()
    [[1.0], [3.0]]
    """
    n, k = neighbors.shape
    if sparse.issparse(X):
        return self_weight * X + (1.0 - self_weight) * (neighbor_means(neighbors, n) @ X)
    result: Any = np.empty(X.shape, dtype=np.float32) if folder is None else _new_file(Path(folder), X.shape)
    step = max(1, _BLOCK_BYTES // (4 * X.shape[1] * (k + 1)))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        needed, places = np.unique(neighbors[part], return_inverse=True)
        nearby = neighbor_means(places.reshape(-1, k), len(needed)) @ X[needed]
        result[part] = self_weight * X[part] + (1.0 - self_weight) * nearby
    if folder is None:
        return result
    result.flush()
    return DiskRows(result)


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
