"""Log Γ, ψ and ψ₁ of one number: the formulas of ``onepos.beta_divergence``, for loops."""

import math

import numpy as np

from onepos.kernels.compilation import Scalar, inlined
from onepos.kernels.elementary import logarithm

Single = np.float32
_HALF_LOG_TAU = Single(0.5 * math.log(2.0 * math.pi))
_HALF, _ONE, _TWO, _THREE, _SIX = (Single(n) for n in (0.5, 1.0, 2.0, 3.0, 6.0))
_G1, _G2, _G3, _G4 = (Single(v) for v in (1 / 12, -1 / 360, 1 / 1260, -1 / 1680))
_D1, _D2, _D3, _D4, _D5 = (Single(v) for v in (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132))
_T1, _T2, _T3, _T4, _T5, _T6 = (Single(v) for v in (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730))


@inlined
def log_gamma_and_slopes(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Log Γ(x), ψ(x), ψ₁(x) for positive x: Stirling's series at x + 3, and the three steps back."""
    second = x + _ONE
    raised = x + _THREE
    pair = x * (x + _TWO)
    product = pair * second
    over = _ONE / product
    by_steps = (_THREE * pair + _TWO) * over
    by_squares = by_steps * by_steps - _SIX * second * over
    inverse = _ONE / raised
    square = inverse * inverse
    log_raised = logarithm(raised)
    log_gamma = (((_G4 * square + _G3) * square + _G2) * square + _G1) * inverse
    log_gamma = log_gamma - logarithm(product) - raised + _HALF_LOG_TAU + (raised - _HALF) * log_raised
    digamma = ((((_D5 * square + _D4) * square + _D3) * square + _D2) * square + _D1) * square
    digamma = log_raised - (digamma + by_steps + _HALF * inverse)
    trigamma = (((((_T6 * square + _T5) * square + _T4) * square + _T3) * square + _T2) * square + _T1) * inverse
    trigamma = (trigamma + _HALF) * square + inverse + by_squares
    return log_gamma, digamma, trigamma
