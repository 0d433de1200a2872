"""The inference model w₁ of SMILE: a two-layer graph network, computed on the batch's neighbourhood only.

Over the whole graph the encoder is ``Â · ReLU(Â X W₁) · W₂`` with Â = s·I + (1−s)·N, N the row-normalised
neighbour matrix and s the weight of the self-loop. Every node has k neighbours, so for a batch of B rows the same
numbers need only ``(ÂX)[neighbours of the batch]``: two gathers and two small matrix products instead of a pass over
all n nodes.
"""

from typing import Any

import torch
from torch import Tensor, nn

from onepos.features import gather
from onepos.networks import linear


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
        # Not persistent: the graph belongs to the training set, not to the saved state.
        if isinstance(aggregated, Tensor):
            self.register_buffer("aggregated", aggregated, persistent=False)
        else:
            self.aggregated = aggregated
        self.register_buffer("neighborhoods", neighborhoods, persistent=False)
        self.first = linear(aggregated.shape[1], n_hidden, generator)
        self.second = linear(n_hidden, 2 * n_labels, generator)
        self.self_weight = self_weight
        self.log_bound = log_bound

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log α and log β for the given rows, each of shape (batch, n_labels)."""
        neighborhood = self.neighborhoods[rows]  # (batch, 1+k)
        inputs = gather(self.aggregated, neighborhood.reshape(-1))  # (batch·(1+k), q)
        hidden = torch.relu(self.first(inputs))  # (batch·(1+k), h)
        hidden = hidden.view(*neighborhood.shape, -1)  # (batch, 1+k, h)
        pooled = torch.lerp(hidden[:, 1:].mean(dim=1), hidden[:, 0], self.self_weight)  # (batch, h): the second Â
        log_parameters = self.second(pooled).clamp(-self.log_bound, self.log_bound)
        log_alpha, log_beta = log_parameters.chunk(2, dim=1)
        return log_alpha, log_beta
