"""Functions of the written-out gradient, against SciPy and torch in double precision."""

import numpy as np
import pytest
import torch
from scipy import special

from onepos.methods.smile import beta as beta_module
from onepos.methods.smile import gradient
from onepos.methods.smile.beta import beta_kl, draw_beta
from onepos.methods.smile.gradient import beta_divergence, log_gamma_and_slopes


def test_log_gamma_and_its_derivatives_are_those_of_scipy():
    values = np.exp(np.linspace(-6, 7, 50_001)).astype(np.float32)  # where α, β and their sum are
    exact = values.astype(float)
    log_gamma, digamma, trigamma = log_gamma_and_slopes(values)
    np.testing.assert_allclose(log_gamma, special.gammaln(exact), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(digamma, special.digamma(exact), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(trigamma, special.polygamma(1, exact), rtol=2e-6)


@pytest.mark.parametrize("block", [1 << 13, 7])
def test_the_divergence_and_its_derivatives_are_those_of_torch(monkeypatch, block):
    monkeypatch.setattr(gradient, "_BLOCK", block)
    shapes = np.exp(np.random.default_rng(0).uniform(-3, 3, (2, 5, 9))).astype(np.float32)
    total, by_shapes = beta_divergence(*shapes)
    exact = torch.from_numpy(shapes.astype(float)).requires_grad_()
    expected = beta_kl(*exact).sum()
    expected.backward()
    assert total == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(by_shapes, exact.grad, rtol=1e-4, atol=1e-5)


def test_the_size_of_blocks_does_not_change_the_draws(monkeypatch):
    shapes = np.exp(np.random.default_rng(0).uniform(-3, 3, (2, 5, 99))).astype(np.float32)
    whole = draw_beta(shapes, torch.Generator().manual_seed(0), fast=True)
    monkeypatch.setattr(beta_module, "_BLOCK", 16)
    parts = draw_beta(shapes, torch.Generator().manual_seed(0), fast=True)
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_array_equal(parts[1], whole[1])
