"""Draws from Beta(α, β) with their derivatives, compiled: the twin of ``onepos.methods.smile.beta_sampling``.

Gamma draws of shape α are accepted or refused first; the draw itself is computed once, from the normal numbers that
were accepted.
"""

import math

import numpy as np

from onepos.kernels.compilation import Array, Scalar, compiled, inlined

# Exponential and logarithm in single precision, without branches or calls: loops over them become vector
# instructions.


Single = np.float32
Integer = np.int32

#: Adding it to a number below 2²² puts the nearest integer into the lowest bits.
_ROUNDER = Single(1.5 * 2**23)
_LOWEST, _HIGHEST = Single(-87.0), Single(88.0)
_PER_LOG_2 = Single(1.0 / math.log(2.0))
#: log 2 in two parts, the first short enough that multiples of it are exact.
_LOG_2_SHORT = Single(355 / 512)
_LOG_2_REST = Single(math.log(2.0) - 355 / 512)
_LOG_2 = Single(math.log(2.0))
#: Bits of √½: mantissas are taken from [√½, √2).
_ROOT_OF_HALF = Integer(0x3F3504F3)
_ONE, _HALF = Single(1.0), Single(0.5)
_E3, _E4, _E5, _E6, _E7 = (Single(1.0 / math.factorial(n)) for n in (3, 4, 5, 6, 7))
_L3, _L5, _L7, _L9, _L11, _L13 = (Single(2.0 / n) for n in (3, 5, 7, 9, 11, 13))
_TWO = Single(2.0)


@inlined
def exponential(x: Scalar) -> Scalar:
    """eˣ, with x bounded to [−87, 88]: 2ᵏ·eʳ, r at most ½ log 2, eʳ by its series. NaN stays NaN."""
    x = _LOWEST if x < _LOWEST else x
    x = _HIGHEST if x > _HIGHEST else x
    shifted = x * _PER_LOG_2 + _ROUNDER
    k = shifted - _ROUNDER
    r = x - k * _LOG_2_SHORT
    r = r - k * _LOG_2_REST
    series = ((((_E7 * r + _E6) * r + _E5) * r + _E4) * r + _E3) * r + _HALF
    series = (series * r + _ONE) * r + _ONE
    power = np.int32((np.float32(shifted).view(np.int32) + Integer(127)) << Integer(23)).view(np.float32)
    return series * power


@inlined
def logarithm(x: Scalar) -> Scalar:
    """Log x for normal positive x: k·log 2 + 2·artanh((m−1)/(m+1)), x = m·2ᵏ, by its series."""
    bits = np.float32(x).view(np.int32)
    k = (bits - _ROOT_OF_HALF) >> Integer(23)
    m = np.int32(bits - (k << Integer(23))).view(np.float32)
    s = (m - _ONE) / (m + _ONE)
    t = s * s
    return ((((_L9 * t + _L7) * t + _L5) * t + _L3) * t + _TWO) * s + Single(k) * _LOG_2


@inlined
def softplus_and_sigmoid(x: Scalar) -> tuple[Scalar, Scalar]:
    """log(1 + eˣ) and 1/(1 + e⁻ˣ)."""
    small = exponential(-abs(x))  # e to minus |x|, at most 1
    over = _ONE / (_ONE + small)
    s = small / (_TWO + small)  # log(1 + small) = 2·artanh(s), s at most ⅓
    t = s * s
    rest = ((((((_L13 * t + _L11) * t + _L9) * t + _L7) * t + _L5) * t + _L3) * t + _TWO) * s
    return (x if x > 0 else Single(0.0)) + rest, over if x >= 0 else small * over


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
