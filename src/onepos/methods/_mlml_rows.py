"""MLML's training rows as it compares them: which distance, directions for cosine, and their graph."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize

from onepos.graph import Metric
from onepos.methods._mlml_graph import instance_weights, laplacian

#: From this many features on "auto" compares directions: the length is then one of many dimensions.
_COSINE_FEATURES = 10


class RowGraph(NamedTuple):
    """What the graph was asked for (scaled rows and settings), and what came out.

    Rows as compared, L_X, σ, the neighbours in the graph and the metric.
    """

    source: Any
    settings: tuple[int, int, str]
    features: Any
    laplacian: Any
    scales: NDArray[np.float64]
    n_neighbors: int
    metric: Metric


def build_row_graph(features: Any, settings: tuple[int, int, str]) -> RowGraph:
    """Build the graph of scaled rows for (n_neighbors, scale_neighbor, metric); the metric may be "auto"."""
    n_neighbors, scale_neighbor, metric = settings
    n_neighbors = min(n_neighbors, features.shape[0] - 1)
    chosen = _choose_metric(features, metric)
    placed = on_sphere(features, chosen)
    weights, scales = instance_weights(placed, n_neighbors, scale_neighbor, chosen)
    return RowGraph(features, settings, placed, laplacian(weights), scales, n_neighbors, chosen)


def _choose_metric(features: Any, metric: str) -> Metric:
    """Decide "auto": cosine for 10 or more features, else Euclidean; how they are stored does not matter."""
    if metric == "auto":
        return "cosine" if features.shape[1] >= _COSINE_FEATURES else "euclidean"
    return "cosine" if metric == "cosine" else "euclidean"


def on_sphere(features: Any, metric: Metric) -> Any:
    """Rows of length one for cosine, rows as they are otherwise.

    A row of zeros has no direction. It gets one of its own, in a column more: distance 1 to all other rows, 0 to its
    like, in the graph and for new rows.
    """
    if metric == "euclidean":
        return features
    unit = normalize(features)
    if sparse.issparse(unit):
        empty = np.asarray(unit.multiply(unit).sum(axis=1)).ravel() == 0
        return sparse.csr_array(sparse.hstack([unit, sparse.csr_array(empty[:, None].astype(unit.dtype))]))
    return np.column_stack([unit, ~unit.any(axis=1)]).astype(unit.dtype)
