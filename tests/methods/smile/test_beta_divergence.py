"""log Γ, ψ, ψ₁ in one go and the divergence made of them, against SciPy in double precision and torch."""

import numpy as np
import pytest
import torch
from scipy import special

from onepos.methods.smile.beta_divergence import beta_kl_and_slopes, log_gamma_and_slopes
from onepos.methods.smile.posterior import beta_kl

EXACT = (special.gammaln, special.digamma, lambda x: special.zeta(2, x))


@pytest.mark.parametrize("place", range(3))
def test_equals_scipy(place):
    x = np.exp(np.linspace(-7, 13, 20_001)).astype(np.float32)
    found, expected = log_gamma_and_slopes(x)[place], EXACT[place](x.astype(np.float64))
    assert np.all(np.abs(found - expected) <= 3e-6 * np.maximum(np.abs(expected), 1.0))


#: First term that each series leaves out, at 1 / (x + 3): what it is off by, at most.
LEFT_OUT = (
    lambda inverse: inverse**9 / 1188,
    lambda inverse: 691 / 32760 * inverse**12,
    lambda inverse: 7 / 6 * inverse**15,
)


@pytest.mark.parametrize("place", range(3))
def test_series_is_off_by_less_than_its_next_term(place):
    x = np.exp(np.linspace(-3, 3, 2001))
    found, expected = log_gamma_and_slopes(x)[place], EXACT[place](x)
    rounding = 1e-14 * (1.0 + np.abs(expected)) * (1.0 + np.abs(np.log(x)))
    assert np.all(np.abs(found - expected) <= LEFT_OUT[place](1.0 / (x + 3.0)) + rounding)


@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.4, 2.5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_divergence_and_slopes(prior, dtype):
    both = (torch.randn(2, 30, 20, generator=torch.Generator().manual_seed(0)) * 2.5).clamp(-6, 6).exp().to(dtype)
    exact = both.double().clone().requires_grad_()
    expected = beta_kl(exact[0], exact[1], *prior).sum()
    (slopes,) = torch.autograd.grad(expected, exact)
    before = both.clone()
    found, slopes_found = beta_kl_and_slopes(both.numpy(), prior)
    by_both = torch.from_numpy(slopes_found)
    assert torch.equal(both, before)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert found == pytest.approx(expected.item(), rel=tolerance)
    # A slope is the difference of two terms: it is as exact as they are.
    both, total = both.double(), both.double().sum(0)
    terms = ((both - torch.tensor(prior)[:, None, None]) * torch.polygamma(1, both)).abs()
    terms = terms + ((total - sum(prior)) * torch.polygamma(1, total)).abs()
    assert bool(((by_both - slopes).abs() <= tolerance / 10 * terms).all())
    assert by_both.shape == both.shape


def test_zero_at_the_prior():
    found, slopes = beta_kl_and_slopes(np.ones((2, 4, 3), dtype=np.float32), (1.0, 1.0))
    assert abs(found) < 1e-4
    assert np.abs(slopes).max() < 1e-6
