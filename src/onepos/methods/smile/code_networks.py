"""Encoder, decoder and loss of SMILE as released (palm-ml/smile, ``train_smile2.py``); all means over entries.

==========================  ==============  ===========================================================
here                        there           meaning
==========================  ==============  ===========================================================
``encoder``                 encoder         graph network, row → logits of d
``latent_encoder``          encoder_z       [x, d] → z_h, no distribution
``feature_decoder``         decoder         [d, z_h] → X̂
``reconstruction_weight``   γ (``gamma``)   weight of MSE(X̂, x) + AN(Ŷ, s) + MSE(ŶŶᵀ, A)
``divergence_weight``       δ (``delta``)   weight of KL′
==========================  ==============  ===========================================================
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from onepos.graph.exact import adjacency
from onepos.methods.smile.beta import sample_beta
from onepos.rows.tensors import gather
from onepos.training import Batch
from onepos.training.losses import binary_cross_entropy
from onepos.training.networks import MLP, linear

# The graph encoder of SMILE as released, computed on a batch's two-hop neighbourhood only.


def in_edges(neighbors: NDArray[np.int64]) -> Any:
    """P of shape (n, n), CSR in float64: row v holds 1/(√k·√deg_in(v)) at the rows u that list v as a neighbour.

    Examples
    --------
    >>> in_edges(np.array([[1], [0], [1]])).toarray().round(3).tolist()
    [[0.0, 1.0, 0.0], [0.707, 0.0, 0.707], [0.0, 0.0, 0.0]]
    """
    n_samples, n_neighbors = neighbors.shape
    listed_by = adjacency(neighbors, n_samples)
    in_degree = np.diff(listed_by.indptr)
    weights = np.repeat(1.0 / np.sqrt(n_neighbors * np.maximum(in_degree, 1.0)), in_degree)
    return sparse.csr_array((weights, listed_by.indices, listed_by.indptr), shape=listed_by.shape)


class GraphConvolution(nn.Linear):
    """The weight and bias of a graph convolution: Glorot-uniform weights and a bias of zero, as DGL starts it."""

    def __init__(self, n_inputs: int, n_outputs: int, generator: torch.Generator | None) -> None:
        super().__init__(n_inputs, n_outputs, device="meta")
        self.to_empty(device="cpu")
        bound = (6.0 / (n_inputs + n_outputs)) ** 0.5
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()


class ReleasedEncoder(nn.Module):
    """Rows → logits of their soft labels d: graph convolution, ReLU, graph convolution, linear layer.

    Parameters
    ----------
    aggregated : Tensor or CSR array of shape (n_samples, n_features)
        PX.
    edges : CSR array of shape (n_samples, n_samples)
        P, from ``in_edges``.
    n_hidden, n_labels : int
    """

    aggregated: Any
    starts: Tensor
    sources: Tensor
    weights: Tensor

    def __init__(
        self, aggregated: Any, edges: Any, n_hidden: int, n_labels: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        # Not persistent: the graph belongs to the training set, not to the saved state.
        if isinstance(aggregated, Tensor):
            self.register_buffer("aggregated", aggregated, persistent=False)
        else:
            self.aggregated = aggregated
        self.register_buffer("starts", torch.from_numpy(edges.indptr.astype(np.int64)), persistent=False)
        self.register_buffer("sources", torch.from_numpy(edges.indices.astype(np.int64)), persistent=False)
        self.register_buffer("weights", torch.from_numpy(edges.data.astype(np.float32)), persistent=False)
        self.first = GraphConvolution(aggregated.shape[1], n_hidden, generator)
        self.second = GraphConvolution(n_hidden, n_labels, generator)
        self.last = linear(n_labels, n_labels, generator)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of d for the given rows, shape (batch, n_labels)."""
        start = self.starts[rows]
        in_degree = self.starts[rows + 1] - start
        targets = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), in_degree)  # (edges,)
        # The e-th edge is its target's (e − edges before that target)-th one.
        before = in_degree.cumsum(0) - in_degree
        edges = torch.arange(len(targets), device=rows.device) + (start - before)[targets]
        hidden = torch.relu(self.first(gather(self.aggregated, self.sources[edges])))  # (edges, h)
        received = hidden * self.weights[edges, None]
        pooled = received.new_zeros(len(rows), hidden.shape[1]).index_add(0, targets, received)  # (batch, h)
        logits: Tensor = self.last(self.second(pooled))
        return logits


