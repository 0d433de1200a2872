"""MLML's graph of rows, its problem (I + λ_X L_X) Z = Y, and the mean of near rows that serves a new one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms

from onepos.graph.neighbors import Metric, nearest_neighbors
from onepos_studies.methods._classical import Matrix

#: Columns solved at once: enough for the sparse product to reuse the graph, few enough for the arrays to stay in cache.
_COLUMNS_AT_ONCE = 16
#: The condition is at most 1 + 2λ_X, so even λ_X = 1000 takes fewer steps for any tolerance that float64 can reach.
_MAX_STEPS = 1000
#: Stands for an infinite exponent; finite, so that a softmax of nothing else is uniform and not NaN.
_FAR = 1e300
#: Cosine distance from which two rows have nothing in common, up to the rounding of unit rows in float32. Without this
#: a row of its own kind would be joined to whatever rows come first: it is equally far from all.
_ORTHOGONAL = 1.0 - 1e-6
#: From this many features on "auto" compares directions: the length is then one of many dimensions.
_COSINE_FEATURES = 10
#: Rough limit of temporary memory for the search.
_CHUNK_BYTES = 1 << 27


def objective(soft: Matrix, targets: Matrix, rows: Any, instance: float) -> float:
    """Evaluate ‖Z − Y‖² + λ_X tr(Zᵀ L_X Z)."""
    return float(np.sum((soft - targets) ** 2) + instance * np.vdot(soft, rows @ soft))


def solve(targets: Matrix, rows: Any, instance: float, tolerance: float) -> Matrix:
    """Z by conjugate gradients from zero, every column with its own step lengths."""
    matrix = sparse.csr_array(instance * rows)
    solution = np.empty_like(targets)
    for start in range(0, targets.shape[1], _COLUMNS_AT_ONCE):
        part = slice(start, start + _COLUMNS_AT_ONCE)
        solution[:, part] = _solve_columns(targets[:, part], matrix, tolerance)
    return solution


def _solve_columns(right: Matrix, matrix: Any, tolerance: float) -> Matrix:
    residual = np.array(right, order="C")
    direction = residual.copy()
    solution = np.zeros_like(residual)
    squares = np.einsum("ij,ij->j", residual, residual)
    limit = tolerance**2 * squares
    for _ in range(_MAX_STEPS):
        if np.all(squares <= limit):
            break
        image = matrix @ direction + direction
        curvature = np.einsum("ij,ij->j", direction, image)
        # A column of zeros, or one solved to the last bit, stays where it is.
        step = np.divide(squares, curvature, out=np.zeros_like(squares), where=curvature > 0)
        solution += step * direction
        residual -= step * image
        previous, squares = squares, np.einsum("ij,ij->j", residual, residual)
        direction *= np.divide(squares, previous, out=np.zeros_like(squares), where=previous > 0)
        direction += residual
    return solution


def kernel_exponents(distances: Matrix, scales: Matrix, metric: Metric) -> Matrix:
    """d²/(σ_i σ_j), finite: 0 for equal rows; a very large number for others where σ is 0, and for strangers."""
    squared = distances**2
    ratio = np.divide(squared, scales, out=np.full_like(squared, _FAR), where=scales > 0)
    ratio[strangers(distances, metric)] = _FAR
    return np.where(squared == 0, 0.0, np.minimum(ratio, _FAR))


def strangers(distances: Matrix, metric: Metric) -> NDArray[np.bool_]:
    """Pairs of rows that have nothing in common: orthogonal or more under cosine, none under the Euclidean metric."""
    return distances >= (_ORTHOGONAL if metric == "cosine" else np.inf)


def local_scales(distances: Matrix, scale_neighbor: int) -> Matrix:
    """σ_i, the distance to the ``scale_neighbor``-th nearest row (the last one if there are fewer)."""
    return distances[:, min(scale_neighbor, distances.shape[1]) - 1]


def instance_weights(features: Any, n_neighbors: int, scale_neighbor: int, metric: Metric) -> tuple[Any, Matrix]:
    """V_X, sparse, and σ: exp(−d²(x_i, x_j)/(σ_i σ_j)) where either row is among the k nearest of the other, else 0."""
    indices, distances = nearest_neighbors(features.astype(np.float64), n_neighbors, metric=metric)
    n = len(indices)
    scales = local_scales(distances, scale_neighbor)
    exponents = kernel_exponents(distances, scales[:, None] * scales[indices], metric)
    listed = sparse.csr_array(
        (np.exp(-exponents).ravel(), indices.ravel(), np.arange(n + 1) * n_neighbors), shape=(n, n)
    )
    # The weight of a pair does not depend on who lists whom, up to rounding: the maximum is the union of edges.
    return sparse.csr_array(listed.maximum(listed.T)), scales


def laplacian(weights: Any) -> Any:
    """L = I − D^{-1/2} V D^{-1/2}, sparse; a vertex without edges has a row of zeros."""
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    joined = degrees > 0
    side = sparse.diags_array(np.where(joined, 1.0 / np.sqrt(np.where(joined, degrees, 1.0)), 0.0))
    return sparse.csr_array(sparse.diags_array(joined.astype(np.float64)) - side @ weights @ side)


def chosen_metric(metric: str, n_features: int) -> Metric:
    """Turn "auto" into a metric: directions from ten features on."""
    if metric == "cosine" or (metric == "auto" and n_features >= _COSINE_FEATURES):
        return "cosine"
    return "euclidean"


def on_sphere(features: Any, metric: Metric) -> Any:
    """Rows of length one for cosine, with a column more, 1 in rows of zeros; rows as they are otherwise."""
    if metric == "euclidean":
        return features
    unit = normalize(features)
    if sparse.issparse(unit):
        empty = np.asarray(unit.multiply(unit).sum(axis=1)).ravel() == 0
        return sparse.csr_array(sparse.hstack([unit, sparse.csr_array(empty[:, None].astype(unit.dtype))]))
    return np.column_stack([unit, ~unit.any(axis=1)]).astype(unit.dtype)


def kernel_average(
    queries: Any,
    features: Any,
    scales: Matrix,
    soft: NDArray[Any],
    n_neighbors: int,
    scale_neighbor: int,
    metric: Metric,
) -> Matrix:
    """z(x) = Σ_i v_i Z_i / Σ_i v_i over the k training rows nearest to x, v_i = exp(−d²(x, x_i)/(σ_x σ_i)).

    A row that has nothing in common with any training row gets the mean of all soft labels.
    """
    n = features.shape[0]
    result = np.empty((queries.shape[0], soft.shape[1]))
    step = max(1, _CHUNK_BYTES // (n * 40))
    for start in range(0, queries.shape[0], step):
        part = slice(start, start + step)
        indices, squared = nearest_rows(queries[part], features, min(n_neighbors, n))
        # For unit rows 1 − cos = ‖a − b‖²/2.
        distances = squared / 2 if metric == "cosine" else np.sqrt(squared)
        own = local_scales(distances, scale_neighbor)
        weights = softmax(-kernel_exponents(distances, own[:, None] * scales[indices], metric), axis=1)
        for i, (neighbors, row) in enumerate(zip(indices, weights, strict=True), start=start):
            result[i] = row @ soft[neighbors]
        alone = strangers(distances[:, 0], metric)
        if alone.any():
            result[part][alone] = soft.mean(axis=0, dtype=np.float64)
    return result


def nearest_rows(queries: Any, features: Any, n_neighbors: int) -> tuple[NDArray[np.intp], Matrix]:
    """Return the k rows of ``features`` nearest to each query, and squared distances from direct differences."""
    queries, features = queries.astype(np.float64), features.astype(np.float64)
    search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(features)
    indices = search.kneighbors(queries, return_distance=False)
    difference = queries[np.repeat(np.arange(len(indices)), n_neighbors)] - features[indices.ravel()]
    squared = row_norms(difference, squared=True).reshape(indices.shape)
    order = np.lexsort((indices, squared), axis=1)
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(squared, order, axis=1)
