"""Dense or sparse: the few operations that every reader and generator needs for both.

SciPy's types cannot express "whatever the user handed in", so they end here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def is_sparse(value: Any) -> bool:
    """Whether the value is a SciPy sparse matrix or array."""
    return bool(sparse.issparse(value))


def to_dense(value: Any) -> NDArray[Any]:
    """Return an ndarray, whatever came."""
    return np.asarray(value.toarray() if is_sparse(value) else value)


def csr(*arguments: Any, **options: Any) -> Any:
    """Build a CSR array; arguments as for ``scipy.sparse.csr_array``."""
    constructor: Any = sparse.csr_array
    return constructor(*arguments, **options)


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
