"""Draws from Beta(α, β) with their derivatives, compiled: the twin of ``onepos.beta_sampling``.

Gamma draws of shape α are accepted or refused first; the draw itself is computed once, from the normal numbers that
were accepted.
"""

import numpy as np

from onepos.kernels.compilation import Array, Scalar, compiled, inlined
from onepos.kernels.elementary import exponential, logarithm

Single = np.float32
_STEPS_LESS_THIRD = Single(2.0 - 1.0 / 3.0)
_ONE, _NINE = Single(1.0), Single(9.0)
_PART = Single(2.0**-32)
#: The lowest positive normal number.
_TINY = Single(np.finfo(np.float32).tiny)


@inlined
def _root(alpha: Scalar, noise: Scalar) -> tuple[Scalar, Scalar]:
    """1 + ε/√(9a−3), and a − ⅓, for the raised shape a."""
    spread = alpha + _STEPS_LESS_THIRD
    return _ONE + noise / np.sqrt(_NINE * spread), spread


@inlined
def wait(bits: Scalar) -> Scalar:
    """−log U for 32 random bits, U in the middle of its 2³²nd part of (0, 1)."""
    return -logarithm((Single(bits) + Single(0.5)) * _PART)


@inlined
def _is_refused(alpha: Scalar, noise: Scalar, wait: Scalar) -> Scalar:
    """Marsaglia and Tsang's test, with −log U = ``wait``. What is NaN is not refused: no other draw would help."""
    root, spread = _root(alpha, noise)
    log_root = logarithm(max(root, _TINY))
    margin = Single(0.5) * noise * noise + spread * (_ONE - root * root * root + Single(3.0) * log_root) + wait
    return margin <= 0 or root <= 0


@compiled
def refused(shapes: Array, noise: Array, bits: Array) -> Array:
    """Places of the draws that are refused."""
    marks = np.empty(len(shapes), np.bool_)
    count = 0
    for i in range(len(shapes)):
        marks[i] = _is_refused(shapes[i], noise[i], wait(bits[i]))
        count += marks[i]
    places = np.empty(count, np.int64)
    count = 0
    for i in range(len(shapes)):
        if marks[i]:
            places[count] = i
            count += 1
    return places


@compiled
def retry(shapes: Array, noise: Array, places: Array, tries: Array, waits: Array) -> Array:
    """Put the first accepted of several tries, (tries, places), into ``noise``; the places where there is none."""
    left = np.empty_like(places)
    count = 0
    for column in range(len(places)):
        place = places[column]
        found = False
        for row in range(tries.shape[0]):
            if not _is_refused(shapes[place], tries[row, column], waits[row, column]):
                noise[place] = tries[row, column]
                found = True
                break
        if not found:
            left[count] = place
            count += 1
    return left[:count]


@inlined
def _log_draw(alpha: Scalar, noise: Scalar, first: Scalar, second: Scalar) -> tuple[Scalar, Scalar]:
    """Log of a Gamma draw of shape α and its derivative, from ε and two −log U."""
    root, spread = _root(alpha, noise)
    above = alpha + _ONE
    first, second = first / alpha, second / above
    log_draw = logarithm(spread) + Single(3.0) * logarithm(root) - first - second
    slope = (_ONE - Single(1.5) * (root - _ONE) / root) / spread + first / alpha + second / above
    return log_draw, slope


@compiled
def beta_draws(shapes: Array, noise: Array, bits: Array) -> tuple[Array, Array]:
    """Beta draws d and (∂d/∂α, −∂d/∂β), from stacked shapes, (2, n), normal numbers, (2, n), and bits, (2, 2, n)."""
    n = shapes.shape[1]
    draws, slopes = np.empty(n, Single), np.empty((2, n), Single)
    for i in range(n):
        log_x, by_alpha = _log_draw(shapes[0, i], noise[0, i], wait(bits[0, 0, i]), wait(bits[1, 0, i]))
        log_y, by_beta = _log_draw(shapes[1, i], noise[1, i], wait(bits[0, 1, i]), wait(bits[1, 1, i]))
        logit = log_x - log_y  # d = x/(x+y)
        small = exponential(-abs(logit))
        over = _ONE / (_ONE + small)
        product = small * over * over  # d·(1−d)
        draws[i] = over if logit >= 0 else small * over
        slopes[0, i] = by_alpha * product
        slopes[1, i] = by_beta * product
    return draws, slopes
