"""The two variational families of label enhancement: Beta for soft labels, Gaussian for the rest of x."""

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from onepos._utils.private_names import dirichlet_grad, sample_dirichlet
from onepos.methods.smile.beta_sampling import Numbers, draw_smooth_beta


def draw_beta(
    parameters: Numbers, generator: torch.Generator | None, *, fast: bool = False, rows: slice | None = None
) -> tuple[Numbers, Numbers]:
    """Draw d from Beta(α, β) for stacked (α, β), and return with it the stacked (∂d/∂α, ∂d/∂β); arrays, on the CPU.

    With ``rows``, all of d is drawn and the derivatives are those of these rows.

    d is inside the open interval (0, 1). With ``fast`` the derivatives are those of ``beta_sampling``, else
    implicit ones (Figurnov et al., 2018): ∂d/∂α = −(∂F/∂α) / p(d), F the distribution function; the kernel behind
    ``torch.distributions.Beta`` computes them.
    """
    if fast:
        draw, slopes = draw_smooth_beta(parameters, generator)
        slopes = slopes if rows is None else slopes[:, rows]
    else:
        sample = _draw(parameters, generator)  # (2, …): d and 1 − d, each to full precision
        # The kernel gives ∂d/∂α / (1−d) and ∂(1−d)/∂β / d: the derivatives of a Dirichlet before it is projected on
        # the simplex. Crossing the rows of (d, 1−d) projects both.
        draw = sample[0, ...]
        if rows is not None:
            sample, parameters = sample[:, rows].copy(), parameters[:, rows].copy()
        slopes = _implicit_slopes(torch.from_numpy(sample), torch.from_numpy(parameters)).numpy()
    np.negative(slopes[1, ...], out=slopes[1, ...])  # 1−d grows with β as d grows with α
    smallest, largest = _bounds(draw.dtype)
    np.maximum(draw, smallest, out=draw)
    np.minimum(draw, largest, out=draw)
    return draw, slopes


