"""SMILE's inference model w₁: a graph network on the batch's neighbourhood.

Over the whole graph the network is ``Â · ReLU(ÂX W₁) · W₂``. A row of Â names a row and its k neighbours, so a batch
needs (ÂX) only at these k + 1 rows each, not a pass over all n rows. If ÂX is mostly zeros, its product with W₁ is
sparse.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from onepos.training.networks import linear
from onepos.training.objective import gather

#: Up to this share of stored entries, the sparse product is the faster one.
SPARSE_BELOW = 0.2
#: Share of a row itself in Â; its neighbours have the rest together.
SELF_WEIGHT = 0.5
#: Width of the hidden layer.
_HIDDEN = 128


class GraphEncoder(nn.Module):
    """Rows → (log α, log β) of the Beta posterior over their soft labels, both within ± ``log_bound``.

    Parameters
    ----------
    aggregated : Tensor, CSR array or DiskRows of shape (n_samples, n_features)
        ÂX, computed once.
    neighbors : int64 array of shape (n_samples, k)
    """

    log_bound = 6.0

    def __init__(
        self, aggregated: Any, neighbors: NDArray[np.int64], n_labels: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.aggregated, self.neighbors = sparse_if_it_pays(aggregated), neighbors
        self._last: tuple[Tensor, Any, Tensor] | None = None
        first = linear(aggregated.shape[1], _HIDDEN, generator)
        self.first_weight = nn.Parameter(first.weight.detach().T.contiguous())  # as the sparse product needs it
        self.first_bias = first.bias
        self.second = linear(_HIDDEN, 2 * n_labels, generator)

    def forward(self, rows: Tensor) -> Tensor:
        """Return log α and log β of the given rows beside each other, shape (batch, 2 · n_labels)."""
        inputs, places = self._inputs(rows)
        if isinstance(inputs, Tensor):
            hidden = torch.addmm(self.first_bias, inputs, self.first_weight)
        else:
            hidden = sparse_product(inputs, self.first_weight) + self.first_bias
        shares = torch.full(places.shape, (1.0 - SELF_WEIGHT) / (places.shape[1] - 1)).to(hidden)
        shares[:, 0] = SELF_WEIGHT
        around = functional.embedding_bag(places, torch.relu(hidden), per_sample_weights=shares, mode="sum")
        log_parameters: Tensor = self.second(around)
        return log_parameters.clamp(-self.log_bound, self.log_bound)

    def linked(self, rows: Tensor) -> Tensor:
        """Return A among the given rows, all different: a_ij = 1 if row i is among the neighbours of row j (Eq. 7)."""
        places = rows.cpu().numpy()
        listed = self.neighbors[places]  # (batch, k)
        order = np.argsort(places)
        position = order[np.searchsorted(places, listed, sorter=order).clip(max=len(places) - 1)]
        owner, nth = np.nonzero(places[position] == listed)
        linked = np.zeros((len(places), len(places)), dtype=np.float32)
        linked[position[owner, nth], owner] = 1.0
        return torch.from_numpy(linked)

    def _inputs(self, rows: Tensor) -> tuple[Any, Tensor]:
        """(ÂX) of the rows and their neighbours, once each, dense or CSR; places in it, (batch, k+1), own row first."""
        # A step asks several times for the same batch: for the loss, and with new weights for the soft labels.
        if self._last is None or self._last[0] is not rows:
            own = rows.cpu().numpy()
            needed, places = np.unique(np.column_stack([own, self.neighbors[own]]), return_inverse=True)
            if sparse.issparse(self.aggregated) and rows.device.type == "cpu":
                inputs = self.aggregated[needed]
            else:
                inputs = gather(self.aggregated, torch.from_numpy(needed).to(rows.device))
            self._last = rows, inputs, torch.from_numpy(places.reshape(len(own), -1)).to(rows.device)
        return self._last[1:]


def sparse_if_it_pays(aggregated: Any) -> Any:
    """Return a CSR array for a matrix that is mostly zeros, else what was given."""
    if not isinstance(aggregated, Tensor) or aggregated.device.type != "cpu":
        return aggregated
    stored = int(torch.count_nonzero(aggregated))
    return aggregated if stored > SPARSE_BELOW * aggregated.numel() else sparse.csr_array(aggregated.numpy())


def sparse_product(matrix: Any, dense: Tensor) -> Tensor:
    """Return the product of a CSR matrix and a dense matrix, differentiable in the dense one.

    Examples
    --------
    >>> sparse_product(sparse.csr_array(np.array([[0.0, 2.0], [1.0, 0.0]])), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[6., 8.],
            [1., 2.]])
    """
    product: Tensor = _SparseProduct.apply(dense, matrix)  # type: ignore[no-untyped-call]
    return product


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Any) -> Tensor:
        ctx.matrix = matrix
        return _weighted_sums(matrix, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _weighted_sums(ctx.matrix.T.tocsr(), gradients[0].contiguous()), None


def _weighted_sums(matrix: Any, dense: Tensor) -> Tensor:
    """Sum rows of a dense matrix, weighted by the entries of a CSR matrix: several times as fast as SciPy's product."""
    columns, offsets = torch.from_numpy(matrix.indices), torch.from_numpy(matrix.indptr)
    values = torch.from_numpy(matrix.data).to(dense)
    return functional.embedding_bag(
        columns, dense, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
    )
