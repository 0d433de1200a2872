"""What a graph over the training rows is made from: their features, or a matrix given for it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array
from torch import Tensor

from onepos.rows.scaling import fit_scaler
from onepos.rows.stored import DiskRows, check_finite, on_disk
from onepos.rows.tensors import as_features, gather, take
from onepos.training import Batch

#: Share of stored entries below which a sparse product is the faster one.
SPARSE_BELOW = 0.1


@dataclass(frozen=True)
class GraphFeatures:
    """Scaled features of all rows.

    Attributes
    ----------
    features : Tensor, CSR array or DiskRows of shape (n_samples, q)
    apart : bool
        True if they were given for the graph; else they are the network's own input.
    """

    features: Any
    apart: bool

    @property
    def matrix(self) -> Any:
        """The features outside torch: array, CSR array or rows on disk.

        What was expanded for the network and is mostly zeros is a CSR array again, among which neighbours are found
        several times as fast.
        """
        if not isinstance(self.features, Tensor):
            return self.features
        values = self.features.cpu().numpy()
        return sparse.csr_array(values) if np.count_nonzero(values) < SPARSE_BELOW * values.size else values

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with these features, (batch, q), in place of the network's input."""
        return replace(batch, features=gather(self.features, batch.rows)) if self.apart else batch


def check_graph_features(
    given: Any, n_samples: int, scale: str, seen: NDArray[np.intp] | None, method: str, *, used: bool
) -> Any:
    """Return ``given`` as features scaled like X; None if there are none.

    Parameters
    ----------
    given : array, CSR matrix, DataFrame or memory-mapped array of shape (n_samples, q), or None
    scale : str
        The estimator's ``scale``.
    seen : int array, or None for all
        The rows that the scaling is learnt from.
    method : str
        The estimator's name, for the message.
    used : bool
        Whether the estimator has a graph.
    """
    if given is None:
        return None
    if not used:
        raise ValueError(
            f"{method} has no graph to make from graph_features. Leave them out, or take a method that has one: smile, "
            "smile-code; role and epr with n_positives='estimate'."
        )
    if on_disk(given):
        matrix: Any = DiskRows(given)
        check_finite(matrix)
    else:
        matrix = check_array(given, accept_sparse="csr", dtype=(np.float64, np.float32), input_name="graph_features")
    if matrix.shape[0] != n_samples:
        raise ValueError(f"graph_features must have a row for each of the {n_samples} rows; got {matrix.shape[0]}.")
    scaler = fit_scaler(matrix if seen is None else take(matrix, seen), scale)
    return as_features(scaler.transform(matrix))
