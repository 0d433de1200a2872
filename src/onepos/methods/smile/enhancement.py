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

Draws from Beta(α, β) come with their derivatives, in one of two ways:

- Implicit derivatives (Figurnov et al., 2018): ∂d/∂α = −(∂F/∂α) / p(d), F the distribution function. They are exact.
- Fast draws, in single precision on the CPU. Marsaglia and Tsang (2000) draw a Gamma variable of shape a ≥ 1 as
  (a−⅓)(1 + ε/√(9a−3))³ with ε normal, accepted in more than 97 of 100 cases here. The shape α is raised by two, and the
  draw multiplied by U₁^(1/α) U₂^(1/(α+1)): the result is exactly Gamma(α), and differentiable in α with ε and U fixed.
  This derivative ignores that the acceptance depends on α (Naesseth et al., 2017). With two steps it is off by less
  than 0.3 % in the mean (tests/methods/smile/test_beta.py), and costs a third of the exact one.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos.methods.smile.encoder import GraphEncoder
from onepos.training import Batch, losses
from onepos.training.networks import MLP

#: Size of z, and hidden width of w₂, η₁ and η₂.
_LATENT, _HIDDEN = 8, 32
#: From so many labels on, draws of D are the fast ones: implicit derivatives take longer.
FAST_DRAWS_FROM = 20
#: Whether the kernel computes T_LE where it applies; False: ``reference_loss`` always does.
USE_KERNEL = True
#: Uniform numbers per fast Gamma draw: one for the acceptance, and one for each step by which the shape is raised.
_UNIFORMS = 3
#: Tries at once for the few entries whose first draw was refused: all of them fail less than once in 10¹³ times.
_TRIES = 8


def beta_kl(alpha: Tensor, beta: Tensor) -> Tensor:
    """KL( Beta(α, β) ‖ Beta(1, 1) ), elementwise (Eq. 12 of the paper, with the uniform prior)."""
    total = alpha + beta
    # In the derivative all terms cancel but those of ψ: the others are detached, so that they leave no rounding error.
    return (
        (torch.lgamma(total) - torch.lgamma(alpha) - torch.lgamma(beta)).detach()
        + (alpha - 1.0).detach() * torch.digamma(alpha)
        + (beta - 1.0).detach() * torch.digamma(beta)
        - (total - 2.0).detach() * torch.digamma(total)
    )


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL( N(μ, σ²) ‖ N(0, 1) ) = −½ (1 + log σ² − μ² − σ²), elementwise (Eq. 13, with the −½ the paper omits)."""
    return -0.5 * (1.0 + log_variance - mean.square() - log_variance.exp())


def sample_gaussian(mean: Tensor, log_variance: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Differentiable sample z ~ N(μ, σ²), elementwise."""
    return mean + torch.exp(0.5 * log_variance) * torch.empty_like(mean).normal_(generator=generator)


def sample_beta(alpha: Tensor, beta: Tensor, generator: torch.Generator | None = None, *, fast: bool = False) -> Tensor:
    """Differentiable sample d ~ Beta(α, β), elementwise, inside the open interval (0, 1).

    ``fast`` takes the fast draws in single precision on the CPU, and changes nothing elsewhere.
    """
    both = torch.stack([alpha, beta])
    known = both.detach()
    if known.device.type == "cpu":
        draw, slopes = map(torch.from_numpy, draw_beta(known.numpy(), generator, fast=fast))
    else:
        sample = torch._sample_dirichlet(known.movedim(0, -1).contiguous(), generator=generator).movedim(-1, 0)
        draw, slopes = _with_slopes(sample, known)
    # The second term is zero, and has the derivatives.
    return draw + (slopes * (both - known)).sum(dim=0)


