"""The inference model w₁ of SMILE: a two-layer graph network, computed on the batch's neighbourhood only.

Over the whole graph the encoder is ``Â · ReLU(Â X W₁) · W₂`` with Â = s·I + (1−s)·N, N the row-normalised
neighbour matrix and s the weight of the self-loop. Every node has k neighbours, so for a batch of B rows the same
numbers need only ``(ÂX)[neighbours of the batch]``: two gathers and two small matrix products instead of a pass over
all n nodes. A row that is a neighbour of several rows of the batch is looked up once, and where ÂX is mostly zeros its
product with W₁ is a sparse one.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from onepos import kernels
from onepos.graph.neighborhoods import CompiledNeighborhood, Neighborhood, look_up
from onepos.graph.sparse_product import SPARSE_BELOW, SparseBatch, SparseRows, sparse_product
from onepos.methods.smile.encoder_pass import CompiledEncoderPass, EncoderPass, ParameterViews, Passed
from onepos.rows.tensors import gather
from onepos.training.networks import linear

#: Entries of (ÂX) that are looked up at once, at most, and batches: from there on it saves nothing more.
LOOKED_AHEAD = 400_000
BATCHES_AHEAD = 64


class _Read(NamedTuple):
    """What the encoder reads for a batch: (ÂX) of the rows needed, and how they are pooled and linked."""

    inputs: Tensor | SparseBatch
    around: Neighborhood


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
        # Listed once: looking modules up in every step takes longer than some products.
        self._layers = self.first.weight, self.first.bias, self.second.weight, self.second.bias
        self._views = ParameterViews(self._layers)

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
        self._table = neighborhoods.cpu().numpy()
        self._seen = np.zeros(len(self._table), dtype=np.int32)  # what a compiled look-up notes, and wipes out
        self._last: tuple[Tensor, _Read] | None = None
        self._coming: Iterator[Tensor] = iter(())
        self._next: Tensor | None = None
        self._ahead: list[tuple[Tensor, _Read]] = []

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log α and log β for the given rows, each of shape (batch, n_labels)."""
        inputs, around = self._read(rows)
        hidden = torch.relu(self.first(inputs))  # (different rows needed, h)
        pooling = around.pooling
        # (batch, h): the second Â
        pooled = pooling.to(hidden) @ hidden if isinstance(pooling, Tensor) else sparse_product(pooling, hidden)
        log_parameters = self.second(pooled).clamp(-self.log_bound, self.log_bound)
        log_alpha, log_beta = log_parameters.chunk(2, dim=1)
        return log_alpha, log_beta

    def evaluate(self, rows: Tensor) -> Passed:
        """Return the same without automatic differentiation, with a way back; on the CPU."""
        inputs, around = self._read(rows)
        if isinstance(around, CompiledNeighborhood):
            places = around.places, around.shares
            return CompiledEncoderPass(self._layers, self._views, inputs, *places, self.log_bound)
        return EncoderPass(self._layers, inputs, around.pooling, self.log_bound)

    def linked(self, rows: Tensor) -> Tensor:
        """Return A among the given rows, all different: a_ij = 1 if row i is among the neighbours of row j."""
        return self._read(rows).around.linked

    def look_ahead(self, batches: Sequence[Tensor]) -> None:
        """Say which rows will be asked for, batch by batch, as these very tensors: several may be looked up at once."""
        self._coming, self._ahead = iter(batches), []
        self._next = next(self._coming, None)

    def _read(self, rows: Tensor) -> _Read:
        # A step asks several times for the same batch: for the loss, and with new weights for the soft labels.
        if self._last is None or self._last[0] is not rows:
            self._last = (rows, self._find(rows))
        return self._last[1]

    def _find(self, rows: Tensor) -> _Read:
        if self._ahead and self._ahead[0][0] is rows:
            return self._ahead.pop(0)[1]
        if self._next is not rows:
            return self._look_up([rows])[0]
        batches = [rows, *islice(self._coming, self._how_far(rows) - 1)]
        self._next = next(self._coming, None)
        self._ahead = list(zip(batches, self._look_up(batches), strict=True))
        return self._ahead.pop(0)[1]

    def _how_far(self, rows: Tensor) -> int:
        """How many batches like ``rows`` to look up at once."""
        if self._compiled() or not isinstance(self.aggregated, SparseRows):
            return 1
        a_row = len(self.aggregated.columns) / max(self.aggregated.shape[0], 1)
        return min(max(1, int(LOOKED_AHEAD / (a_row * self._table.shape[1] * len(rows) + 1))), BATCHES_AHEAD)

    def _compiled(self) -> bool:
        weight = self._layers[2]
        return weight.dtype == torch.float32 and weight.device.type == "cpu" and kernels.available()

    def _look_up(self, batches: Sequence[Tensor]) -> list[_Read]:
        found: Sequence[Neighborhood]
        if self._compiled():
            found = [CompiledNeighborhood(self._table, rows, self.self_weight, self._seen) for rows in batches]
        else:
            found = look_up(self._table, batches, self.self_weight, self.second.weight.dtype)
        if isinstance(self.aggregated, SparseRows):
            firsts = np.cumsum([0, *(len(one.needed) for one in found)])
            whole = self.aggregated.take(np.concatenate([one.needed for one in found]))
            inputs: Sequence[Any] = whole.split(firsts) if len(found) > 1 else [whole]
        else:
            inputs = [gather(self.aggregated, torch.from_numpy(one.needed).to(batches[0].device)) for one in found]
        return [_Read(*pair) for pair in zip(inputs, found, strict=True)]


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