_LOG_OFFSET = 1e-5  # the released −log(x + 1e-5); also added to the parameters of the Beta
_DIVERGENCE_OFFSET = 1e-6


def released_divergence(logits: Tensor) -> Tensor:
    """KL′ = lnΓ(d) + lnΓ(1−d) + (d−1)·ψ(d) + (1−d−1)·ψ(1−d), elementwise, with d = σ(logits).

    1e-6 is added to d and to 1−d. Kept as released. It is not KL( Beta(d, 1−d) ‖ Beta(1, 1) ), in
    which both lnΓ are negative and ψ(1) is added.

    Examples
    --------
    >>> round(float(released_divergence(torch.zeros(()))), 2)
    3.11
    """
    present = torch.sigmoid(logits) + _DIVERGENCE_OFFSET
    absent = torch.sigmoid(-logits) + _DIVERGENCE_OFFSET  # 1 − d without cancellation
    return (
        torch.lgamma(present)
        + torch.lgamma(absent)
        + (present - 1.0) * torch.digamma(present)
        + (absent - 1.0) * torch.digamma(absent)
    )


class ReleasedModel(nn.Module):
    """The part of the released SMILE that recovers d.

    Parameters
    ----------
    encoder : ReleasedEncoder
    neighbors : int64 Tensor of shape (n_samples, n_neighbors)
        A_ij = 1 if j is in row i.
    n_features, n_labels, latent_hidden, decoder_hidden : int
        Widths; z_h has n_labels entries.
    """

    neighbors: Tensor

    def __init__(
        self,
        encoder: ReleasedEncoder,
        neighbors: Tensor,
        n_features: int,
        n_labels: int,
        *,
        latent_hidden: int,
        decoder_hidden: int,
        reconstruction_weight: float,
        divergence_weight: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("neighbors", neighbors, persistent=False)
        self.latent_encoder = MLP([n_features + n_labels, latent_hidden, n_labels], generator=generator)
        self.feature_decoder = MLP([2 * n_labels, decoder_hidden, n_features], generator=generator)
        self.reconstruction_weight = reconstruction_weight
        self.divergence_weight = divergence_weight
        self.generator = generator

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """AN(d, s) + γ·[ MSE(X̂, x) + AN(Ŷ, s) + MSE(ŶŶᵀ, A) ] + δ·KL′, with d = σ(logits)."""
        positives = batch.observed.clamp(min=0).to(logits.dtype)
        loss = binary_cross_entropy(logits, positives) / logits.shape[1]
        if self.divergence_weight:
            loss = loss + self.divergence_weight * released_divergence(logits).mean()
        if self.reconstruction_weight:
            loss = loss + self.reconstruction_weight * self._reconstruction(logits, batch.features, positives, batch)
        return loss

    def _reconstruction(self, logits: Tensor, features: Tensor, positives: Tensor, batch: Batch) -> Tensor:
        soft = torch.sigmoid(logits)
        latent = self.latent_encoder(torch.cat([features, soft], dim=1))
        reconstructed = self.feature_decoder(torch.cat([soft, latent], dim=1))
        drawn = sample_beta(soft + _LOG_OFFSET, torch.sigmoid(-logits) + _LOG_OFFSET, self.generator)
        # Here the offset stays: α + β ≈ 1, so draws sit at 0 and 1, and it alone keeps the logarithms bounded.
        seen = positives * torch.log(drawn + _LOG_OFFSET) + (1.0 - positives) * torch.log(1.0 - drawn + _LOG_OFFSET)
        adjacency = self.adjacency(batch.rows).to(drawn.dtype)
        return (
            functional.mse_loss(reconstructed, features) - seen.mean() + functional.mse_loss(drawn @ drawn.T, adjacency)
        )

    def adjacency(self, rows: Tensor) -> Tensor:
        """Block of A for a batch, (B, B): A_ij = 1 if x_j is among the k nearest neighbours of x_i."""
        return (rows[None, :, None] == self.neighbors[rows][:, None, :]).any(dim=2)
