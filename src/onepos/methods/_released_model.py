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

import torch
from torch import Tensor, nn
from torch.nn import functional

from onepos.losses import binary_cross_entropy
from onepos.methods._released_encoder import ReleasedEncoder
from onepos.networks import MLP
from onepos.posterior import sample_beta
from onepos.training import Batch

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
        # What has no parameters is computed for the whole batch, of the networks each process computes its rows.
        whole = torch.sigmoid(logits)
        soft = batch.part.own(whole)
        latent = self.latent_encoder(torch.cat([features, soft], dim=1))
        reconstructed = self.feature_decoder(torch.cat([soft, latent], dim=1))
        drawn = sample_beta(whole + _LOG_OFFSET, torch.sigmoid(-logits) + _LOG_OFFSET, self.generator)
        # Here the offset stays: α + β ≈ 1, so draws sit at 0 and 1, and it alone keeps the logarithms bounded.
        seen = positives * torch.log(drawn + _LOG_OFFSET) + (1.0 - positives) * torch.log(1.0 - drawn + _LOG_OFFSET)
        adjacency = self.adjacency(batch.rows).to(drawn.dtype)
        return (
            batch.part.mean(functional.mse_loss(reconstructed, features))
            - seen.mean()
            + functional.mse_loss(drawn @ drawn.T, adjacency)
        )

    def adjacency(self, rows: Tensor) -> Tensor:
        """Block of A for a batch, (B, B): A_ij = 1 if x_j is among the k nearest neighbours of x_i."""
        return (rows[None, :, None] == self.neighbors[rows][:, None, :]).any(dim=2)
