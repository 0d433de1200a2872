"""The Beta distributions of soft labels: divergence from the uniform prior, and draws with their derivatives.

Draws from Beta(α, β) come with their derivatives, in one of two ways:

- Implicit derivatives (Figurnov et al., 2018): ∂d/∂α = −(∂F/∂α) / p(d), F the distribution function. They are exact.
- Fast draws, in single precision on the CPU. Marsaglia and Tsang (2000) draw a Gamma variable of shape a ≥ 1 as
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

#: Elements computed together: intermediate results stay in the processor's cache.
_BLOCK = 1 << 13
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


def sample_beta(alpha: Tensor, beta: Tensor, generator: torch.Generator | None = None, *, fast: bool = False) -> Tensor:
    """Differentiable sample d ~ Beta(α, β), elementwise, inside the open interval (0, 1).

    ``fast`` takes the fast draws in single precision on the CPU, and changes nothing elsewhere.
    """
    both = torch.stack([alpha, beta])
    shapes = both.detach()
    if shapes.device.type == "cpu":
        draw, slopes = map(torch.from_numpy, draw_beta(shapes.numpy(), generator, fast=fast))
    else:
        sample = torch._sample_dirichlet(shapes.movedim(0, -1).contiguous(), generator=generator).movedim(-1, 0)
        draw, slopes = _with_slopes(sample, shapes)
    # The second term is zero, and has the derivatives.
    return draw + (slopes * (both - shapes)).sum(dim=0)


def draw_beta(
    shapes: NDArray[Any], generator: torch.Generator | None = None, *, fast: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw d from Beta(α, β) for stacked (α, β); returns d and the stacked (∂d/∂α, ∂d/∂β); arrays, on the CPU.

    Examples
    --------
    >>> both = np.full((2, 20000), 2.0, dtype=np.float32)
    >>> draw, slopes = draw_beta(both, torch.Generator().manual_seed(0), fast=True)
    >>> round(float(draw.mean()), 1), (slopes.mean(axis=1) * 8).round(1).tolist()  # α/(α+β), ±β/(α+β)²
    (0.5, [1.0, -1.0])
    """
    if fast and shapes.dtype == np.float32:
        return _draw_fast(shapes, generator)
    # NumPy draws twice as fast as torch; its seed comes from the generator, so runs repeat.
    seed = int(torch.randint(2**62, (), generator=generator))
    draws = np.random.Generator(np.random.SFC64(seed)).beta(*shapes.astype(np.float64))
    sample = np.stack([draws, 1.0 - draws]).astype(shapes.dtype)  # 1 − d before it is rounded
    draw, slopes = _with_slopes(torch.from_numpy(sample), torch.from_numpy(shapes))
    return draw.numpy(), slopes.numpy()


def _bounds(dtype: torch.dtype) -> tuple[float, float]:
    """Lowest and highest d. Small α put mass so close to 0 that floating point rounds it onto 0.

    The lowest is the root of the smallest normal number: products of two samples stay normal, and denormal arithmetic
    is slow.
    """
    kind = torch.finfo(dtype)
    return math.sqrt(kind.tiny), 1.0 - kind.eps


def _with_slopes(sample: Tensor, shapes: Tensor) -> tuple[Tensor, Tensor]:
    """Return d and its implicit derivatives from stacked (d, 1−d), by the kernel of ``torch.distributions.Beta``."""
    low, high = _bounds(sample.dtype)
    sample = sample.clamp(min=low)
    total = shapes.sum(0).expand_as(shapes).contiguous()
    # The kernel gives ∂d/∂α / (1−d) and ∂(1−d)/∂β / d, hence the factors.
    slopes = torch._dirichlet_grad(sample, shapes, total).mul_(sample.flip(0))
    # If one parameter is 10⁹ times the other, the kernel sometimes divides zero by zero; the derivative is tiny.
    slopes.nan_to_num_(0.0, 0.0, 0.0)
    slopes[1].neg_()  # 1−d grows with β as d grows with α
    return sample[0].clamp(max=high), slopes


@np.errstate(all="ignore")  # training that runs away shows in the loss
def _draw_fast(
    parameters: NDArray[np.float32], generator: torch.Generator | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    # NumPy's generator draws faster than torch's. Its state comes from torch's, so that runs repeat and resume.
    source = np.random.SFC64(0)
    state: Any = source.state
    state["state"]["state"][:3] = torch.randint(-(2**63), 2**63 - 1, (3,), generator=generator).numpy()
    source.state = state
    shapes = parameters.reshape(-1)
    n = len(shapes)
    noise = torch.empty(n).normal_(generator=generator).numpy()  # ε
    bits = source.random_raw(-(-_UNIFORMS * n // 2)).view(np.uint32)[: _UNIFORMS * n].reshape(_UNIFORMS, n)
    _accept(shapes, noise, bits[0], np.random.Generator(source))
    log_draws, by_shapes = np.empty((2, n), dtype=np.float32)
    for start in range(0, n, _BLOCK):
        part = slice(start, start + _BLOCK)
        log_draws[part], by_shapes[part] = _log_gamma_draw(shapes[part], noise[part], *_waits(bits[1:, part]))
    draw, slopes = np.empty(n // 2, dtype=np.float32), by_shapes.reshape(2, -1)
    for start in range(0, n // 2, _BLOCK):
        part = slice(start, start + _BLOCK)
        logit = log_draws[: n // 2][part] - log_draws[n // 2 :][part]  # d = x/(x+y)
        small = np.exp(-np.abs(logit))
        over = 1.0 / (1.0 + small)
        draw[part] = np.where(logit >= 0.0, over, small * over)
        small *= over * over  # d·(1−d)
        slopes[0, part] *= small
        slopes[1, part] *= -small
    np.clip(draw, *_bounds(torch.float32), out=draw)
    return draw.reshape(parameters.shape[1:]), slopes.reshape(parameters.shape)


def _waits(bits: NDArray[np.uint32]) -> Any:
    """−log U for 32 random bits, U in the middle of its 2³²nd part of (0, 1)."""
    uniform = bits.astype(np.float32)
    uniform += 0.5
    uniform *= 2.0**-32
    return -np.log(uniform)


def _accept(
    shapes: NDArray[np.float32], noise: NDArray[np.float32], bits: NDArray[np.uint32], numbers: np.random.Generator
) -> None:
    """Replace the normal numbers that Marsaglia and Tsang's test refuses by the first accepted of several tries."""
    possible = []
    for start in range(0, len(shapes), _BLOCK):
        part = slice(start, start + _BLOCK)
        fourth = np.square(np.square(noise[part]))
        # Their squeeze: U < 1 − 0.0331·ε⁴ is always accepted, and needs no logarithm.
        possible.append(start + np.flatnonzero(bits[part].astype(np.float32) >= 2.0**32 - 0.0331 * 2.0**32 * fourth))
    left = np.concatenate(possible)
    left = left[_is_refused(shapes[left], noise[left], _waits(bits[left]))]
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


def _log_gamma_draw(
    shapes: NDArray[np.float32],
    noise: NDArray[np.float32],
    first: NDArray[np.float32],
    second: NDArray[np.float32],
) -> tuple[Any, Any]:
    """Log of a Gamma draw of shape α and its derivative, from ε and two −log U."""
    root, spread = _root(shapes, noise)
    above = shapes + 1.0
    first, second = first / shapes, second / above
    log_draw = np.log(spread * root * root * root) - first - second
    slope = (1.5 / root - 0.5) / spread + first / shapes + second / above
    return log_draw, slope
