"""KL divergence between Beta distributions with its derivatives, for a batch's worth of single-precision numbers.

log Γ, ψ and ψ₁ of the same arguments share most of their work: x is raised by three, Γ's recurrence takes the steps
back, and at x + 3 Stirling's series with a few terms is exact to single precision. In ``torch`` they are three passes,
two of them one number at a time.
"""

import math

import numpy as np
import torch

from onepos.methods.smile.beta_sampling import Numbers
from onepos.methods.smile.posterior import beta_kl_slopes, beta_kl_value

#: Coefficients B₂ₙ/(2n(2n−1)), B₂ₙ/2n and B₂ₙ of Stirling's series and its derivatives, in powers of 1/x².
_LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)


def log_gamma_and_slopes(x: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Log Γ(x), ψ(x) and ψ₁(x), elementwise, for positive x below 10¹²; exact to single precision.

    Examples
    --------
    >>> [round(float(value[0]), 4) for value in log_gamma_and_slopes(np.float32([3.0]))]
    [0.6931, 0.9228, 0.3949]
    """
    # P = x(x+1)(x+2): the three steps back take log P from log Γ, P'/P from ψ, and give (P'/P)² − P''/P to ψ₁.
    second, raised = x + 1.0, x + 3.0
    product = x + 2.0
    product *= x
    by_steps = 3.0 * product  # P' = 3x(x+2) + 2
    by_steps += 2.0
    product *= second
    curve = 6.0 * second  # P''
    over = 1.0 / product
    by_steps *= over
    curve *= over
    by_squares = by_steps * by_steps
    by_squares -= curve
    inverse = 1.0 / raised
    square = inverse * inverse
    log_raised = np.log(raised)
    log_gamma = _series(square, _LOG_GAMMA)
    log_gamma *= inverse
    log_gamma -= np.log(product)
    log_gamma -= raised
    log_gamma += 0.5 * math.log(2.0 * math.pi)
    raised -= 0.5
    raised *= log_raised
    log_gamma += raised
    digamma = _series(square, _DIGAMMA)
    digamma *= square
    digamma += by_steps
    trigamma = _series(square, _TRIGAMMA)
    trigamma *= inverse
    trigamma += 0.5
    trigamma *= square
    trigamma += inverse
    trigamma += by_squares
    inverse *= 0.5
    digamma += inverse
    np.subtract(log_raised, digamma, out=digamma)
    return log_gamma, digamma, trigamma


def _series(square: Numbers, coefficients: tuple[float, ...]) -> Numbers:
    total = square * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= square
    total += coefficients[0]
    return total


def log_beta_function(alpha: float, beta: float) -> float:
    """Log of Γ(α)Γ(β)/Γ(α+β)."""
    return math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)


def beta_kl_and_slopes(both: Numbers, prior: tuple[float, float]) -> tuple[float, Numbers]:
    """Sum of KL( Beta(α, β) ‖ Beta(α̂, β̂) ) over all entries of stacked (α, β), and its stacked derivatives."""
    prior_alpha, prior_beta = prior
    if both.dtype != np.float32:
        alpha, beta = torch.from_numpy(both)
        total = alpha + beta
        value = beta_kl_value(alpha, beta, total, prior_alpha, prior_beta).sum()
        return float(value), torch.stack(beta_kl_slopes(alpha, beta, total, prior_alpha, prior_beta)).numpy()
    n = both[0].size
    values: Numbers = np.empty((3, n), dtype=np.float32)  # α, β, α + β
    values[:2] = both.reshape(2, n)
    np.add(values[0], values[1], out=values[2])
    log_gamma, digamma, trigamma = log_gamma_and_slopes(values)
    if prior_alpha == prior_beta == 1.0:
        values[:2] -= 1.0
        values[2] -= 2.0
    else:
        values -= np.array([[prior_alpha], [prior_beta], [prior_alpha + prior_beta]], dtype=np.float32)
    trigamma *= values
    slopes = trigamma[:2]
    slopes -= trigamma[2]
    digamma *= values
    log_gamma -= digamma
    log_gamma[2] -= log_gamma[0]
    log_gamma[2] -= log_gamma[1]
    log_prior = log_beta_function(prior_alpha, prior_beta)
    return float(np.add.reduce(log_gamma[2])) + n * log_prior, slopes.reshape(both.shape)
