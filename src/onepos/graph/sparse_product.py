"""Products of a few rows of a sparse matrix with a dense one, differentiable in the dense one.

Made for batches: the product is an embedding lookup, and its gradient the same lookup with the transpose.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

#: Up to this share of stored entries, the sparse product is the faster one.
SPARSE_BELOW = 0.2


@dataclass(frozen=True)
class SparseBatch:
    """Rows of a sparse matrix: entries ``offsets[i]:offsets[i+1]`` of ``columns`` and ``values`` are row i.

    ``offsets`` and ``columns`` are of one integer type, 32 or 64 bits. ``transposed`` is the transpose.
    """

    offsets: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[Any]
    transposed: "SparseBatch | None" = field(default=None, repr=False)

    def times(self, dense: Tensor) -> Tensor:
        """Return the product with ``dense`` (n_columns, m)."""
        columns, offsets = (torch.from_numpy(part).to(dense.device) for part in (self.columns, self.offsets))
        values = torch.from_numpy(self.values).to(dense)
        # 0: the sum. Arguments by position are fastest.
        return torch.embedding_bag(dense, columns, offsets, False, 0, False, values, True)[0]


class SparseRows:
    """A CSR matrix of which batches of rows are taken.

    Examples
    --------
    >>> matrix = SparseRows(sparse.csr_array(np.eye(3, dtype=np.float32)))
    >>> sparse_product(matrix.take(np.array([2, 0])), torch.arange(6.0).reshape(3, 2)).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, matrix: Any) -> None:
        matrix = sparse.csr_array(matrix)
        place = np.int32 if matrix.nnz < 2**31 else np.int64
        parts = (matrix.data, matrix.indices.astype(place), matrix.indptr.astype(place))
        self.matrix = sparse.csr_array(parts, shape=matrix.shape)
        self.shape: tuple[int, int] = matrix.shape

    def take(self, rows: NDArray[np.int64]) -> SparseBatch:
        """Return the given rows, in the given order."""
        taken = self.matrix[rows]
        turned = taken.tocsc()
        transposed = SparseBatch(turned.indptr, turned.indices, turned.data)
        return SparseBatch(taken.indptr, taken.indices, taken.data, transposed)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, batch: SparseBatch) -> Tensor:
        ctx.transposed = batch.transposed
        return batch.times(dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.transposed.times(gradients[0].contiguous()), None


def sparse_product(batch: SparseBatch, dense: Tensor) -> Tensor:
    """Return batch · dense, of shape (rows of the batch, columns of ``dense``)."""
    product: Tensor = _Product.apply(dense, batch)  # type: ignore[no-untyped-call]
    return product
