"""MLML's rule for rows that were not in the graph: a kernel-weighted mean of the nearest training rows' soft labels."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from onepos.graph import Metric
from onepos.methods._mlml_graph import kernel_exponents, local_scales, strangers
from onepos.methods._stored_features import nearest_rows, squared_lengths

#: Rough limit of temporary memory for the search.
_CHUNK_BYTES = 1 << 27


class Reference(NamedTuple):
    """What a query is compared with: training rows (of unit length for cosine), σ_i, ‖x_i‖², and Z."""

    features: Any
    scales: NDArray[np.float64]
    lengths: NDArray[np.float64]
    soft: NDArray[np.float32]


def kernel_average(
    queries: Any, reference: Reference, n_neighbors: int, scale_neighbor: int, metric: Metric
) -> NDArray[np.float64]:
    """z(x) = Σ_i v_i Z_i / Σ_i v_i over the k training rows nearest to x, v_i = exp(−d²(x, x_i)/(σ_x σ_i)).

    σ_x is the distance from x to its ``scale_neighbor``-th nearest training row. The weights are a softmax of
    −d²/(σ_x σ_i), so they never vanish all together. A row that has nothing in common with any training row gets the
    mean of all soft labels.
    """
    n = reference.features.shape[0]
    k = min(n_neighbors, n)
    result = np.empty((queries.shape[0], reference.soft.shape[1]))
    step = max(1, _CHUNK_BYTES // (n * 40))
    for start in range(0, queries.shape[0], step):
        part = slice(start, start + step)
        indices, squared = nearest_rows(queries[part], reference.features, reference.lengths, k)
        # For unit rows 1 − cos = ‖a − b‖²/2.
        distances = squared / 2 if metric == "cosine" else np.sqrt(squared)
        scales = local_scales(distances, scale_neighbor)
        exponents = kernel_exponents(distances, scales[:, None] * reference.scales[indices], metric)
        weights = softmax(-exponents, axis=1)
        for i, (neighbors, row) in enumerate(zip(indices, weights, strict=True), start=start):
            result[i] = row @ reference.soft[neighbors]
        alone = strangers(distances[:, 0], metric)
        if alone.any():
            result[part][alone] = reference.soft.mean(axis=0, dtype=np.float64)
    return result


def make_reference(features: Any, scales: NDArray[np.float64], soft: NDArray[np.float64]) -> Reference:
    """Bundle training rows for ``kernel_average``; soft labels are kept in float32."""
    return Reference(features, scales, squared_lengths(features), soft.astype(np.float32))
