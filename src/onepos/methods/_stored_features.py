"""Training rows kept by a fitted model: exact query search, chunked, and the way into a model file."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.validation import MatrixLike


def pack(name: str, features: MatrixLike) -> dict[str, NDArray[Any]]:
    """Dense or CSR features as named arrays for ``_state``."""
    if not sparse.issparse(features):
        return {name: np.asarray(features)}
    return {
        f"{name}.data": np.asarray(features.data),
        f"{name}.indices": np.asarray(features.indices),
        f"{name}.indptr": np.asarray(features.indptr),
        f"{name}.shape": np.asarray(features.shape, dtype=np.int64),
    }


def unpack(name: str, arrays: dict[str, NDArray[Any]]) -> MatrixLike:
    """Take back what ``pack`` gave."""
    if name in arrays:
        return arrays[name]
    parts = (arrays[f"{name}.data"], arrays[f"{name}.indices"], arrays[f"{name}.indptr"])
    n_rows, n_columns = (int(v) for v in arrays[f"{name}.shape"])
    return sparse.csr_array(parts, shape=(n_rows, n_columns))


def squared_lengths(features: MatrixLike) -> NDArray[np.float64]:
    """‖x_i‖² in float64, shape (n,)."""
    if sparse.issparse(features):
        wide = features.astype(np.float64)
        return np.asarray(wide.multiply(wide).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", features, features, dtype=np.float64))


def products(left: MatrixLike, right: MatrixLike) -> NDArray[np.float64]:
    """All dot products of two sets of rows, shape (n_left, n_right), dense float64."""
    if sparse.issparse(left) and not sparse.issparse(right):
        return np.asarray(left.astype(np.float64) @ right.T.astype(np.float64))
    if sparse.issparse(right) and not sparse.issparse(left):
        return np.asarray((right.astype(np.float64) @ left.T.astype(np.float64)).T)
    product = left.astype(np.float64) @ right.T.astype(np.float64)
    return np.asarray(product.toarray() if sparse.issparse(product) else product)


def nearest_rows(
    queries: MatrixLike, features: MatrixLike, lengths: NDArray[np.float64], n_neighbors: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Find the k rows of ``features`` nearest to each query, exactly; squared distances, nearest first.

    One product gives all distances up to rounding; whatever could be among the k nearest within the bound on that
    rounding is measured again from direct differences, so the answer for a row does not depend on its batch. Ties go to
    the lower index. Memory: a few arrays of (n_queries, n_features_rows); the caller chunks.
    """
    own = squared_lengths(queries)
    near = products(queries, features)
    near *= -2.0
    near += lengths
    kth = np.partition(near, n_neighbors - 1, axis=1)[:, n_neighbors - 1]
    slack = 4.0 * (features.shape[1] + 16) * np.finfo(np.float64).eps * (own + lengths.max(initial=0.0)) + 1e-30
    rows, columns = np.nonzero(near <= (kth + slack)[:, None])
    exact = _direct(queries, features, rows, columns)
    order = np.lexsort((columns, exact, rows))
    sizes = np.bincount(rows, minlength=len(kth))
    first = (np.cumsum(sizes) - sizes)[:, None] + np.arange(n_neighbors)
    return columns[order][first], exact[order][first]


def _direct(
    queries: MatrixLike, features: MatrixLike, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.float64]:
    """‖a_i − b_j‖² for pairs, from differences in float64, a few thousand pairs at a time."""
    result = np.empty(len(rows))
    step = max(1, (1 << 21) // max(1, features.shape[1])) if not sparse.issparse(features) else 1 << 14
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        result[part] = squared_lengths(queries[rows[part]].astype(np.float64) - features[columns[part]])
    return result
