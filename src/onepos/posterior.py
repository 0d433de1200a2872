"""The two variational families of label enhancement: Beta for soft labels, Gaussian for the rest of x."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from onepos.beta_sampling import draw_log_gamma


class _BetaSample(torch.autograd.Function):
    """Draw d from Beta(α, β); gradients by implicit reparameterisation (Figurnov et al., 2018).

    ∂d/∂α = −(∂F/∂α) / p(d), F the distribution function: the kernel behind ``torch.distributions.Beta`` computes it.
    """

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, beta: Tensor, generator: torch.Generator | None) -> Tensor:
        both = torch.stack([alpha, beta])
        sample = _draw(both, generator)  # (2, …): d and 1 − d, each to full precision
        ctx.save_for_backward(sample, both)
        return sample[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        sample, both = ctx.saved_tensors
        # The kernel gives ∂d/∂α / (1−d) and ∂(1−d)/∂β / d: the derivatives of a Dirichlet before it is projected on
        # the simplex. Crossing the rows of (d, 1−d) projects both; 1−d grows with β as d grows with α, hence the sign.
        implicit = torch._dirichlet_grad(sample, both, both.sum(0).expand_as(both).contiguous())
        implicit.mul_(sample.flip(0)).mul_(gradient)
        return implicit[0], implicit[1].neg_(), None


def _draw(both: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw (d, 1 − d) for stacked (α, β), inside the open interval (0, 1)."""
    # Small α or β put mass so close to the ends that floating point rounds it onto them. The limit is the root of the
    # smallest normal number: products of two samples stay normal, and denormal arithmetic is slow.
    smallest = math.sqrt(torch.finfo(both.dtype).tiny)
    if both.device.type != "cpu":
        sample = torch._sample_dirichlet(both.movedim(0, -1).contiguous(), generator=generator).movedim(-1, 0)
        return sample.clamp(min=smallest)
    # NumPy draws twice as fast as torch does; it gets its seed from the generator, so runs repeat all the same.
    seed = int(torch.randint(2**62, (), generator=generator))
    parameters = both.detach().double().numpy()
    draws = np.random.Generator(np.random.SFC64(seed)).beta(parameters[0], parameters[1])
    return torch.from_numpy(np.stack([draws, 1.0 - draws])).to(both.dtype).clamp_(min=smallest)


class _FastBetaSample(torch.autograd.Function):
    """Draw d = x/(x+y) from two Gamma draws that know their own derivatives (``onepos.beta_sampling``)."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, beta: Tensor, generator: torch.Generator | None) -> Tensor:
        log_draw, slope = draw_log_gamma(torch.stack([alpha, beta]), generator)
        logit = log_draw[0] - log_draw[1]
        sample = torch.sigmoid(logit)
        slope.mul_(sample).mul_(torch.sigmoid(-logit))
        ctx.save_for_backward(slope)
        return sample.clamp_(min=math.sqrt(torch.finfo(sample.dtype).tiny))  # as in _draw

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        (slope,) = ctx.saved_tensors
        by_alpha, by_beta = slope * gradient
        return by_alpha, by_beta.neg_(), None


def sample_beta(alpha: Tensor, beta: Tensor, generator: torch.Generator | None = None, *, fast: bool = False) -> Tensor:
    """Differentiable sample d ~ Beta(α, β), elementwise, inside the open interval (0, 1).

    ``fast`` draws from the same distribution with derivatives that are exact to 0.3 % in the mean, at a third of the
    cost; otherwise they are exact. On other devices than the CPU it changes nothing.
    """
    function = _FastBetaSample if fast and alpha.device.type == "cpu" else _BetaSample
    sample: Tensor = function.apply(alpha, beta, generator)  # type: ignore[no-untyped-call]
    return sample.clamp(max=1.0 - torch.finfo(sample.dtype).eps)


class _BetaKL(torch.autograd.Function):
    """The divergence with its gradient in closed form: automatic differentiation would evaluate ψ twice.

    ∂KL/∂α = (α − α̂) ψ₁(α) − (α + β − α̂ − β̂) ψ₁(α + β), and likewise for β; all other terms cancel.
    """

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, beta: Tensor, prior_alpha: float, prior_beta: float) -> Tensor:
        total = alpha + beta
        ctx.save_for_backward(alpha, beta, total)
        ctx.prior = prior_alpha, prior_beta
        log_prior = math.lgamma(prior_alpha) + math.lgamma(prior_beta) - math.lgamma(prior_alpha + prior_beta)
        divergence = torch.lgamma(total).sub_(torch.lgamma(alpha)).sub_(torch.lgamma(beta)).add_(log_prior)
        divergence.addcmul_(alpha - prior_alpha, torch.digamma(alpha))
        divergence.addcmul_(beta - prior_beta, torch.digamma(beta))
        return divergence.addcmul_(total - (prior_alpha + prior_beta), torch.digamma(total), value=-1.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        alpha, beta, total = ctx.saved_tensors
        prior_alpha, prior_beta = ctx.prior
        shared = (total - (prior_alpha + prior_beta)) * torch.polygamma(1, total)
        by_alpha = torch.polygamma(1, alpha).mul_(alpha - prior_alpha).sub_(shared).mul_(gradient)
        by_beta = torch.polygamma(1, beta).mul_(beta - prior_beta).sub_(shared).mul_(gradient)
        return by_alpha, by_beta, None, None


def beta_kl(alpha: Tensor, beta: Tensor, prior_alpha: float, prior_beta: float) -> Tensor:
    """KL( Beta(α, β) ‖ Beta(α̂, β̂) ), elementwise (Eq. 12 of the paper)."""
    divergence: Tensor = _BetaKL.apply(alpha, beta, prior_alpha, prior_beta)  # type: ignore[no-untyped-call]
    return divergence


def sample_gaussian(mean: Tensor, log_variance: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Differentiable sample z ~ N(μ, σ²), elementwise."""
    noise = torch.empty_like(mean).normal_(generator=generator)
    return mean + torch.exp(0.5 * log_variance) * noise


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL( N(μ, σ²) ‖ N(0, 1) ) = −½ (1 + log σ² − μ² − σ²), elementwise (Eq. 13, with the −½ the paper omits)."""
    return -0.5 * (1.0 + log_variance - mean.square() - log_variance.exp())
