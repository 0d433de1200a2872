"""The two variational families of label enhancement: Beta for soft labels, Gaussian for the rest of x."""

from typing import Any

import torch
from torch import Tensor


class _BetaSample(torch.autograd.Function):
    """Draw from Beta(α, β); gradients by implicit reparameterisation (Figurnov et al., 2018).

    The same kernels as ``torch.distributions.Beta.rsample``, with a generator of our own instead of the
    global one.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: torch.Generator | None) -> Tensor:
        sample = torch._sample_dirichlet(concentration, generator=generator)  # (…, 2), sums to one
        ctx.save_for_backward(sample, concentration)
        return sample

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        sample, concentration = ctx.saved_tensors
        total = concentration.sum(-1, keepdim=True).expand_as(concentration)
        implicit = torch._dirichlet_grad(sample, concentration, total)
        return implicit * (gradient - (sample * gradient).sum(-1, keepdim=True)), None


def sample_beta(alpha: Tensor, beta: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Differentiable sample d ~ Beta(α, β), elementwise, inside the open interval (0, 1)."""
    sample: Tensor = _BetaSample.apply(torch.stack([alpha, beta], dim=-1), generator)[..., 0]  # type: ignore[no-untyped-call]
    # Small α or β put mass so close to the ends that floating point rounds it onto them; near 0 it resolves
    # down to the smallest normal number, near 1 only to one unit in the last place.
    limits = torch.finfo(sample.dtype)
    return sample.clamp(limits.tiny, 1.0 - limits.eps)


def beta_kl(alpha: Tensor, beta: Tensor, prior_alpha: float, prior_beta: float) -> Tensor:
    """KL( Beta(α, β) ‖ Beta(α̂, β̂) ), elementwise (Eq. 12 of the paper)."""
    total = alpha + beta
    prior = torch.tensor([prior_alpha, prior_beta], dtype=alpha.dtype, device=alpha.device)
    log_prior = torch.lgamma(prior).sum() - torch.lgamma(prior.sum())
    return (
        torch.lgamma(total)
        - torch.lgamma(alpha)
        - torch.lgamma(beta)
        + log_prior
        + (alpha - prior_alpha) * torch.digamma(alpha)
        + (beta - prior_beta) * torch.digamma(beta)
        - (total - prior_alpha - prior_beta) * torch.digamma(total)
    )


def sample_gaussian(mean: Tensor, log_variance: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Differentiable sample z ~ N(μ, σ²), elementwise."""
    noise = torch.empty_like(mean).normal_(generator=generator)
    return mean + torch.exp(0.5 * log_variance) * noise


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL( N(μ, σ²) ‖ N(0, 1) ) = −½ (1 + log σ² − μ² − σ²), elementwise (Eq. 13, with the −½ the paper omits)."""
    return -0.5 * (1.0 + log_variance - mean.square() - log_variance.exp())
