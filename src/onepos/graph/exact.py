"""The exact k-nearest-neighbour graph, its adjacency (Eq. 7) and the means over neighbourhoods.

The search is exact yet mostly runs in fast matrix products. For a block of rows, squared distances
‖a‖² + ‖b‖² − 2ab come from one product, together with a bound on their rounding error. Every row that
could be among the k nearest within that bound is a candidate, and candidates alone are ranked by
float64 distances of direct differences, which do not suffer from cancellation. No n×n array is formed.
"""

import os
import tempfile
import weakref
from collections.abc import Iterator
from operator import index
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import recall
from onepos._utils.validation import FloatArray, IntArray, MatrixLike
from onepos.rows.stored import DiskRows

Metric: TypeAlias = Literal["euclidean", "cosine"]

#: Above this share of stored entries, a dense product beats a sparse one.
_DENSE_ABOVE = 0.1


def nearest_neighbors(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean", chunk_bytes: int = 1 << 27
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
    chunk_bytes : int, default=134217728
        Rough limit of temporary memory beyond a float32 copy of dense ``X`` (float64 and unit length for
        cosine). It does not change the result.

    Returns
    -------
    indices : ndarray of int64, shape (n_samples, n_neighbors)
        Nearest first. A row is never its own neighbour, even when it has duplicates.
    distances : ndarray of float64, shape (n_samples, n_neighbors)
        Their distances.

    Notes
    -----
    Equal float64 distances are ordered by lower index. Distances that are equal on paper may differ in
    the last bit when the differences are not exact; duplicates, and small integers under the Euclidean
    metric, are always tied. Rows tied at the k-th place are all examined, so data in which
    most rows are duplicates cost as much as brute force.

    Examples
    --------
    >>> indices, distances = nearest_neighbors([[0.0], [1.0], [3.0]], 1)
    >>> indices.ravel().tolist(), distances.ravel().tolist()
    ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    X = checked_features(X)
    n = X.shape[0]
    try:
        n_neighbors = index(n_neighbors)
    except TypeError as error:
        raise TypeError(f"expected an integer n_neighbors; got {n_neighbors!r}: pass a whole number") from error
    if not isinstance(X, np.ndarray):
        X = X.astype(np.float64)  # sparse products gain nothing from float32
    if not 1 <= n_neighbors < n:
        raise ValueError(
            f"expected 1 <= n_neighbors < {n}, the number of rows, because a row is not its own neighbour; "
            f"got {n_neighbors}: lower n_neighbors or pass more rows"
        )
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f"expected metric 'euclidean' or 'cosine'; got {metric!r}: choose one of these")
    zero = np.zeros(n, dtype=bool)
    if metric == "cosine":
        X, zero = unit_rows(X)
    fast, squares, slack = _fast_copy(X, metric)
    indices = np.empty((n, n_neighbors), dtype=np.int64)
    squared = np.empty((n, n_neighbors))
    # Per entry of a block: two products, a mask, and at worst a pair of candidate indices and a distance.
    step = max(1, chunk_bytes // (n * (2 * fast.dtype.itemsize + 40)))
    for start in range(0, n, step):
        block = slice(start, min(start + step, n))
        mask = _candidates(fast, squares, slack, block, n_neighbors)
        # A row of zeros is at distance 1 from all, so the lowest indices win; skip the comparison.
        mask[zero[block], n_neighbors + 1 :] = False
        rows, columns = np.nonzero(mask)
        exact = _squared_distances(X, rows + start, columns, chunk_bytes)
        exact[zero[rows + start] | zero[columns]] = 2.0
        order = np.lexsort((columns, exact, rows))
        sizes = np.bincount(rows)
        first = (np.cumsum(sizes) - sizes)[:, None] + np.arange(n_neighbors)
        indices[block], squared[block] = columns[order][first], exact[order][first]
    # For unit vectors 1 − cos = ‖a − b‖² / 2.
    return indices, squared / 2 if metric == "cosine" else np.sqrt(squared)


def adjacency(indices: IntArray, n: int) -> Any:
    """Adjacency of Eq. 7: a_ij = 1 if x_i is among the k nearest neighbours of x_j, else 0.

    Row j of ``indices``, (n, k), lists the neighbours of x_j. The result is a float32 CSR array of shape (n, n), whose
    columns have k ones each.

    Examples
    --------
    >>> adjacency(np.array([[1], [0], [1]]), 3).toarray().astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    """
    indices = _checked_indices(indices, n)
    k = indices.shape[1]
    data = np.ones(n * k, dtype=np.float32)
    listed = sparse.csr_array((data, indices.ravel(), np.arange(n + 1) * k), shape=(n, n))
    return listed.T.tocsr()


def row_mean_matrix(indices: IntArray, self_loop: bool = True) -> Any:
    """Â, whose product with X is the mean of X over every row's neighbourhood.

    â_ij = 1/(k + 1) if j = i or x_j is among the neighbours of x_i, else 0; without the self-loop 1/k over the
    neighbours alone. Row i of ``indices``, (n, k), lists the neighbours of x_i; the result is a float32 CSR array.

    Examples
    --------
    >>> row_mean_matrix(np.array([[1], [0]])).toarray().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    n = len(indices)
    members = _checked_indices(indices, n)
    if self_loop:
        members = np.column_stack([np.arange(n), members])
    size = members.shape[1]
    data = np.full(n * size, 1 / size, dtype=np.float32)
    # flatten() copies: sorting works in place, on what may be the caller's neighbours.
    matrix = sparse.csr_array((data, members.flatten(), np.arange(n + 1) * size), shape=(n, n))
    matrix.sort_indices()  # a fixed order of summation, whatever the order of the neighbours
    return matrix


def mean_aggregate(X: MatrixLike, indices: IntArray, self_loop: bool = True) -> Any:
    """ÂX: for every row the mean over itself and its neighbours.

    ``indices`` and ``self_loop`` as in :func:`row_mean_matrix`. Dense X gives a dense result, sparse X a CSR array;
    float32 stays float32. Nothing larger than the result is formed.

    Examples
    --------
    >>> mean_aggregate(np.array([[0.0], [2.0]]), np.array([[1], [0]])).tolist()
    [[1.0], [1.0]]
    """
    X = checked_features(X)
    if len(indices) != X.shape[0]:
        raise ValueError(
            f"expected one row of indices per row of X; got {len(indices)} for {X.shape[0]}: "
            "pass the neighbours found in this X"
        )
    matrix = row_mean_matrix(indices, self_loop)
    if X.dtype != np.float32:
        # 1/size again in float64: a cast of the float32 value would keep its rounding error.
        matrix = matrix.astype(np.float64)
        matrix.data[:] = 1 / (indices.shape[1] + self_loop)
    return matrix @ X


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


def _checked_indices(indices: IntArray, n: int) -> IntArray:
    indices = np.asarray(indices)
    if indices.ndim != 2 or len(indices) != n or indices.shape[1] == 0 or indices.dtype.kind not in "iu":
        raise ValueError(
            f"expected integer indices of shape ({n}, k) with k >= 1; got {indices.dtype} of shape "
            f"{indices.shape}: pass the first result of nearest_neighbors"
        )
    if indices.min() < 0 or indices.max() >= n:
        raise ValueError(
            f"expected indices from 0 to {n - 1}; got {indices.min()} to {indices.max()}: "
            "pass neighbours found among the same rows"
        )
    return indices


def unit_rows(X: Any) -> tuple[Any, NDArray[np.bool_]]:
    """X with rows of length one in float64, and which rows are zero (these stay so)."""
    X = X.astype(np.float64)
    dense = isinstance(X, np.ndarray)
    # Two steps, so that the squares of very large or small entries neither overflow nor vanish.
    for power in (np.inf, 2):
        if power == 2:
            norms = np.sqrt((X * X).sum(axis=1)) if dense else np.sqrt(X.multiply(X).sum(axis=1))
        else:
            norms = np.abs(X).max(axis=1) if dense else abs(X).max(axis=1).toarray()
        norms = np.asarray(norms, dtype=np.float64).ravel()
        zero = norms == 0
        norms[zero] = 1
        X = X / norms[:, None] if dense else sparse.csr_array(sparse.diags_array(1 / norms) @ X)
    return X, zero


def _fast_copy(X: Any, metric: str) -> tuple[Any, FloatArray, FloatArray]:
    """Prepare for the product: a copy of X, its squared lengths, and the error bound's part of every row.

    A dot product of length q in precision u errs by at most about q u ‖a‖ ‖b‖, and rounding the entries
    adds a few u; since ‖a‖ ‖b‖ <= (‖a‖² + ‖b‖²) / 2, the bound on ‖a − b‖² splits into a part per row.
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
        squares = np.einsum("ij,ij->i", fast, fast).astype(np.float64)
        terms = q
    else:
        fast = sparse.csr_array(X / scale)
        squares = np.asarray(fast.multiply(fast).sum(axis=1)).ravel()
        terms = int(np.diff(fast.indptr).max())
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


def _squared_distances(X: Any, rows: IntArray, columns: IntArray, chunk_bytes: int) -> NDArray[np.float64]:
    """‖x_i − x_j‖² for pairs (i, j), from direct differences in float64."""
    dense = isinstance(X, np.ndarray)
    width = X.shape[1] if dense else 4 * X.nnz // X.shape[0] + 1
    step = max(1, chunk_bytes // (32 * width))
    result = np.empty(len(rows))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        difference = X[rows[part]].astype(np.float64) - X[columns[part]]
        if dense:
            result[part] = np.einsum("ij,ij->i", difference, difference)
        else:
            result[part] = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
    return result


def find_neighbors(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean"
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """``nearest_neighbors``, from memory if the same rows were searched within ``remember_work``.

    Examples
    --------
    >>> from onepos._utils.context import remember_work
    >>> rows = np.array([[0.0], [1.0], [3.0]])
    >>> with remember_work():
    ...     first, again = find_neighbors(rows, 1), find_neighbors(rows, 1)
    >>> first[0] is again[0]
    True
    """
    return recall(lambda: nearest_neighbors(X, n_neighbors, metric=metric), "neighbors", X, n_neighbors, metric)


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
