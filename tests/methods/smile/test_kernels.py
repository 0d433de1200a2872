"""Functions of single numbers in kernels, against NumPy and SciPy in double precision."""

import numpy as np
from scipy import special

from onepos.methods.smile._compilation import compiled
from onepos.methods.smile._kernels import exponential, log_gamma_and_slopes, logarithm, softplus_and_sigmoid


@compiled
def _exponentials(values, found):
    for i in range(len(values)):
        found[i] = exponential(values[i])


@compiled
def _logarithms(values, found):
    for i in range(len(values)):
        found[i] = logarithm(values[i])


@compiled
def _softplus_and_sigmoids(values, found):
    for i in range(len(values)):
        found[0, i], found[1, i] = softplus_and_sigmoid(values[i])


@compiled
def _gammas(values, found):
    for i in range(len(values)):
        found[0, i], found[1, i], found[2, i] = log_gamma_and_slopes(values[i])


def _applied(loop, values, n_results=None):
    found = np.empty(len(values) if n_results is None else (n_results, len(values)), dtype=np.float32)
    loop(values, found)
    return found


def test_exponential_is_exact_to_single_precision():
    values = np.linspace(-87, 88, 100_003).astype(np.float32)
    np.testing.assert_allclose(_applied(_exponentials, values), np.exp(values.astype(float)), rtol=2e-7)


def test_exponential_is_bounded_and_keeps_what_is_not_a_number():
    low, high, nothing = _applied(_exponentials, np.float32([-np.inf, np.inf, np.nan]))
    assert 0.0 < low < 1e-37
    assert 1e38 < high < np.inf
    assert np.isnan(nothing)


def test_logarithm_is_exact_to_single_precision():
    values = np.exp(np.linspace(-80, 80, 100_003)).astype(np.float32)
    expected = np.log(values.astype(float))
    assert np.all(np.abs(_applied(_logarithms, values) - expected) <= 2e-7 * np.maximum(np.abs(expected), 0.1))


def test_softplus_and_sigmoid_are_exact_on_both_sides():
    values = np.linspace(-80, 80, 100_003).astype(np.float32)
    softplus, sigmoid = _applied(_softplus_and_sigmoids, values, 2)
    np.testing.assert_allclose(softplus, np.logaddexp(0.0, values.astype(float)), rtol=4e-7)
    np.testing.assert_allclose(sigmoid, special.expit(values.astype(float)), rtol=4e-7)


def test_log_gamma_and_its_derivatives_are_those_of_scipy():
    values = np.exp(np.linspace(-6, 7, 50_001)).astype(np.float32)  # where α, β and their sum are
    exact = values.astype(float)
    log_gamma, digamma, trigamma = _applied(_gammas, values, 3)
    np.testing.assert_allclose(log_gamma, special.gammaln(exact), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(digamma, special.digamma(exact), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(trigamma, special.polygamma(1, exact), rtol=2e-6)
