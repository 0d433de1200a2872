"""Compiled Beta draws: those of NumPy from the same random numbers, and distributed as they should be."""

import numpy as np
import pytest
import torch
from scipy import stats

pytest.importorskip("numba")

from onepos import kernels
from onepos.methods.smile.beta_sampling import draw_smooth_beta


def _both_ways(parameters, seed, monkeypatch):
    compiled = draw_smooth_beta(parameters, torch.Generator().manual_seed(seed))
    with monkeypatch.context() as patched:
        patched.setattr(kernels, "available", lambda: False)
        interpreted = draw_smooth_beta(parameters, torch.Generator().manual_seed(seed))
    return compiled, interpreted


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(2, 1), (2, 16, 101), (2, 3, 7)])
def test_they_are_those_of_numpy(shape, seed, monkeypatch):
    parameters = np.exp(np.random.default_rng(seed).normal(scale=2.0, size=shape)).astype(np.float32)
    (draw, slopes), (expected, expected_slopes) = _both_ways(parameters, seed, monkeypatch)
    assert draw.shape == shape[1:]
    np.testing.assert_allclose(draw, expected, atol=5e-6)
    np.testing.assert_allclose(slopes, expected_slopes, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(0.01, 0.02), (0.3, 2.0), (1.0, 1.0), (40.0, 7.0), (400.0, 400.0)])
def test_they_have_the_beta_distribution(alpha, beta):
    parameters = np.stack([np.full(50_000, alpha), np.full(50_000, beta)]).astype(np.float32)
    draw, _ = draw_smooth_beta(parameters, torch.Generator().manual_seed(5))
    inside = draw[(draw > 1e-6) & (draw < 1 - 1e-6)]  # what single precision can tell apart
    distribution = stats.beta(np.float32(alpha), np.float32(beta))
    low, high = distribution.cdf(1e-6), distribution.cdf(1 - 1e-6)
    assert abs(len(inside) / len(draw) - (high - low)) < 0.012
    assert stats.kstest(inside, lambda x: (distribution.cdf(x) - low) / (high - low)).pvalue > 1e-3


def test_parameters_that_are_no_numbers_end_and_stay_so():
    parameters = np.full((2, 40), 2.0, dtype=np.float32)
    parameters[0, ::3] = np.nan
    draw, _ = draw_smooth_beta(parameters, torch.Generator().manual_seed(0))
    assert np.isnan(draw[::3]).all()
    assert np.isfinite(np.delete(draw, np.s_[::3])).all()
