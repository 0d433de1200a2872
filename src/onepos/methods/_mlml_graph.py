"""MLML's two graphs: rows that lie near each other, and labels whose columns are alike."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.graph import Metric
from onepos.memory import find_neighbors

#: Stands for an infinite exponent; finite, so that a softmax of nothing else is uniform and not NaN.
_FAR = 1e300

#: Cosine distance from which two rows have nothing in common, up to the rounding of unit rows in float32. Without this
#: a row of its own kind would be joined to whatever rows come first: it is equally far from all.
_ORTHOGONAL = 1.0 - 1e-6


def kernel_exponents(
    distances: NDArray[np.float64], scales: NDArray[np.float64], metric: Metric
) -> NDArray[np.float64]:
    """d²/(σ_i σ_j), finite: 0 for equal rows even where σ is 0, and a very large number for others there.

    The same large number, so no weight at all, for rows at cosine distance 1 or more.
    """
    squared = distances**2
    ratio = np.divide(squared, scales, out=np.full_like(squared, _FAR), where=scales > 0)
    ratio[strangers(distances, metric)] = _FAR
    return np.where(squared == 0, 0.0, np.minimum(ratio, _FAR))


def strangers(distances: NDArray[np.float64], metric: Metric) -> NDArray[np.bool_]:
    """Pairs of rows that have nothing in common: orthogonal or more under cosine, none under the Euclidean metric."""
    return distances >= (_ORTHOGONAL if metric == "cosine" else np.inf)


def local_scales(distances: NDArray[np.float64], scale_neighbor: int) -> NDArray[np.float64]:
    """σ_i, the distance to the ``scale_neighbor``-th nearest row (the last one if there are fewer)."""
    return distances[:, min(scale_neighbor, distances.shape[1]) - 1]


def instance_weights(
    features: Any, n_neighbors: int, scale_neighbor: int, metric: Metric
) -> tuple[Any, NDArray[np.float64]]:
    """V_X and σ: exp(−d²(x_i, x_j)/(σ_i σ_j)) where either row is among the k nearest of the other, else 0.

    Rows at cosine distance 1 or more have no edge.

    Returns
    -------
    weights : CSR of shape (n, n), symmetric, zero diagonal
    scales : array of shape (n,)
    """
    indices, distances = find_neighbors(features, n_neighbors, metric=metric)
    n = len(indices)
    scales = local_scales(distances, scale_neighbor)
    exponents = kernel_exponents(distances, scales[:, None] * scales[indices], metric)
    listed = sparse.csr_array(
        (np.exp(-exponents).ravel(), indices.ravel(), np.arange(n + 1) * n_neighbors), shape=(n, n)
    )
    # The weight of a pair does not depend on who lists whom, up to rounding: the maximum is the union of edges.
    return sparse.csr_array(listed.maximum(listed.T)), scales


def label_weights(columns: NDArray[np.float64], sharpness: float) -> NDArray[np.float64]:
    """V_C: exp(−η(1 − cos(Z_·i, Z_·j))) between columns, zero diagonal; a column of zeros has cosine 0 with all.

    Parameters
    ----------
    columns : array of shape (n_samples, n_labels)
    sharpness : float
        η.
    """
    products = columns.T @ columns
    lengths = np.sqrt(np.diagonal(products))
    scale = np.where(lengths > 0, lengths, 1.0)
    weights = np.exp(-sharpness * (1.0 - products / (scale[:, None] * scale[None, :])))
    np.fill_diagonal(weights, 0.0)
    return np.asarray((weights + weights.T) / 2)


def laplacian(weights: Any) -> Any:
    """L = I − D^{-1/2} V D^{-1/2}, sparse for sparse; a vertex without edges has a row of zeros.

    Eigenvalues lie in [0, 2]. D^{1/2}1 is in the null space.
    """
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    joined = degrees > 0
    root = np.where(joined, 1.0 / np.sqrt(np.where(joined, degrees, 1.0)), 0.0)
    if sparse.issparse(weights):
        side = sparse.diags_array(root)
        return sparse.csr_array(sparse.diags_array(joined.astype(np.float64)) - side @ weights @ side)
    return np.diag(joined.astype(np.float64)) - root[:, None] * weights * root[None, :]
