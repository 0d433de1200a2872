"""Dense and sparse matrices: the few operations that several packages share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def to_dense(value: Any) -> NDArray[Any]:
    """Return a dense or sparse matrix as an ndarray."""
    return np.asarray(value.toarray() if sparse.issparse(value) else value)


def csr(*arguments: Any, **options: Any) -> Any:
    """Build a CSR array; arguments as for ``scipy.sparse.csr_array``."""
    return short_indices(sparse.csr_array(*arguments, **options))


def short_indices(matrix: Any) -> Any:
    """Give a CSR matrix indices of 32 bits if they fit: scikit-learn's trees take no others."""
    if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix
