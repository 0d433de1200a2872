"""Beta samples whose derivatives come with them: Gamma draws as smooth functions of their shape.

Marsaglia and Tsang (2000) draw a Gamma variable of shape a ≥ 1 as (a−⅓)(1 + ε/√(9a−3))³ with ε normal, accepted in more
than 97 of 100 cases here. A shape α below that is raised by two, and the draw multiplied by U₁^(1/α) U₂^(1/(α+1)): the
result is exactly Gamma(α), and differentiable in α with ε and U held fixed. What this derivative leaves out is the
dependence of the acceptance on α (Naesseth et al., 2017); with two steps it is off by less than 0.3 % in the mean
(tests/core/test_beta_sampling.py), and costs a quarter of the exact one.
"""

import numpy as np
import torch
from torch import Tensor

#: Steps by which the shape is raised.
_STEPS = 2


def draw_log_gamma(shape: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Return log of Gamma(shape, 1) draws, elementwise, and its derivative with respect to the shape.

    The logarithm, because draws of small shapes are too small for floating point.

    Examples
    --------
    >>> log_draw, slope = draw_log_gamma(torch.full((20000,), 3.0), torch.Generator().manual_seed(0))
    >>> draw = log_draw.exp()
    >>> round(float(draw.mean()), 1), round(float((draw * slope).mean()), 1)  # the mean is the shape, its slope 1
    (3.0, 1.0)
    """
    # NumPy draws exponentials five times as fast as torch does; seeded from the generator, so runs repeat all the same.
    numbers = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, (), generator=generator))))
    spread = shape + (_STEPS - 1 / 3)  # a − ⅓
    factor = (9.0 * spread).rsqrt_()
    noise = torch.empty_like(shape).normal_(generator=generator)
    root = 1.0 + factor * noise
    accepted = _accepted(noise, root, spread, _exponential(numbers, shape))
    if not bool(accepted.all()):
        again = torch.nonzero(~accepted.view(-1)).view(-1)
        noise.view(-1)[again] = _redraw(spread.view(-1)[again], factor.view(-1)[again], numbers)
        root = 1.0 + factor * noise
    log_draw = spread.log().add_(root.log(), alpha=3.0)
    # d/dα of log(a−⅓) + 3 log(1 + ε/√(9a−3))
    slope = factor.mul_(noise).div_(root).mul_(-1.5).add_(1.0).div_(spread)
    for step in range(_STEPS):
        exponential = _exponential(numbers, shape)  # −log U
        raised = shape + float(step)
        power = exponential / raised
        log_draw.sub_(power)
        slope.add_(power.div_(raised))
    return log_draw, slope


def _accepted(noise: Tensor, root: Tensor, spread: Tensor, exponential: Tensor) -> Tensor:
    """Accept where log U < ½ε² + (a−⅓)(1 − v + log v), v the cube of ``root``; NaN of a negative root is no."""
    margin = root.log().mul_(3.0).add_(1.0).sub_(root * root * root).mul_(spread)
    return margin.addcmul_(noise, noise, value=0.5).add_(exponential) > 0.0


def _redraw(spread: Tensor, factor: Tensor, numbers: np.random.Generator) -> Tensor:
    """Normal numbers that are accepted, for the few entries whose first ones were not."""
    result = torch.empty_like(spread)
    left = torch.arange(len(spread))
    while len(left):
        noise = torch.from_numpy(numbers.standard_normal(len(left))).to(spread.dtype)
        root = 1.0 + factor[left] * noise
        accepted = _accepted(noise, root, spread[left], _exponential(numbers, noise))
        result[left[accepted]] = noise[accepted]
        left = left[~accepted]
    return result


def _exponential(numbers: np.random.Generator, like: Tensor) -> Tensor:
    if like.dtype == torch.float32:
        return torch.from_numpy(numbers.standard_exponential(like.shape, dtype=np.float32))
    return torch.from_numpy(numbers.standard_exponential(like.shape)).to(like.dtype)
