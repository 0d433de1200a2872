"""The inference model w₁ of SMILE: a two-layer graph network, computed on the batch's neighbourhood only.

Over the whole graph the encoder is ``Â · ReLU(Â X W₁) · W₂`` with Â = s·I + (1−s)·N, N the row-normalised neighbour
matrix and s the weight of the self-loop. Every node has k neighbours, so a batch of B rows only needs (ÂX) of these
rows and their neighbours, not a pass over all n nodes. A row that is a neighbour of several rows of the batch is read
once. If ÂX is mostly zeros, its product with W₁ is sparse.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from onepos.graph.neighborhoods import Neighborhood
from onepos.graph.sparse_product import SPARSE_BELOW, SparseBatch, SparseRows, sparse_product
from onepos.rows.tensors import gather
from onepos.training.networks import linear

#: Whether kernels compute the encoder in single precision on the CPU; False: torch always does.
USE_KERNEL = True


class _Read(NamedTuple):
    """What the encoder reads for a batch: (ÂX) of the rows needed, where they are, and what each counts in Â."""

    inputs: Tensor | SparseBatch
    around: Neighborhood
    places: Tensor
    shares: Tensor


class _FirstLayer(nn.Module):
    """x → xW₁ for dense or sparse rows; the weight is (inputs, outputs), as the sparse product needs it."""

    def __init__(self, n_inputs: int, n_outputs: int, generator: torch.Generator | None) -> None:
        super().__init__()
        layer = linear(n_inputs, n_outputs, generator)
        self.weight = nn.Parameter(layer.weight.detach().T.contiguous())
        self.bias = layer.bias

    def forward(self, inputs: Tensor | SparseBatch) -> Tensor:
        if isinstance(inputs, SparseBatch):
            return sparse_product(inputs, self.weight)
        return inputs @ self.weight


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
        """Replace the graph by another one over the same rows; the weights stay."""
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
        self._table = neighborhoods.cpu().numpy()
        self._last: tuple[Tensor, _Read] | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """Return log α and log β of the given rows beside each other, shape (batch, 2 · n_labels)."""
        inputs, _, places, shares = self._read(rows)
        product = self.first(inputs)  # (rows needed, h)
        bias, second = self.first.bias, self.second
        if USE_KERNEL and product.dtype == torch.float32 and product.device.type == "cpu":
            known = places.numpy(), shares.numpy(), np.float32(self.log_bound)
            found: Tensor = _Compiled.apply(product, bias, second.weight, second.bias, *known)  # type: ignore[no-untyped-call]
            return found
        hidden = torch.relu(product + bias)
        # The second Â.
        pooled = embedding_bag(places, hidden, mode="sum", per_sample_weights=shares.to(hidden).expand(places.shape))
        log_parameters: Tensor = second(pooled)
        return log_parameters.clamp(-self.log_bound, self.log_bound)

    def linked(self, rows: Tensor) -> Tensor:
        """Return A among the given rows, all different: a_ij = 1 if row i is among the neighbours of row j."""
        return self._read(rows).around.linked

    def _read(self, rows: Tensor) -> _Read:
        # A step asks several times for the same batch: for the loss, and with new weights for the soft labels.
        if self._last is None or self._last[0] is not rows:
            around = Neighborhood(self._table, rows.cpu().numpy())
            inputs: Tensor | SparseBatch
            if isinstance(self.aggregated, SparseRows):
                inputs = self.aggregated.take(around.needed)
            else:
                inputs = gather(self.aggregated, torch.from_numpy(around.needed).to(rows.device))
            k = self._table.shape[1] - 1
            shares = torch.full((1 + k,), (1.0 - self.self_weight) / max(k, 1), dtype=self.second.weight.dtype)
            shares[0] = self.self_weight
            places = torch.from_numpy(around.places).to(rows.device)
            self._last = rows, _Read(inputs, around, places, shares)
        return self._last[1]


class _Compiled(torch.autograd.Function):
    """The encoder behind its first product, by kernels."""

    @staticmethod
    def forward(
        ctx: Any,
        product: Tensor,
        bias: Tensor,
        weight: Tensor,
        second_bias: Tensor,
        places: Any,
        shares: Any,
        bound: Any,
    ) -> Tensor:
        from onepos.methods.smile._kernels import encoder_forwards

        hidden, second = product.numpy().copy(), weight.numpy()
        pooled, output = encoder_forwards(hidden, bias.numpy(), places, shares, second, second_bias.numpy(), bound)
        ctx.known = output, bound, second, pooled, hidden, places, shares
        return torch.from_numpy(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        from onepos.methods.smile._kernels import encoder_backwards

        by_hidden = torch.empty(ctx.known[4].shape)
        others = encoder_backwards(gradients[0].contiguous().numpy(), *ctx.known, by_hidden.numpy())
        return by_hidden, *map(torch.from_numpy, others), None, None, None


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
