"""Feature matrices as training sees them: one contiguous tensor where it fits, else CSR or rows on disk."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from onepos.disk import DiskRows

#: CSR features are expanded once if the dense float32 matrix stays below this; otherwise batch by batch.
DENSE_LIMIT_BYTES = 1 << 30


def as_features(X: Any) -> Any:
    """Return a dense float32 tensor; CSR whose dense form would be too large, and rows on disk, as they are."""
    if isinstance(X, Tensor | DiskRows):
        return X
    if sparse.issparse(X):
        if 4 * X.shape[0] * X.shape[1] > DENSE_LIMIT_BYTES:
            return sparse.csr_array(X)
        X = X.toarray()
    return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))


def gather(features: Any, rows: Tensor) -> Tensor:
    """Rows of a dense tensor, of a CSR array or of those on disk, as a dense tensor on the device of ``rows``."""
    if isinstance(features, Tensor):
        return features[rows]
    if isinstance(features, DiskRows):
        return torch.from_numpy(features[rows.cpu().numpy()]).to(rows.device)
    return torch.from_numpy(features[rows.cpu().numpy()].toarray()).to(rows.device)


def take(X: Any, rows: NDArray[np.integer[Any]]) -> Any:
    """Part of the rows of an array or CSR matrix; those on disk stay there.

    Examples
    --------
    >>> take(np.eye(3), np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """
    return X.take(rows) if isinstance(X, DiskRows) else X[rows]
