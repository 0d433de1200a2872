"""Feature matrices as training sees them: one contiguous tensor where it fits, else CSR, rows on disk or a Dataset."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from onepos.rows.stored import DatasetRows, DiskRows

#: CSR features are expanded once if the dense float32 matrix stays below this; otherwise batch by batch.
DENSE_LIMIT_BYTES = 1 << 30


def as_features(X: Any) -> Any:
    """Return a dense float32 tensor; CSR whose dense form would be too large, and rows read as needed, as they are."""
    if isinstance(X, Tensor | DiskRows | DatasetRows):
        return X
    if sparse.issparse(X):
        if 4 * X.shape[0] * X.shape[1] > DENSE_LIMIT_BYTES:
            return sparse.csr_array(X)
        X = X.toarray()
    values = np.ascontiguousarray(X, dtype=np.float32)
    # A small map is taken for an array, and torch takes none that it could not write to.
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def on_device(features: Any, device: str) -> Any:
    """Move a tensor to a device; what is read as needed stays, and its batches go there."""
    return features.to(device) if isinstance(features, Tensor) else features


def gather(features: Any, rows: Tensor) -> Tensor:
    """Rows of a dense tensor, a CSR array, a file or a Dataset, as a dense tensor on the device of ``rows``."""
    if isinstance(features, Tensor):
        return features.index_select(0, rows)
    if isinstance(features, DiskRows | DatasetRows):
        return torch.from_numpy(features[rows.cpu().numpy()]).to(rows.device)
    return torch.from_numpy(features[rows.cpu().numpy()].toarray()).to(rows.device)


def take(X: Any, rows: NDArray[np.integer[Any]]) -> Any:
    """Part of the rows of an array or CSR matrix; those on disk or in a Dataset stay there.

    Examples
    --------
    >>> take(np.eye(3), np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """
    return X.take(rows) if isinstance(X, DiskRows | DatasetRows) else X[rows]


def release(features: Any) -> None:
    """Free the memory of rows that were read from a file; they are read again when needed."""
    if isinstance(features, DiskRows):
        features.release()


def rows_at_once(features: Any, most: int) -> int:
    """Return the number of rows to process at a time: ``most``, fewer if the items of a Dataset are large."""
    return min(most, features.rows_at_once) if isinstance(features, DatasetRows) else most
