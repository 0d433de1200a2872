"""Dense or sparse: the few operations that every reader and generator needs for both.

SciPy's types cannot express "whatever the user handed in", so they end here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

#: Columns that a sparse matrix from a file may have whatever its size, and from there on for each value in it.
_WIDE, _WIDE_FOR_EACH = 1 << 20, 1000


def plausible_width(n_values: int) -> int:
    """Return how many columns a sparse matrix from a file may have: a few bytes can announce billions of empty ones."""
    return max(_WIDE, _WIDE_FOR_EACH * n_values)


def is_sparse(value: Any) -> bool:
    """Whether the value is a SciPy sparse matrix or array."""
    return bool(sparse.issparse(value))


def to_dense(value: Any) -> NDArray[Any]:
    """Return an ndarray, whatever came."""
    return np.asarray(value.toarray() if is_sparse(value) else value)


def csr(*arguments: Any, **options: Any) -> Any:
    """Build a CSR array; arguments as for ``scipy.sparse.csr_array``."""
    constructor: Any = sparse.csr_array
    return short_indices(constructor(*arguments, **options))


def short_indices(matrix: Any) -> Any:
    """Give a CSR matrix indices of 32 bits if they fit: scikit-learn's trees take no others.

    Examples
    --------
    >>> made = sparse.csr_array(([1.0], np.array([2], dtype=np.int64), np.array([0, 1], dtype=np.int64)), shape=(1, 3))
    >>> made.indices.dtype, short_indices(made).indices.dtype
    (dtype('int64'), dtype('int32'))
    """
    if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


def checked_csr(data: Any, indices: Any, starts: Any, shape: tuple[int, int]) -> Any:
    """Build a CSR array from parts that come from a file; ValueError unless they are one.

    SciPy's compiled code trusts these arrays, and its own ``check_format`` touches them before it has
    looked at all of them: on a damaged file that overwrites memory. So they are checked here, first.

    Parameters
    ----------
    data, indices : array of shape (nnz,)
    starts : array of shape (n_rows + 1,)
        Where each row starts in the other two.
    shape : pair of int
    """
    data, indices, starts = (np.array(part) for part in (data, indices, starts))  # own, aligned memory
    if not data.ndim == indices.ndim == starts.ndim == 1 or len(data) != len(indices):
        raise ValueError("values and indices differ in length")
    if data.dtype.kind not in "biuf" or indices.dtype.kind not in "iu" or starts.dtype.kind not in "iu":
        raise ValueError("values must be numbers, indices and starts whole numbers")
    indices, starts = indices.astype(np.int64), starts.astype(np.int64)
    if len(starts) != shape[0] + 1 or starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise ValueError("the starts of the rows do not fit the shape or the number of values")
    if not 0 <= shape[1] <= plausible_width(len(data)):
        raise ValueError(f"{shape[1]} columns are not plausible for {len(data)} values")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise ValueError("an index is outside the shape")
    return csr((data.astype(data.dtype.newbyteorder("=")), indices, starts), shape=shape)


def stack_rows(blocks: Sequence[Any]) -> Any:
    """Put matrices below each other: CSR if the first is sparse, else an ndarray."""
    if not is_sparse(blocks[0]):
        return np.concatenate([to_dense(block) for block in blocks])
    stack: Any = sparse.vstack
    return csr(stack(list(blocks), format="csr"))


def stack_columns(blocks: Sequence[Any]) -> Any:
    """Put matrices side by side: CSR if the first is sparse, else an ndarray."""
    if not is_sparse(blocks[0]):
        return np.hstack(list(blocks))
    stack: Any = sparse.hstack
    return csr(stack(list(blocks), format="csr"))
