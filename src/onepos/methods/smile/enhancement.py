"""Label enhancement (Eq. 7–15 of the SMILE paper): recover a soft label for every entry from one positive per row.

======================  ==============  =============================================================
here                    paper           meaning
======================  ==============  =============================================================
``encoder``             w₁              graph network, rows → (log α, log β) of q(D)
``latent_encoder``      w₂              [x, d] → (μ, log σ²) of q(Z)
``label_decoder``       η₁              d → logits of τ = P(L | D)
``feature_decoder``     η₂              [d, z] → ξ, mean of X
``consistency``         T_C             how well D agrees with what was observed
``elbo_weight``         λ               T_LE = −λ·ELBO + T_C
======================  ==============  =============================================================
"""

import torch
from torch import Tensor, nn

from onepos.methods.smile.beta import beta_kl, sample_beta
from onepos.methods.smile.encoder import GraphEncoder
from onepos.training import Batch, losses
from onepos.training.networks import MLP

#: Size of z, and hidden width of w₂, η₁ and η₂.
_LATENT, _HIDDEN = 8, 32
#: From so many labels on, draws of D are the fast ones: implicit derivatives take longer.
FAST_DRAWS_FROM = 20
#: Bound of log σ²: beyond, the variance under- or overflows the reconstruction long before it fits anything.
_WIDEST = 10.0


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL( N(μ, σ²) ‖ N(0, 1) ) = −½ (1 + log σ² − μ² − σ²), elementwise (Eq. 13, with the −½ the paper omits)."""
    return -0.5 * (1.0 + log_variance - mean.square() - log_variance.exp())


def sample_gaussian(mean: Tensor, log_variance: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Differentiable sample z ~ N(μ, σ²), elementwise."""
    return mean + torch.exp(0.5 * log_variance) * torch.empty_like(mean).normal_(generator=generator)


class LabelEnhancement(nn.Module):
    """The variational model of soft labels: two encoders, two decoders.

    Parameters
    ----------
    encoder : GraphEncoder
    n_features, n_labels : int
    elbo_weight : float
        λ.
    unobserved_weight : float
        Weight of unobserved entries in T_C.
    feature_scale : float
        Features are divided by it before they enter the latent encoder and the reconstruction, so that λ means the
        same whatever the units of x are.
    generator : torch.Generator
        Source of the initial weights and of the draws.
    """

    def __init__(
        self,
        encoder: GraphEncoder,
        n_features: int,
        n_labels: int,
        *,
        elbo_weight: float,
        unobserved_weight: float,
        feature_scale: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.latent_encoder = MLP([n_features + n_labels, _HIDDEN, 2 * _LATENT], generator=generator)
        self.label_decoder = MLP([n_labels, _HIDDEN, n_labels], generator=generator)
        self.feature_decoder = MLP([n_labels + _LATENT, _HIDDEN, n_features], generator=generator)
        self.elbo_weight, self.unobserved_weight = elbo_weight, unobserved_weight
        self.feature_scale = feature_scale
        self.generator = generator
        self.fast_draws = n_labels >= FAST_DRAWS_FROM

    @torch.no_grad()
    def means(self, rows: Tensor) -> Tensor:
        """E[d] = α/(α+β) of the given rows, (rows, c), without gradient."""
        log_alpha, log_beta = self.encoder(rows).chunk(2, dim=1)
        return torch.sigmoid(log_alpha - log_beta)

    def loss(self, batch: Batch) -> Tensor:
        """T_LE = −λ·ELBO + T_C on a batch, summed over labels and averaged over rows."""
        log_alpha, log_beta = self.encoder(batch.rows).chunk(2, dim=1)
        alpha, beta = log_alpha.exp(), log_beta.exp()
        # T_C, on the logit of the posterior mean α/(α+β).
        weight = self.unobserved_weight
        consistency = losses.assume_negative(log_alpha - log_beta, batch.observed, unobserved_weight=weight)
        if self.elbo_weight == 0.0:
            return consistency
        soft = sample_beta(alpha, beta, self.generator, fast=self.fast_draws)  # (B, c), the paper's D⁽ᵐ⁾
        features = batch.features / self.feature_scale
        mean, log_variance = self.latent_encoder(torch.cat([features, soft], dim=1)).chunk(2, dim=1)
        log_variance = log_variance.clamp(-_WIDEST, _WIDEST)
        latent = sample_gaussian(mean, log_variance, self.generator)
        reconstructed = self.feature_decoder(torch.cat([soft, latent], dim=1))
        # −[ log p(L|D) + log p(X|D,Z) + log p(A|D) ] + KL(q(Z)‖p(Z)) + KL(q(D)‖p(D))
        negative_elbo = (
            losses.binary_cross_entropy(self.label_decoder(soft), (batch.observed > 0).to(soft.dtype))
            + losses.feature_reconstruction(reconstructed, features)
            + losses.adjacency_reconstruction(soft, self.encoder.linked(batch.rows).to(soft))
            + (gaussian_kl(mean, log_variance).sum() + beta_kl(alpha, beta).sum()) / len(features)
        )
        return consistency + self.elbo_weight * negative_elbo