def draw_beta(
    parameters: NDArray[Any], generator: torch.Generator | None = None, *, fast: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw d from Beta(α, β) for stacked (α, β); returns d and the stacked (∂d/∂α, ∂d/∂β); arrays, on the CPU.

    Examples
    --------
    >>> both = np.full((2, 20000), 2.0, dtype=np.float32)
    >>> draw, slopes = draw_beta(both, torch.Generator().manual_seed(0), fast=True)
    >>> round(float(draw.mean()), 1), (slopes.mean(axis=1) * 8).round(1).tolist()  # α/(α+β), ±β/(α+β)²
    (0.5, [1.0, -1.0])
    """
    if fast and parameters.dtype == np.float32:
        return _draw_fast(parameters, generator)
    # NumPy draws twice as fast as torch; its seed comes from the generator, so runs repeat.
    seed = int(torch.randint(2**62, (), generator=generator))
    draws = np.random.Generator(np.random.SFC64(seed)).beta(*parameters.astype(np.float64))
    sample = np.stack([draws, 1.0 - draws]).astype(parameters.dtype)  # 1 − d before it is rounded
    draw, slopes = _with_slopes(torch.from_numpy(sample), torch.from_numpy(parameters))
    return draw.numpy(), slopes.numpy()


def _bounds(dtype: torch.dtype) -> tuple[float, float]:
    """Lowest and highest d. Small α put mass so close to 0 that floating point rounds it onto 0.

    The lowest is the root of the smallest normal number: products of two samples stay normal, and denormal arithmetic
    is slow.
    """
    kind = torch.finfo(dtype)
    return math.sqrt(kind.tiny), 1.0 - kind.eps


def _with_slopes(sample: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
    """Return d and its implicit derivatives from stacked (d, 1−d), by the kernel of ``torch.distributions.Beta``."""
    low, high = _bounds(sample.dtype)
    sample = sample.clamp(min=low)
    total = parameters.sum(0).expand_as(parameters).contiguous()
    # The kernel gives ∂d/∂α / (1−d) and ∂(1−d)/∂β / d, hence the factors.
    slopes = torch._dirichlet_grad(sample, parameters, total).mul_(sample.flip(0))
    # If one parameter is 10⁹ times the other, the kernel sometimes divides zero by zero; the derivative is tiny.
    slopes.nan_to_num_(0.0, 0.0, 0.0)
    slopes[1].neg_()  # 1−d grows with β as d grows with α
    return sample[0].clamp(max=high), slopes


def _draw_fast(
    parameters: NDArray[np.float32], generator: torch.Generator | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    from onepos.methods.smile._kernels import beta_draws, refused, retry

    # NumPy's generator draws faster than torch's. Its state comes from torch's, so that runs repeat and resume.
    source = np.random.SFC64(0)
    state: Any = source.state
    state["state"]["state"][:3] = torch.randint(-(2**63), 2**63 - 1, (3,), generator=generator).numpy()
    source.state = state
    numbers = np.random.Generator(source)
    shapes = parameters.reshape(-1)
    n = len(shapes)
    noise = torch.empty(n).normal_(generator=generator).numpy()
    raw = source.random_raw(-(-_UNIFORMS * n // 2))
    bits = raw.view(np.uint32)[: _UNIFORMS * n].reshape(_UNIFORMS, n)
    left = refused(shapes, noise, bits[0])
    while len(left):
        tries = (_TRIES, len(left))
        tried = numbers.standard_normal(tries, dtype=np.float32)
        left = retry(shapes, noise, left, tried, numbers.standard_exponential(tries, dtype=np.float32))
    draw, slopes = beta_draws(shapes.reshape(2, -1), noise.reshape(2, -1), bits[1:].reshape(_UNIFORMS - 1, 2, -1))
    draw = np.clip(draw, *_bounds(torch.float32)).reshape(parameters.shape[1:])
    return draw, slopes.reshape(parameters.shape)


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
        # Listed once: walking through the modules in every step takes as long as a matrix product.
        networks = (self.latent_encoder, self.label_decoder, self.feature_decoder)
        self._listed = [list(network.parameters()) for network in networks]

    def loss(self, batch: Batch) -> Tensor:
        """T_LE = −λ·ELBO + T_C on a batch, summed over labels and averaged over rows.

        The kernel computes it in single precision on the CPU, unless λ is 0.
        """
        log_parameters = self.encoder(batch.rows)
        single = log_parameters.dtype == torch.float32 and log_parameters.device.type == "cpu"
        if USE_KERNEL and single and self.elbo_weight != 0.0:
            return self.compiled_loss(log_parameters, batch)
        return self.reference_loss(log_parameters, batch)

    @torch.no_grad()
    def means(self, rows: Tensor) -> Tensor:
        """E[d] = α/(α+β) of the given rows, (rows, c), without gradient."""
        log_alpha, log_beta = self.encoder(rows).chunk(2, dim=1)
        return torch.sigmoid(log_alpha - log_beta)

    def reference_loss(self, log_parameters: Tensor, batch: Batch) -> Tensor:
        """T_LE term by term as the paper has it, from the encoder's log α and log β, (B, 2c)."""
        log_alpha, log_beta = log_parameters.chunk(2, dim=1)
        alpha, beta = log_alpha.exp(), log_beta.exp()
        # T_C, on the logit of the posterior mean α/(α+β).
        weight = self.unobserved_weight
        consistency = losses.assume_negative(log_alpha - log_beta, batch.observed, unobserved_weight=weight)
        if self.elbo_weight == 0.0:
            return consistency
        divergence = beta_kl(alpha, beta).sum() / len(batch.rows)
        soft = sample_beta(alpha, beta, self.generator, fast=self.fast_draws)  # (B, c), the paper's D⁽ᵐ⁾
        return consistency + self.elbo_weight * (divergence + self._reconstruction(soft, batch))

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

    def compiled_loss(self, log_parameters: Tensor, batch: Batch) -> Tensor:
        """``reference_loss`` by a kernel that computes its gradient along with it."""
        from onepos.methods.smile._kernels import loss_and_gradients

        known = log_parameters.detach().numpy()
        size, n_labels = batch.observed.shape
        stacked = known.reshape(size, 2, n_labels).transpose(1, 0, 2)
        draw, slopes = draw_beta(np.exp(stacked, order="C"), self.generator, fast=self.fast_draws)
        noise = torch.empty(size, _LATENT).normal_(generator=self.generator)
        value, by_log_parameters, *by_networks = loss_and_gradients(
            known,
            draw,
            slopes,
            noise.numpy(),
            batch.features.numpy(),
            batch.positives.numpy(),
            losses.unobserved_weights(batch.observed, self.unobserved_weight, torch.float32).numpy(),
            self.encoder.linked(batch.rows).numpy(),
            *(tuple(parameter.detach().numpy() for parameter in network) for network in self._listed),
            float(self.feature_scale),
            float(self.elbo_weight),
        )
        gradients = {log_parameters: torch.from_numpy(by_log_parameters)}
        for network, found in zip(self._listed, by_networks, strict=True):
            gradients.update(zip(network, map(torch.from_numpy, found), strict=True))
        return losses.with_gradients(torch.tensor(value, dtype=torch.float32), gradients)