@cache
def _bounds(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Lowest and highest d. Small α put mass so close to 0 that floating point rounds it onto 0.

    The root of the smallest normal number: products of two samples stay normal, and denormal arithmetic is slow.
    """
    kind = np.finfo(dtype)
    return math.sqrt(float(kind.tiny)), 1.0 - float(kind.eps)


def _draw(both: Numbers, generator: torch.Generator | None) -> Numbers:
    """Draw (d, 1 − d) for stacked (α, β)."""
    # NumPy draws twice as fast as torch does; it gets its seed from the generator, so runs repeat all the same.
    seed = int(torch.randint(2**62, (), generator=generator))
    parameters = both.astype(np.float64)
    draws = np.random.Generator(np.random.SFC64(seed)).beta(parameters[0], parameters[1])
    sample = np.empty_like(both)
    sample[0] = draws
    sample[1] = 1.0 - draws  # before it is rounded
    np.maximum(sample, _bounds(sample.dtype)[0], out=sample)
    return sample


def _draw_elsewhere(both: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """What ``draw_beta`` gives, on the device of the stacked parameters."""
    sample = sample_dirichlet(both.movedim(0, -1).contiguous(), generator).movedim(-1, 0)
    sample = sample.clamp(min=math.sqrt(torch.finfo(both.dtype).tiny))
    slopes = _implicit_slopes(sample, both)
    slopes[1].neg_()
    return sample[0].clamp(max=1.0 - torch.finfo(both.dtype).eps), slopes


def _implicit_slopes(sample: Tensor, parameters: Tensor) -> Tensor:
    total = parameters.sum(0).expand_as(parameters).contiguous()
    slopes = dirichlet_grad(sample, parameters, total).mul_(sample.flip(0))
    # Where one parameter is 10⁹ times the other the kernel now and then divides zero by zero; the derivative is tiny.
    return slopes.nan_to_num_(0.0, 0.0, 0.0)


class _BetaSample(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, alpha: Tensor, beta: Tensor, generator: torch.Generator | None, fast: bool) -> Tensor:
        both = torch.stack([alpha, beta])
        if both.device.type == "cpu":
            draw, slopes = (torch.from_numpy(values) for values in draw_beta(both.numpy(), generator, fast=fast))
        else:
            draw, slopes = _draw_elsewhere(both, generator)
        ctx.save_for_backward(slopes)
        return draw

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        (slopes,) = ctx.saved_tensors
        by_alpha, by_beta = slopes * gradient
        return by_alpha, by_beta, None, None


def sample_beta(alpha: Tensor, beta: Tensor, generator: torch.Generator | None = None, *, fast: bool = False) -> Tensor:
    """Differentiable sample d ~ Beta(α, β), elementwise, inside the open interval (0, 1).

    ``fast`` draws from the same distribution with derivatives that are exact to 0.3 % in the mean, at a third of the
    cost; otherwise they are exact. On other devices than the CPU it changes nothing.
    """
    sample: Tensor = _BetaSample.apply(alpha, beta, generator, fast)  # type: ignore[no-untyped-call]
    return sample


def beta_kl_value(alpha: Tensor, beta: Tensor, total: Tensor, prior_alpha: float, prior_beta: float) -> Tensor:
    """The divergence of ``beta_kl``; ``total`` is α + β."""
    log_prior = math.lgamma(prior_alpha) + math.lgamma(prior_beta) - math.lgamma(prior_alpha + prior_beta)
    divergence = torch.lgamma(total).sub_(torch.lgamma(alpha)).sub_(torch.lgamma(beta)).add_(log_prior)
    divergence.addcmul_(alpha - prior_alpha, torch.digamma(alpha))
    divergence.addcmul_(beta - prior_beta, torch.digamma(beta))
    return divergence.addcmul_(total - (prior_alpha + prior_beta), torch.digamma(total), value=-1.0)


def beta_kl_slopes(
    alpha: Tensor, beta: Tensor, total: Tensor, prior_alpha: float, prior_beta: float
) -> tuple[Tensor, Tensor]:
    """Derivatives of the divergence with respect to α and β, in closed form.

    ∂KL/∂α = (α − α̂) ψ₁(α) − (α + β − α̂ − β̂) ψ₁(α + β), and likewise for β; all other terms cancel.
    """
    shared = torch.polygamma(1, total).mul_(total - (prior_alpha + prior_beta))
    by_alpha = torch.polygamma(1, alpha).mul_(alpha - prior_alpha).sub_(shared)
    by_beta = torch.polygamma(1, beta).mul_(beta - prior_beta).sub_(shared)
    return by_alpha, by_beta


class _BetaKL(torch.autograd.Function):
    """The divergence with its gradient in closed form: automatic differentiation would evaluate ψ twice."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, beta: Tensor, prior_alpha: float, prior_beta: float) -> Tensor:
        total = alpha + beta
        ctx.save_for_backward(alpha, beta, total)
        ctx.prior = prior_alpha, prior_beta
        return beta_kl_value(alpha, beta, total, prior_alpha, prior_beta)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        by_alpha, by_beta = beta_kl_slopes(*ctx.saved_tensors, *ctx.prior)
        return by_alpha.mul_(gradient), by_beta.mul_(gradient), None, None


def beta_kl(alpha: Tensor, beta: Tensor, prior_alpha: float, prior_beta: float) -> Tensor:
    """KL( Beta(α, β) ‖ Beta(α̂, β̂) ), elementwise (Eq. 12 of the paper)."""
    divergence: Tensor = _BetaKL.apply(alpha, beta, prior_alpha, prior_beta)  # type: ignore[no-untyped-call]
    return divergence


def sample_gaussian(
    mean: Tensor,
    log_variance: Tensor,
    generator: torch.Generator | None = None,
    rows: tuple[int, int, int] | None = None,
) -> Tensor:
    """Differentiable sample z ~ N(μ, σ²), elementwise; ``rows`` as for ``normal_rows``."""
    return mean + torch.exp(0.5 * log_variance) * normal_rows(mean, generator, rows)


def normal_rows(like: Tensor, generator: torch.Generator | None, rows: tuple[int, int, int] | None) -> Tensor:
    """Standard normal numbers in the shape of ``like``.

    ``rows`` are (first, last, of how many) if ``like`` has some of the rows of a batch: all of its numbers are drawn,
    so that processes that share a batch have those of a single one.
    """
    if rows is None:
        return torch.empty_like(like).normal_(generator=generator)
    first, last, total = rows
    return like.new_empty((total, *like.shape[1:])).normal_(generator=generator)[first:last]


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL( N(μ, σ²) ‖ N(0, 1) ) = −½ (1 + log σ² − μ² − σ²), elementwise (Eq. 13, with the −½ the paper omits)."""
    return -0.5 * (1.0 + log_variance - mean.square() - log_variance.exp())
