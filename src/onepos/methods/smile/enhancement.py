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

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from onepos.methods.smile.beta import beta_kl, draw_beta, gaussian_kl, sample_beta, sample_gaussian
from onepos.methods.smile.encoder import GraphEncoder
from onepos.training import Batch, losses
from onepos.training.networks import MLP

#: From so many labels on, draws of D are the fast ones: implicit derivatives take longer.
FAST_DRAWS_FROM = 20
#: Whether the kernel computes T_LE where it applies; False: ``reference_loss`` always does.
USE_KERNEL = True


@dataclass(frozen=True)
class EnhancementSettings:
    """The constants of label enhancement that the paper leaves open; see ``SMILEClassifier`` for their meaning."""

    elbo_weight: float
    prior: tuple[float, float]
    unobserved_weight: float
    latent_size: int
    decoder_hidden: int


class LabelEnhancement(nn.Module):
    """The variational model of soft labels: two encoders, two decoders.

    Parameters
    ----------
    encoder : GraphEncoder
    n_features, n_labels : int
    settings : EnhancementSettings
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
        settings: EnhancementSettings,
        feature_scale: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        hidden, latent = settings.decoder_hidden, settings.latent_size
        self.encoder = encoder
        self.latent_encoder = MLP([n_features + n_labels, hidden, 2 * latent], generator=generator)
        self.label_decoder = MLP([n_labels, hidden, n_labels], generator=generator)
        self.feature_decoder = MLP([n_labels + latent, hidden, n_features], generator=generator)
        self.settings = settings
        self.feature_scale = feature_scale
        self.generator = generator
        self.fast_draws = n_labels >= FAST_DRAWS_FROM
        # Listed once: walking through the modules in every step takes as long as a matrix product.
        networks = (self.latent_encoder, self.label_decoder, self.feature_decoder)
        self._listed = [list(network.parameters()) for network in networks]

    def loss(self, batch: Batch) -> Tensor:
        """T_LE = −λ·ELBO + T_C on a batch, summed over labels and averaged over rows."""
        log_parameters = self.encoder(batch.rows)
        if self._kernel_applies(log_parameters):
            return self.compiled_loss(log_parameters, batch)
        return self.reference_loss(log_parameters, batch)

    @torch.no_grad()
    def means(self, rows: Tensor) -> Tensor:
        """E[d] = α/(α+β) of the given rows, (rows, c), without gradient."""
        log_alpha, log_beta = self.encoder(rows).chunk(2, dim=1)
        return torch.sigmoid(log_alpha - log_beta)

    def reference_loss(self, log_parameters: Tensor, batch: Batch) -> Tensor:
        """T_LE term by term as the paper has it, from the encoder's log α and log β, (B, 2c)."""
        settings = self.settings
        log_alpha, log_beta = log_parameters.chunk(2, dim=1)
        alpha, beta = log_alpha.exp(), log_beta.exp()
        # T_C, on the logit of the posterior mean α/(α+β).
        weight = settings.unobserved_weight
        consistency = losses.assume_negative(log_alpha - log_beta, batch.observed, unobserved_weight=weight)
        if settings.elbo_weight == 0.0:
            return consistency
        divergence = beta_kl(alpha, beta, *settings.prior).sum() / len(batch.rows)
        soft = sample_beta(alpha, beta, self.generator, fast=self.fast_draws)  # (B, c), the paper's D⁽ᵐ⁾
        return consistency + settings.elbo_weight * (divergence + self._reconstruction(soft, batch))

    def _reconstruction(self, soft: Tensor, batch: Batch) -> Tensor:
        """−[ log p(L|D) + log p(X|D,Z) + log p(A|D) ] + KL(q(Z)‖p(Z)) for one draw of D."""
        features = batch.features / self.feature_scale
        mean, log_variance = self.latent_encoder(torch.cat([features, soft], dim=1)).chunk(2, dim=1)
        # Beyond ±10 the variance under- or overflows the reconstruction long before it fits anything.
        log_variance = log_variance.clamp(-10.0, 10.0)
        latent = sample_gaussian(mean, log_variance, self.generator)
        reconstructed = self.feature_decoder(torch.cat([soft, latent], dim=1))
        return (
            losses.binary_cross_entropy(self.label_decoder(soft), batch.positives)
            + losses.feature_reconstruction(reconstructed, features)
            + losses.adjacency_reconstruction(soft, self.encoder.linked(batch.rows).to(soft))
            + gaussian_kl(mean, log_variance).sum() / len(features)
        )

    def _kernel_applies(self, log_parameters: Tensor) -> bool:
        """Whether T_LE has an ELBO, and is computed in single precision on the CPU."""
        single = log_parameters.dtype == torch.float32 and log_parameters.device.type == "cpu"
        return USE_KERNEL and self.settings.elbo_weight != 0.0 and single

    def compiled_loss(self, log_parameters: Tensor, batch: Batch) -> Tensor:
        """``reference_loss`` by a kernel that computes its gradient along with it."""
        from onepos.methods.smile._kernels import loss_and_gradients

        settings, known = self.settings, log_parameters.detach().numpy()
        size, n_labels = batch.observed.shape
        stacked = known.reshape(size, 2, n_labels).transpose(1, 0, 2)
        draw, slopes = draw_beta(np.exp(stacked, order="C"), self.generator, fast=self.fast_draws)
        noise = torch.empty(size, settings.latent_size).normal_(generator=self.generator)
        value, by_log_parameters, *by_networks = loss_and_gradients(
            known,
            draw,
            slopes,
            noise.numpy(),
            batch.features.numpy(),
            batch.positives.numpy(),
            losses.unobserved_weights(batch.observed, settings.unobserved_weight, torch.float32).numpy(),
            self.encoder.linked(batch.rows).numpy(),
            *(tuple(parameter.detach().numpy() for parameter in network) for network in self._listed),
            float(self.feature_scale),
            float(settings.elbo_weight),
            settings.prior,
        )
        gradients = {log_parameters: torch.from_numpy(by_log_parameters)}
        for network, found in zip(self._listed, by_networks, strict=True):
            gradients.update(zip(network, map(torch.from_numpy, found), strict=True))
        return losses.with_gradients(torch.tensor(value, dtype=torch.float32), gradients)
