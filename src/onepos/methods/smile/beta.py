"""The Beta distributions of soft labels: divergence from the uniform prior, and draws with their derivatives.

Draws from Beta(α, β) come with their derivatives, in one of two ways:

- Implicit derivatives (Figurnov et al., 2018): ∂d/∂α = −(∂F/∂α) / p(d), F the distribution function. They are exact.
- Fast draws, in single precision. Marsaglia and Tsang (2000) draw a Gamma variable of shape a ≥ 1 as
  (a−⅓)(1 + ε/√(9a−3))³ with ε normal, accepted in more than 97 of 100 cases here. The shape α is raised by two, and the
  draw multiplied by U₁^(1/α) U₂^(1/(α+1)): the result is exactly Gamma(α), and differentiable in α with ε and U fixed.
  This derivative ignores that the acceptance depends on α (Naesseth et al., 2017). With two steps it is off by less
  than 0.3 % in the mean (tests/methods/smile/test_beta.py), and costs a quarter of the exact one.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Uniform numbers per fast Gamma draw: one for the acceptance, and one for each step by which the shape is raised.
_UNIFORMS = 3
#: Lowest and highest d: floating point rounds the mass that small α put close to 0 onto 0. The lowest is the root of
#: the smallest normal number: products of two samples stay normal, and denormal arithmetic is slow.
_LIMITS = {
    dtype: (math.sqrt(torch.finfo(dtype).tiny), 1.0 - torch.finfo(dtype).eps)
    for dtype in (torch.float32, torch.float64)
}
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


def sample_beta(alpha: Tensor, beta: Tensor, generator: torch.Generator, *, fast: bool = False) -> Tensor:
    """Differentiable sample d ~ Beta(α, β), elementwise, inside the open interval (0, 1).

    NumPy draws it, on the CPU, twice as fast as torch. ``fast`` takes the fast draws, in single precision.
    """
    both = torch.stack([alpha, beta])
    shapes = both.detach().cpu()
    draw, slopes = _draw_fast(shapes, generator) if fast and shapes.dtype == torch.float32 else _draw(shapes, generator)
    # The second term is zero, and has the derivatives.
    return draw.to(both) + (slopes.to(both) * (both - both.detach())).sum(dim=0)


def _seed(generator: torch.Generator, low: int, high: int, size: tuple[int, ...]) -> NDArray[np.int64]:
    """Numbers from torch's generator for one of NumPy's, so that runs repeat and resume."""
    return torch.randint(low, high, size, generator=generator, device=generator.device).cpu().numpy()


def _draw(shapes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw d for stacked (α, β), with the stacked implicit derivatives of ``torch.distributions.Beta``."""
    source = np.random.Generator(np.random.SFC64(int(_seed(generator, 0, 2**62, ()))))
    draws = source.beta(*shapes.numpy().astype(np.float64))
    sample = torch.from_numpy(np.stack([draws, 1.0 - draws])).to(shapes.dtype)  # 1 − d before it is rounded
    low, high = _LIMITS[shapes.dtype]
    sample = sample.clamp(min=low)
    total = shapes.sum(0).expand_as(shapes).contiguous()
    # The kernel gives ∂d/∂α / (1−d) and ∂(1−d)/∂β / d, hence the factors.
    slopes = torch._dirichlet_grad(sample, shapes.contiguous(), total).mul_(sample.flip(0))
    # If one parameter is 10⁹ times the other, the kernel sometimes divides zero by zero; the derivative is tiny.
    slopes.nan_to_num_(0.0, 0.0, 0.0)
    slopes[1].neg_()  # 1−d grows with β as d grows with α
    return sample[0].clamp(max=high), slopes


@np.errstate(all="ignore")  # training that runs away shows in the loss
def _draw_fast(parameters: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw d for stacked (α, β), with derivatives smooth in them, as a Gamma draw's share of the sum of two."""
    source = np.random.SFC64(0)
    state: Any = source.state
    state["state"]["state"][:3] = _seed(generator, -(2**63), 2**63 - 1, (3,))
    source.state = state
    shapes = parameters.numpy().reshape(-1)
    n = len(shapes)
    noise = torch.empty(n, device=generator.device).normal_(generator=generator).cpu().numpy()  # ε
    bits = source.random_raw(-(-_UNIFORMS * n // 2)).view(np.uint32)[: _UNIFORMS * n].reshape(_UNIFORMS, n)
    accept_wait, *waits = -np.log((bits.astype(np.float32) + 0.5) * 2.0**-32)  # −log U
    _replace_refused(shapes, noise, accept_wait, np.random.Generator(source))
    root, spread = _root(shapes, noise)
    above = shapes + 1.0
    first, second = waits[0] / shapes, waits[1] / above
    log_draws = np.log(spread * root * root * root) - first - second
    slopes = (1.5 / root - 0.5) / spread + first / shapes + second / above
    logit = log_draws[: n // 2] - log_draws[n // 2 :]  # d = x/(x+y)
    small = np.exp(-np.abs(logit))
    over = 1.0 / (1.0 + small)
    draw = np.clip(np.where(logit >= 0.0, over, small * over), *_LIMITS[torch.float32])
    by_logit = small * over * over  # d·(1−d)
    slopes = slopes.reshape(2, -1) * np.stack([by_logit, -by_logit])
    shape = parameters.shape
    return torch.from_numpy(draw).reshape(shape[1:]), torch.from_numpy(slopes).reshape(shape)


def _replace_refused(
    shapes: NDArray[np.float32], noise: NDArray[np.float32], waits: NDArray[np.float32], numbers: np.random.Generator
) -> None:
    """Replace the normal numbers that Marsaglia and Tsang's test refuses by the first accepted of several tries."""
    left = np.flatnonzero(_is_refused(shapes, noise, waits))
    while len(left):
        tries = (_TRIES, len(left))
        tried = numbers.standard_normal(tries, dtype=np.float32)
        accepted = ~_is_refused(shapes[left], tried, numbers.standard_exponential(tries, dtype=np.float32))
        done = accepted.any(axis=0)
        noise[left[done]] = tried[accepted.argmax(axis=0), np.arange(len(left))][done]
        left = left[~done]


def _root(shapes: NDArray[np.float32], noise: NDArray[np.float32]) -> tuple[Any, Any]:
    """1 + ε/√(9a−3), and a − ⅓, for the raised shape a = α + 2."""
    spread = shapes + (2.0 - 1.0 / 3.0)
    return 1.0 + noise / np.sqrt(9.0 * spread), spread


def _is_refused(
    shapes: NDArray[np.float32], noise: NDArray[np.float32], waits: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Marsaglia and Tsang's test, with −log U = ``waits``. What is NaN is not refused: no other draw would help."""
    root, spread = _root(shapes, noise)
    log_root = np.log(np.maximum(root, np.finfo(np.float32).tiny))
    margin = 0.5 * noise * noise + spread * (1.0 - root * root * root + 3.0 * log_root) + waits
    refused: NDArray[np.bool_] = (margin <= 0.0) | (root <= 0.0)
    return refused
