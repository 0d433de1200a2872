"""Label enhancement (Eq. 7–15 of the SMILE paper): recover a soft label for every entry from one positive a row.

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

import torch
from torch import Tensor, nn

from onepos.methods.smile.beta_sampling import Numbers
from onepos.methods.smile.encoder import GraphEncoder
from onepos.methods.smile.encoder_pass import ParameterViews
from onepos.methods.smile.enhancement_gradient import Given, enhancement_loss, loss_and_gradients
from onepos.methods.smile.posterior import beta_kl, gaussian_kl, sample_beta, sample_gaussian
from onepos.training import Batch, Differentiated, Loss, losses
from onepos.training.networks import MLP

#: From so many labels on draws of D are those of ``beta_sampling``: implicit derivatives take longer.
FAST_DRAWS_FROM = 20
#: Up to so many rows of a batch it is faster to compare all with all neighbours than to look each neighbour up.
_ALL_WITH_ALL = 64


@dataclass(frozen=True)
class EnhancementSettings:
    """The constants of label enhancement that the paper leaves open; see ``SMILEClassifier`` for their meaning."""

    elbo_weight: float
    prior: tuple[float, float]
    n_draws: int
    consistency_on: str
    unobserved_weight: float
    latent_size: int
    decoder_hidden: int
    #: Whether some labels of the training set are known to be absent.
    known_absent: bool = True


class LabelEnhancement(nn.Module):
    """The variational model of soft labels: one encoder, one latent encoder, three decoders.

    Parameters
    ----------
    encoder : GraphEncoder
    n_features, n_labels : int
    feature_scale : float
        Features are divided by it before they enter the latent encoder and the reconstruction, so that λ means the
        same whatever the units of x are.
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
        # Listed once: going through the modules in every step takes as long as a product.
        self._listed = [parameter for network in self._networks() for parameter in network.parameters()]
        self._views = ParameterViews(self._listed)

    def loss(self, batch: Batch) -> Tensor:
        """T_LE = −λ·ELBO + T_C on a batch, summed over labels and averaged over rows."""
        if not self._written_out or batch.features.device.type != "cpu":
            return self.reference_loss(batch)
        log_alpha, log_beta = self.encoder(batch.rows)
        return enhancement_loss(log_alpha, log_beta, *self._networks(), self._given(batch))

    def differentiated(self, batch: Batch) -> Loss:
        """T_LE with its gradient, where that is written out for the encoder too; else as ``loss``."""
        if not self._written_out or type(self.encoder) is not GraphEncoder or batch.features.device.type != "cpu":
            return self.loss(batch)
        with torch.no_grad():
            passed = self.encoder.evaluate(batch.rows)
            given = self._given(batch)
            loss, by_log_parameters, gradients = loss_and_gradients(
                given, passed.log_parameters, self._listed, self._views
            )
            found = passed.gradients(by_log_parameters)
            found.update(zip(self._listed, gradients, strict=True))
            return Differentiated(loss, found)

    @property
    def _written_out(self) -> bool:
        settings = self.settings
        return settings.elbo_weight != 0.0 and settings.n_draws == 1 and settings.consistency_on == "mean"

    @torch.no_grad()
    def log_parameters(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Log α and log β of the given rows, (rows, c) each, as numbers."""
        if type(self.encoder) is not GraphEncoder or rows.device.type != "cpu":
            log_alpha, log_beta = self.encoder(rows)
        else:
            log_alpha, log_beta = self.encoder.evaluate(rows).log_parameters.chunk(2, dim=1)
        return log_alpha, log_beta

    @torch.no_grad()
    def means(self, rows: Tensor) -> Tensor:
        """E[d] = α/(α+β) of the given rows, (rows, c), as numbers."""
        if type(self.encoder) is GraphEncoder and rows.device.type == "cpu":
            return self.encoder.evaluate(rows).means()
        log_alpha, log_beta = self.encoder(rows)
        return torch.sigmoid(log_alpha - log_beta)

    def _weights(self, batch: Batch, targets: Tensor) -> Numbers:
        """Weights of the entries in T_C: one where something is known."""
        weight = self.settings.unobserved_weight
        if self.settings.known_absent:
            return losses.unobserved_weights(batch.observed, weight, targets.dtype).numpy()
        weights = targets.numpy() * (1.0 - weight)
        weights += weight
        return weights

    def _networks(self) -> tuple[nn.Sequential, nn.Sequential, nn.Sequential]:
        return self.latent_encoder, self.label_decoder, self.feature_decoder

    def _given(self, batch: Batch) -> Given:
        settings, features = self.settings, batch.features
        targets = batch.positives
        return Given(
            features,
            self.feature_scale,
            targets,
            self._weights(batch, targets),
            self._linked(batch).to(features.dtype),
            settings.elbo_weight,
            settings.prior,
            self.generator,
            self.fast_draws,
        )

    def reference_loss(self, batch: Batch) -> Tensor:
        """T_LE term by term as the paper has it, and with more draws of D, differentiated automatically."""
        settings = self.settings
        log_alpha, log_beta = self.encoder(batch.rows)
        consistency = self._consistency(log_alpha, log_beta, batch.observed)
        if settings.elbo_weight == 0.0:
            return consistency
        alpha, beta = log_alpha.exp(), log_beta.exp()
        features = batch.features / self.feature_scale
        negative_elbo = beta_kl(alpha, beta, *settings.prior).sum() / len(batch.rows)
        for _ in range(settings.n_draws):
            soft = sample_beta(alpha, beta, self.generator, fast=self.fast_draws)  # (B, c), the paper's D⁽ᵐ⁾
            terms = self._reconstruction(soft, features, batch)
            negative_elbo = negative_elbo + terms / settings.n_draws
            if settings.consistency_on == "sample":
                # T_C as printed, on the sample itself instead of the posterior mean.
                logit = torch.log(soft) - torch.log1p(-soft)
                consistency = consistency + self._weighted(logit, batch.observed) / settings.n_draws
        return consistency + settings.elbo_weight * negative_elbo

    def _reconstruction(self, soft: Tensor, features: Tensor, batch: Batch) -> Tensor:
        """−[ log p(L|D) + log p(X|D,Z) + log p(A|D) ] + KL(q(Z)‖p(Z)) for one draw of D."""
        observed = batch.observed.clamp(min=0).to(features.dtype)
        adjacency = self._adjacency(batch.rows, batch.rows).to(features.dtype)
        mean, log_variance = self.latent_encoder(torch.cat([features, soft], dim=1)).chunk(2, dim=1)
        # Beyond ±10 the variance under- or overflows the reconstruction long before it fits anything.
        log_variance = log_variance.clamp(-10.0, 10.0)
        latent = sample_gaussian(mean, log_variance, self.generator)
        reconstructed = self.feature_decoder(torch.cat([soft, latent], dim=1))
        by_row = losses.binary_cross_entropy(self.label_decoder(soft), observed)
        by_row = by_row + losses.feature_reconstruction(reconstructed, features)
        links = losses.adjacency_reconstruction(soft, adjacency)
        divergence = gaussian_kl(mean, log_variance).sum() / len(features)
        return by_row + links + divergence

    def _consistency(self, log_alpha: Tensor, log_beta: Tensor, observed: Tensor) -> Tensor:
        """T_C on the posterior mean α/(α+β), whose logit is log α − log β; zero if it is taken on samples instead."""
        if self.settings.consistency_on == "sample":
            return log_alpha.new_zeros(())
        return self._weighted(log_alpha - log_beta, observed)

    def _weighted(self, logits: Tensor, observed: Tensor) -> Tensor:
        return losses.assume_negative(logits, observed, unobserved_weight=self.settings.unobserved_weight)

    def _linked(self, batch: Batch) -> Tensor:
        """Block of A, (rows, rows), from what the encoder has looked up where it has."""
        if type(self.encoder) is GraphEncoder:
            return self.encoder.linked(batch.rows).to(batch.rows.device)
        return self._adjacency(batch.rows, batch.rows)

    def _adjacency(self, rows: Tensor, others: Tensor) -> Tensor:
        """Block of A, (rows, others): a_ij = 1 if x_i is among the k nearest neighbours of x_j."""
        neighbors = self.encoder.neighborhoods.index_select(0, others)[:, 1:]  # (others, k), without the row itself
        return links(rows, neighbors)


def links(rows: Tensor, neighbors: Tensor) -> Tensor:
    """Whether rows[i], all different, is among neighbors[j] (others, k): bool of shape (rows, others).

    Examples
    --------
    >>> links(torch.tensor([7, 3]), torch.tensor([[3, 5], [9, 4], [7, 3]])).int().tolist()
    [[0, 0, 1], [1, 0, 1]]
    """
    if len(rows) <= _ALL_WITH_ALL:
        return (rows[:, None, None] == neighbors).any(dim=2)
    ordered, order = torch.sort(rows)
    neighbors = neighbors.contiguous()
    place = torch.searchsorted(ordered, neighbors).clamp_(max=len(rows) - 1)  # where it would be, if it is there
    other, slot = (ordered[place] == neighbors).nonzero(as_tuple=True)
    linked = torch.zeros((len(rows), len(neighbors)), dtype=torch.bool, device=rows.device)
    linked[order[place[other, slot]], other] = True
    return linked
