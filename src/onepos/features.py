"""Feature matrices as training sees them: one contiguous tensor where it fits, CSR where it does not."""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

#: CSR features are expanded once if the dense float32 matrix stays below this; otherwise batch by batch.
DENSE_LIMIT_BYTES = 1 << 30


def as_features(X: Any) -> Any:
    """Return a dense float32 tensor, or the CSR array itself if the dense one would be too large."""
    if isinstance(X, Tensor):
        return X
    if sparse.issparse(X):
        if 4 * X.shape[0] * X.shape[1] > DENSE_LIMIT_BYTES:
            return sparse.csr_array(X)
        X = X.toarray()
    return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))


def gather(features: Any, rows: Tensor) -> Tensor:
    """Rows of a dense tensor or of a CSR array, as a dense tensor on the device of ``rows``."""
    if isinstance(features, Tensor):
        return features[rows]
    return torch.from_numpy(features[rows.cpu().numpy()].toarray()).to(rows.device)
