"""Products of a few rows of a sparse matrix with a dense one, differentiable in the dense one.

Made for batches: rows are cut out of a CSR matrix without a loop, the product is an embedding lookup, and its gradient
one product with the transpose. At five stored entries in a hundred this takes a third of the dense products' time.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

#: Up to this share of stored entries, the sparse product is the faster one.
SPARSE_BELOW = 0.2


class SparseBatch(NamedTuple):
    """Rows of a sparse matrix: entries ``offsets[i]:offsets[i+1]`` of ``columns`` and ``values`` are row i."""

    offsets: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[Any]
    n_columns: int


class SparseRows:
    """A CSR matrix kept for cutting out rows.

    Examples
    --------
    >>> matrix = SparseRows(sparse.csr_array(np.eye(3, dtype=np.float32)))
    >>> sparse_product(matrix.take(np.array([2, 0])), torch.arange(6.0).reshape(3, 2)).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, matrix: Any) -> None:
        matrix = sparse.csr_array(matrix)
        self.shape: tuple[int, int] = matrix.shape
        self.starts = matrix.indptr.astype(np.int64)
        self.columns = matrix.indices.astype(np.int64)
        self.values = matrix.data

    def take(self, rows: NDArray[np.int64]) -> SparseBatch:
        """Return the given rows, in the given order."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        entries = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return SparseBatch(offsets, self.columns[entries], self.values[entries], self.shape[1])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, batch: SparseBatch) -> Tensor:
        ctx.batch = batch
        return _look_up(batch, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        batch: SparseBatch = ctx.batch
        outer = np.ascontiguousarray(gradient.numpy())
        # The CSR arrays of a matrix are the CSC arrays of its transpose. Put in one by one: they come from a matrix
        # that was checked, and checking them again would take longer than the product.
        transposed = sparse.csc_array((batch.n_columns, len(batch.offsets) - 1), dtype=outer.dtype)
        transposed.data = batch.values.astype(outer.dtype, copy=False)
        transposed.indices, transposed.indptr = batch.columns, batch.offsets
        return torch.from_numpy(transposed @ outer), None


def sparse_product(batch: SparseBatch, dense: Tensor) -> Tensor:
    """Return batch · dense, of shape (rows of the batch, columns of ``dense``)."""
    if dense.device.type != "cpu":  # no way round over the host for the gradient
        return _look_up(batch, dense)
    product: Tensor = _Product.apply(dense, batch)  # type: ignore[no-untyped-call]
    return product


def _look_up(batch: SparseBatch, dense: Tensor) -> Tensor:
    return torch.nn.functional.embedding_bag(
        torch.from_numpy(batch.columns).to(dense.device),
        dense,
        torch.from_numpy(batch.offsets[:-1]).to(dense.device),
        mode="sum",
        per_sample_weights=torch.from_numpy(batch.values).to(dense),
    )
