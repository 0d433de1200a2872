"""Exponential and logarithm in single precision, without branches or calls: loops over them become vector instructions.

The library functions that numba would call take one number at a time. Errors are below 2·10⁻⁷ of the result (of 0.1,
for logarithms near zero).
"""

import math

import numpy as np

from onepos.kernels.compilation import Scalar, inlined

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
