"""Beta samples whose derivatives come with them: Gamma draws as smooth functions of their shape.

Marsaglia and Tsang (2000) draw a Gamma variable of shape a ≥ 1 as (a−⅓)(1 + ε/√(9a−3))³ with ε normal, accepted in more
than 97 of 100 cases here. A shape α below that is raised by two, and the draw multiplied by U₁^(1/α) U₂^(1/(α+1)): the
result is exactly Gamma(α), and differentiable in α with ε and U held fixed. What this derivative leaves out is the
dependence of the acceptance on α (Naesseth et al., 2017); with two steps it is off by less than 0.3 % in the mean
(tests/core/test_beta_sampling.py), and costs a quarter of the exact one.
"""

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers: TypeAlias = NDArray[Any]

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
    # NumPy: it draws exponentials faster than torch does, and its calls cost less, which counts for a batch of 16 rows.
    # Seeded from the generator, so runs repeat all the same.
    numbers = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, (), generator=generator))))
    alpha: Numbers = shape.detach().numpy().reshape(-1)
    spread = alpha + (_STEPS - 1 / 3)  # a − ⅓
    factor = 1.0 / np.sqrt(9.0 * spread)
    noise: Numbers = torch.empty_like(shape).normal_(generator=generator).numpy().reshape(-1)
    root = 1.0 + factor * noise
    log_root = _log(root)
    again = np.flatnonzero(~_accepted(noise, root, log_root, spread, numbers))
    if len(again):
        noise[again] = _redraw(spread[again], factor[again], numbers)
        root[again] = 1.0 + factor[again] * noise[again]
        log_root[again] = np.log(root[again])
    log_draw = np.log(spread) + 3.0 * log_root
    # d/dα of log(a−⅓) + 3 log(1 + ε/√(9a−3))
    slope = (1.0 - 1.5 * factor * noise / root) / spread
    for step in range(_STEPS):
        raised = alpha + float(step)
        power = numbers.standard_exponential(alpha.shape, dtype=alpha.dtype) / raised  # −log U / (α + step)
        log_draw -= power
        slope += power / raised
    return torch.from_numpy(log_draw).view(shape.shape), torch.from_numpy(slope).view(shape.shape)


def _accepted(
    noise: Numbers, root: Numbers, log_root: Numbers, spread: Numbers, numbers: np.random.Generator
) -> NDArray[np.bool_]:
    """Accept where log U < ½ε² + (a−⅓)(1 − v + log v), v the cube of ``root``; NaN of a negative root is no."""
    margin = 0.5 * noise * noise + spread * (1.0 - root * root * root + 3.0 * log_root)
    accepted: NDArray[np.bool_] = margin + numbers.standard_exponential(noise.shape, dtype=noise.dtype) > 0.0
    return accepted


def _redraw(spread: Numbers, factor: Numbers, numbers: np.random.Generator) -> Numbers:
    """Normal numbers that are accepted, for the few entries whose first ones were not."""
    result = np.empty_like(spread)
    left = np.arange(len(spread))
    while len(left):
        noise = numbers.standard_normal(len(left), dtype=spread.dtype)
        root = 1.0 + factor[left] * noise
        accepted = _accepted(noise, root, _log(root), spread[left], numbers)
        result[left[accepted]] = noise[accepted]
        left = left[~accepted]
    return result


def _log(root: Numbers) -> Numbers:
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithm: Numbers = np.log(root)
    return logarithm
