"""The inference model w₁ of SMILE: a two-layer graph network, computed on the batch's neighbourhood only.

Over the whole graph the encoder is ``Â · ReLU(Â X W₁) · W₂`` with Â = s·I + (1−s)·N, N the row-normalised
neighbour matrix and s the weight of the self-loop. Every node has k neighbours, so for a batch of B rows the same
numbers need only ``(ÂX)[neighbours of the batch]``: two gathers and two small matrix products instead of a pass over
all n nodes. A row that is a neighbour of several rows of the batch is looked up once, and where ÂX is mostly zeros its
product with W₁ is a sparse one.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos.features import gather
from onepos.networks import linear
from onepos.sparse_product import SPARSE_BELOW, SparseBatch, SparseRows, sparse_product

#: Up to so many entries the batch's block of Â is a dense matrix: mostly zeros, but one product is all it takes.
DENSE_POOLING = 20_000


class _Neighborhood(NamedTuple):
    """What the encoder reads for a batch: (ÂX) of the rows needed, and how they are pooled: the batch's rows of Â."""

    inputs: Tensor | SparseBatch
    pooling: Tensor | SparseBatch


class _FirstLayer(nn.Module):
    """x → xW₁ + b for dense or sparse rows; the weight is (inputs, outputs), as a sparse product wants it."""

    def __init__(self, n_inputs: int, n_outputs: int, generator: torch.Generator | None) -> None:
        super().__init__()
        layer = linear(n_inputs, n_outputs, generator)
        self.weight = nn.Parameter(layer.weight.detach().T.contiguous())
        self.bias = layer.bias

    def forward(self, inputs: Tensor | SparseBatch) -> Tensor:
        if isinstance(inputs, SparseBatch):
            return sparse_product(inputs, self.weight) + self.bias
        return torch.addmm(self.bias, inputs, self.weight)


class GraphEncoder(nn.Module):
    """Rows → (log α, log β) of the Beta posterior over their soft labels.

    Parameters
    ----------
    aggregated : Tensor or CSR array of shape (n_samples, n_features)
        ÂX, computed once.
    neighborhoods : int64 Tensor of shape (n_samples, 1 + n_neighbors)
        Row i: i itself, then its nearest neighbours.
    n_hidden, n_labels : int
        Width of the hidden layer; number of labels c.
    self_weight : float
        Share s of a row itself in Â; its neighbours have 1 − s together.
    log_bound : float
        Both outputs are clamped to ± this bound, so that α, β stay within [e⁻ᵇ, eᵇ].
    """

    aggregated: Any
    neighborhoods: Tensor

    def __init__(
        self,
        aggregated: Any,
        neighborhoods: Tensor,
        n_hidden: int,
        n_labels: int,
        *,
        self_weight: float,
        log_bound: float = 6.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.use_graph(aggregated, neighborhoods)
        self.first = _FirstLayer(aggregated.shape[1], n_hidden, generator)
        self.second = linear(n_hidden, 2 * n_labels, generator)
        self.self_weight = self_weight
        self.log_bound = log_bound

    def use_graph(self, aggregated: Any, neighborhoods: Tensor) -> None:
        """Take a graph over the same rows, in place of the one there was; the weights stay."""
        for name in ("aggregated", "neighborhoods"):
            if hasattr(self, name):
                delattr(self, name)
        # Not persistent: the graph belongs to the training set, not to the saved state.
        aggregated = _sparse_if_it_pays(aggregated)
        if isinstance(aggregated, Tensor):
            self.register_buffer("aggregated", aggregated, persistent=False)
        else:
            self.aggregated = aggregated
        self.register_buffer("neighborhoods", neighborhoods, persistent=False)
        self._last: tuple[Tensor, _Neighborhood] | None = None

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log α and log β for the given rows, each of shape (batch, n_labels)."""
        # A step asks twice for the same batch: for the loss, and with new weights for the soft labels.
        if self._last is None or self._last[0] is not rows:
            self._last = (rows, self._look_up(rows))
        inputs, pooling = self._last[1]
        hidden = torch.relu(self.first(inputs))  # (different rows needed, h)
        # (batch, h): the second Â
        pooled = pooling.to(hidden) @ hidden if isinstance(pooling, Tensor) else sparse_product(pooling, hidden)
        log_parameters = self.second(pooled).clamp(-self.log_bound, self.log_bound)
        log_alpha, log_beta = log_parameters.chunk(2, dim=1)
        return log_alpha, log_beta

    def _look_up(self, rows: Tensor) -> _Neighborhood:
        neighborhood = self.neighborhoods[rows].cpu().numpy()  # (batch, 1+k)
        needed, places = np.unique(neighborhood, return_inverse=True)
        pooling = self._pooling(places.reshape(neighborhood.shape), len(needed))
        if isinstance(self.aggregated, SparseRows):
            return _Neighborhood(self.aggregated.take(needed), pooling)
        return _Neighborhood(gather(self.aggregated, torch.from_numpy(needed).to(rows.device)), pooling)

    def _pooling(self, places: NDArray[np.int64], n_needed: int) -> Tensor | SparseBatch:
        """The batch's rows of Â, over the rows needed; ``places`` (batch, 1 + k) says where a row's neighbours are."""
        size, k = len(places), places.shape[1] - 1
        shares = np.full(places.shape, (1.0 - self.self_weight) / k)
        shares[:, 0] = self.self_weight
        if size * n_needed <= DENSE_POOLING:
            pooling = np.zeros((size, n_needed))
            np.put_along_axis(pooling, places, shares, axis=1)
            return torch.from_numpy(pooling)
        offsets = np.arange(size + 1, dtype=np.int64) * (k + 1)
        return SparseBatch(offsets, places.reshape(-1), shares.reshape(-1), n_needed)


def _sparse_if_it_pays(aggregated: Any) -> Any:
    """Return sparse rows for a matrix that is mostly zeros, else what was given."""
    if isinstance(aggregated, Tensor):
        stored = int(torch.count_nonzero(aggregated))
        if aggregated.device.type != "cpu" or stored > SPARSE_BELOW * aggregated.numel():
            return aggregated
        return SparseRows(sparse.csr_array(aggregated.numpy()))
    if sparse.issparse(aggregated):
        return SparseRows(aggregated)
    return aggregated
