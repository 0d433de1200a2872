"""Products of a few rows of a sparse matrix with a dense one, differentiable in the dense one.

Made for batches: rows are cut out of a CSR matrix by whole arrays or by a kernel, the product is an embedding lookup,
and its gradient the same with the transpose. At five stored entries in a hundred this takes a fifth of the dense
products' time. Without kernels, rows of several batches are cut out, and transposed, in one go: what that costs for 16
rows is mostly the calls.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from onepos import kernels

#: Up to this share of stored entries, the sparse product is the faster one.
SPARSE_BELOW = 0.2


@dataclass(frozen=True)
class SparseBatch:
    """Rows of a sparse matrix: entries ``offsets[i]:offsets[i+1]`` of ``columns`` and ``values`` are row i.

    Places are of one integer type, 32 or 64 bits.
    """

    offsets: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[Any]
    n_columns: int
    turned: "SparseBatch | None" = field(default=None, repr=False)  # the transpose, if somebody has it

    @cached_property
    def transposed(self) -> "SparseBatch":
        """The transpose, made once."""
        if self.turned is not None:
            return self.turned
        n_rows = len(self.offsets) - 1
        # Put in one by one: they come from a matrix that was checked, and checking them again would take longer than
        # the product.
        matrix = sparse.csr_array((n_rows, self.n_columns), dtype=self.values.dtype)
        matrix.data, matrix.indices, matrix.indptr = self.values, self.columns, self.offsets
        turned = matrix.tocsc()
        return SparseBatch(turned.indptr, turned.indices, turned.data, n_rows)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return torch.from_numpy(self.columns), torch.from_numpy(self.offsets), torch.from_numpy(self.values)

    def times(self, dense: Tensor) -> Tensor:
        """Return the product with ``dense`` (n_columns, m)."""
        columns, offsets, values = self._tensors
        if dense.device.type != "cpu" or values.dtype != dense.dtype:
            columns, offsets, values = columns.to(dense.device), offsets.to(dense.device), values.to(dense)
        # 0: the sum. Given by position, which is how torch takes them fastest.
        return torch.embedding_bag(dense, columns, offsets, False, 0, False, values, True)[0]

    def split(self, firsts: NDArray[np.int64]) -> "list[SparseBatch]":
        """Cut into batches of consecutive rows, ``firsts[i]`` to ``firsts[i+1]``, each with its transpose."""
        ends = self.offsets[firsts].tolist()
        # The same column counts as another one in another batch: all transposes are then parts of one.
        lengths = np.diff(self.offsets[firsts])
        shift = np.repeat(np.arange(len(lengths), dtype=self.columns.dtype) * self.n_columns, lengths)
        whole = SparseBatch(self.offsets, self.columns + shift, self.values, self.n_columns * len(lengths)).transposed
        batches = []
        for number, (first, last) in enumerate(pairwise(firsts.tolist())):
            start, end = ends[number], ends[number + 1]
            corner = number * self.n_columns
            turned = SparseBatch(
                whole.offsets[corner : corner + self.n_columns + 1] - start,
                whole.columns[start:end] - first,
                whole.values[start:end],
                last - first,
            )
            own = self.offsets[first : last + 1] - start
            batches.append(SparseBatch(own, self.columns[start:end], self.values[start:end], self.n_columns, turned))
        return batches


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
        place = np.int32 if matrix.nnz < 2**31 else np.int64
        self.starts = matrix.indptr.astype(place)
        self.columns = matrix.indices.astype(place)
        self.values = matrix.data
        self._stored = torch.from_numpy(self.columns), torch.from_numpy(self.values)

    def take(self, rows: NDArray[np.int64]) -> SparseBatch:
        """Return the given rows, in the given order."""
        if kernels.available():
            from onepos.kernels.graph import take_rows

            found = take_rows(self.starts, self.columns, self.values, rows, self.shape[1])
            turned = SparseBatch(found[3], found[4], found[5], len(rows))
            return SparseBatch(found[0], found[1], found[2], self.shape[1], turned)
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        offsets = np.zeros(len(rows) + 1, dtype=self.starts.dtype)
        np.cumsum(lengths, out=offsets[1:])
        entries = np.repeat(starts - offsets[:-1], lengths)
        entries += np.arange(len(entries), dtype=entries.dtype)
        places = torch.from_numpy(entries)  # torch: NumPy would turn the places into 64-bit ones first
        columns, values = (stored.index_select(0, places).numpy() for stored in self._stored)
        return SparseBatch(offsets, columns, values, self.shape[1])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, batch: SparseBatch) -> Tensor:
        ctx.batch = batch
        return batch.times(dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.batch.transposed.times(gradients[0].contiguous()), None


def sparse_product(batch: SparseBatch, dense: Tensor) -> Tensor:
    """Return batch · dense, of shape (rows of the batch, columns of ``dense``)."""
    if dense.device.type != "cpu":  # no way round over the host for the gradient
        return batch.times(dense)
    product: Tensor = _Product.apply(dense, batch)  # type: ignore[no-untyped-call]
    return product
