"""The two variational families of label enhancement: Beta for soft labels, Gaussian for the rest of x.

Draws from Beta(α, β) come with their derivatives, in one of two ways:

- Implicit derivatives (Figurnov et al., 2018): ∂d/∂α = −(∂F/∂α) / p(d), F the distribution function. They are exact.
- Fast draws, in single precision on the CPU. Marsaglia and Tsang (2000) draw a Gamma variable of shape a ≥ 1 as
  (a−⅓)(1 + ε/√(9a−3))³ with ε normal, accepted in more than 97 of 100 cases here. The shape α is raised by two, and the
  draw multiplied by U₁^(1/α) U₂^(1/(α+1)): the result is exactly Gamma(α), and differentiable in α with ε and U fixed.
  This derivative ignores that the acceptance depends on α (Naesseth et al., 2017). With two steps it is off by less
  than 0.3 % in the mean (tests/methods/smile/test_beta.py), and costs a third of the exact one.
"""

import math
import threading
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers: TypeAlias = NDArray[Any]

#: Uniform numbers per fast Gamma draw: one for the acceptance, and one for each step by which the shape is raised.
_UNIFORMS = 3
#: Tries at once for the few entries whose first draw was refused: all of them fail less than once in 10¹³ times.
_TRIES = 8


def beta_kl(alpha: Tensor, beta: Tensor, prior_alpha: float, prior_beta: float) -> Tensor:
    """KL( Beta(α, β) ‖ Beta(α̂, β̂) ), elementwise (Eq. 12 of the paper)."""
    total, prior_total = alpha + beta, prior_alpha + prior_beta
    log_prior = math.lgamma(prior_alpha) + math.lgamma(prior_beta) - math.lgamma(prior_total)
    # In the derivative all terms cancel but those of ψ: the others are detached, so that they leave no rounding error.
    return (
        (torch.lgamma(total) - torch.lgamma(alpha) - torch.lgamma(beta)).detach()
        + log_prior
        + (alpha - prior_alpha).detach() * torch.digamma(alpha)
        + (beta - prior_beta).detach() * torch.digamma(beta)
        - (total - prior_total).detach() * torch.digamma(total)
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
    sample: Tensor = _BetaSample.apply(alpha, beta, generator, fast)  # type: ignore[no-untyped-call]
    return sample


class _BetaSample(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, alpha: Tensor, beta: Tensor, generator: torch.Generator | None, fast: bool) -> Tensor:
        both = torch.stack([alpha, beta])
        if both.device.type == "cpu":
            draw, slopes = (torch.from_numpy(values) for values in draw_beta(both.numpy(), generator, fast=fast))
        else:
            draw, slopes = _draw_on_device(both, generator)
        ctx.save_for_backward(slopes)
        return draw

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (slopes,) = ctx.saved_tensors
        by_alpha, by_beta = slopes * gradients[0]
        return by_alpha, by_beta, None, None


def draw_beta(
    parameters: Numbers, generator: torch.Generator | None = None, *, fast: bool = False
) -> tuple[Numbers, Numbers]:
    """Draw d from Beta(α, β) for stacked (α, β); returns d and the stacked (∂d/∂α, ∂d/∂β); arrays, on the CPU.

    Examples
    --------
    >>> both = np.full((2, 20000), 2.0, dtype=np.float32)
    >>> draw, slopes = draw_beta(both, torch.Generator().manual_seed(0), fast=True)
    >>> round(float(draw.mean()), 1), (slopes.mean(axis=1) * 8).round(1).tolist()  # α/(α+β), ±β/(α+β)²
    (0.5, [1.0, -1.0])
    """
    if fast and parameters.dtype == np.float32:
        draw, slopes = _draw_fast(parameters, generator)
    else:
        sample = _draw_pair(parameters, generator)
        draw, slopes = sample[0, ...], _implicit_slopes(*map(torch.from_numpy, (sample, parameters))).numpy()
    np.negative(slopes[1, ...], out=slopes[1, ...])  # 1−d grows with β as d grows with α
    return np.clip(draw, *_bounds(draw.dtype), out=draw), slopes


@cache
def _bounds(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Lowest and highest d. Small α put mass so close to 0 that floating point rounds it onto 0.

    The lowest is the root of the smallest normal number: products of two samples stay normal, and denormal arithmetic
    is slow.
    """
    kind = np.finfo(dtype)
    return math.sqrt(float(kind.tiny)), 1.0 - float(kind.eps)


def _draw_pair(both: Numbers, generator: torch.Generator | None) -> Numbers:
    """Draw (d, 1 − d), each to full precision, for stacked (α, β)."""
    # NumPy draws twice as fast as torch; its seed comes from the generator, so runs repeat.
    seed = int(torch.randint(2**62, (), generator=generator))
    parameters = both.astype(np.float64)
    draws = np.random.Generator(np.random.SFC64(seed)).beta(parameters[0], parameters[1])
    sample = np.empty_like(both)
    sample[0] = draws
    sample[1] = 1.0 - draws  # before it is rounded
    return np.maximum(sample, _bounds(sample.dtype)[0], out=sample)


def _draw_on_device(both: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """What ``draw_beta`` returns, on the device of the stacked parameters."""
    # torch.distributions takes no generator.
    sample = torch._sample_dirichlet(both.movedim(0, -1).contiguous(), generator=generator).movedim(-1, 0)
    sample = sample.clamp(min=math.sqrt(torch.finfo(both.dtype).tiny))
    slopes = _implicit_slopes(sample, both)
    slopes[1].neg_()
    return sample[0].clamp(max=1.0 - torch.finfo(both.dtype).eps), slopes


def _implicit_slopes(sample: Tensor, parameters: Tensor) -> Tensor:
    """∂d/∂α and ∂(1−d)/∂β, stacked, by the kernel behind ``torch.distributions.Beta``."""
    total = parameters.sum(0).expand_as(parameters).contiguous()
    # The kernel gives ∂d/∂α / (1−d) and ∂(1−d)/∂β / d, hence the factors.
    slopes = torch._dirichlet_grad(sample, parameters, total).mul_(sample.flip(0))
    # If one parameter is 10⁹ times the other, the kernel sometimes divides zero by zero; the derivative is tiny.
    return slopes.nan_to_num_(0.0, 0.0, 0.0)


class _ThreadGenerator(threading.local):
    """NumPy's generator, one per thread: it draws faster than torch's, but making one takes longer than a draw.

    It is seeded from torch's generator for every use: runs repeat, and resume from a checkpoint, by the latter's state.
    """

    def __init__(self) -> None:
        self._bits = np.random.SFC64(0)
        self._state: Any = self._bits.state
        self._generator = np.random.Generator(self._bits)

    def seeded(self, generator: torch.Generator | None) -> np.random.Generator:
        """Return the generator with its state set by three integers drawn from torch's."""
        self._state["state"]["state"][:3] = torch.randint(-(2**63), 2**63 - 1, (3,), generator=generator).numpy()
        self._bits.state = self._state
        return self._generator


_generator = _ThreadGenerator()


def _draw_fast(parameters: Numbers, generator: torch.Generator | None) -> tuple[Numbers, Numbers]:
    """Fast draws d, and (∂d/∂α, −∂d/∂β)."""
    from onepos.methods.smile._kernels import beta_draws, refused, retry

    numbers = _generator.seeded(generator)
    shapes = parameters.reshape(-1)
    n = len(shapes)
    noise = torch.empty(n).normal_(generator=generator).numpy()
    raw = numbers.bit_generator.random_raw(-(-_UNIFORMS * n // 2))
    bits = raw.view(np.uint32)[: _UNIFORMS * n].reshape(_UNIFORMS, n)
    left = refused(shapes, noise, bits[0])
    while len(left):
        tries = (_TRIES, len(left))
        tried = numbers.standard_normal(tries, dtype=np.float32)
        left = retry(shapes, noise, left, tried, numbers.standard_exponential(tries, dtype=np.float32))
    draw, slopes = beta_draws(shapes.reshape(2, -1), noise.reshape(2, -1), bits[1:].reshape(_UNIFORMS - 1, 2, -1))
    return draw.reshape(parameters.shape[1:]), slopes.reshape(parameters.shape)
