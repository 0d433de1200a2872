"""The variational families against torch.distributions, numerical integration and simulation."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.autograd import gradcheck
from torch.distributions import Beta, Normal, kl_divergence

from onepos.methods.smile.posterior import beta_kl, gaussian_kl, sample_beta, sample_gaussian

PARAMETERS = [(0.5, 0.5), (1.0, 1.0), (2.0, 5.0), (30.0, 0.7), (0.05, 3.0)]


@pytest.mark.parametrize(("a", "b"), PARAMETERS)
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.3, 2.0)])
def test_beta_kl_equals_torch_and_integration(a, b, prior):
    alpha, beta = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    got = beta_kl(alpha, beta, *prior).item()
    reference = kl_divergence(Beta(alpha, beta), Beta(*torch.tensor(prior, dtype=torch.float64))).item()
    assert got == pytest.approx(reference, rel=1e-10, abs=1e-12)
    if min(a, b) >= 0.5:
        # Integrate over u with d = sin²(u): the substitution takes the singular ends away.
        q, p = stats.beta(a, b), stats.beta(*prior)

        def integrand(u):
            d = np.sin(u) ** 2
            return q.pdf(d) * (q.logpdf(d) - p.logpdf(d)) * 2 * np.sin(u) * np.cos(u)

        value, _ = integrate.quad(integrand, 0, np.pi / 2, limit=200)
        assert got == pytest.approx(value, rel=1e-6, abs=1e-8)


def test_beta_kl_is_zero_at_the_prior_and_positive_elsewhere():
    grid = torch.logspace(-2, 2, 21, dtype=torch.float64)
    alpha, beta = torch.meshgrid(grid, grid, indexing="ij")
    assert (beta_kl(alpha, beta, 1.0, 1.0) > -1e-12).all()
    assert beta_kl(torch.tensor(0.3), torch.tensor(2.0), 0.3, 2.0).item() == pytest.approx(0, abs=1e-6)


def test_gaussian_kl_equals_torch():
    mean = torch.linspace(-3, 3, 13, dtype=torch.float64)
    log_variance = torch.linspace(-4, 2, 13, dtype=torch.float64)
    reference = kl_divergence(Normal(mean, torch.exp(log_variance / 2)), Normal(0.0, 1.0))
    assert torch.allclose(gaussian_kl(mean, log_variance), reference, atol=1e-12)


def test_kl_gradients_match_finite_differences():
    alpha = torch.tensor([0.4, 1.0, 7.0], dtype=torch.float64, requires_grad=True)
    beta = torch.tensor([2.0, 0.3, 5.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda a, b: beta_kl(a, b, 1.0, 1.0), (alpha, beta))
    assert gradcheck(gaussian_kl, (alpha, beta))


@pytest.mark.parametrize(("a", "b"), PARAMETERS)
def test_beta_samples_follow_the_beta_law(a, b):
    generator = torch.Generator().manual_seed(7)
    size = (20_000,)
    draws = sample_beta(
        torch.full(size, a, dtype=torch.float64), torch.full(size, b, dtype=torch.float64), generator
    ).numpy()
    # Kolmogorov–Smirnov at a fixed seed: p below 1e-3 would mean another law.
    assert stats.kstest(draws, stats.beta(a, b).cdf).pvalue > 1e-3


def test_implicit_gradient_equals_the_derivative_of_the_quantile():
    # At a fixed quantile u, d = F⁻¹(u; α, β): the implicit gradient is ∂d/∂α at constant u.
    alpha = torch.tensor([0.7, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    beta = torch.tensor([1.5, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    draw = sample_beta(alpha, beta, torch.Generator().manual_seed(3))
    draw.sum().backward()
    d, a, b = draw.detach().numpy(), alpha.detach().numpy(), beta.detach().numpy()
    u, h = stats.beta.cdf(d, a, b), 1e-5
    by_alpha = (stats.beta.ppf(u, a + h, b) - stats.beta.ppf(u, a - h, b)) / (2 * h)
    by_beta = (stats.beta.ppf(u, a, b + h) - stats.beta.ppf(u, a, b - h)) / (2 * h)
    assert np.allclose(alpha.grad.numpy(), by_alpha, rtol=2e-3)
    assert np.allclose(beta.grad.numpy(), by_beta, rtol=2e-3)


def test_samples_stay_inside_the_open_interval_at_extreme_parameters():
    alpha = torch.tensor([1e-3, 1e3, 1e-3, 403.0]).repeat(1000)
    beta = torch.tensor([1e3, 1e-3, 1e-3, 403.0]).repeat(1000)
    draws = sample_beta(alpha, beta, torch.Generator().manual_seed(0))
    assert ((draws > 0) & (draws < 1)).all()


def test_sampling_leaves_the_global_generator_alone_and_repeats():
    before = torch.random.get_rng_state()
    ones = torch.ones(50)
    first = sample_beta(ones, ones, torch.Generator().manual_seed(1))
    second = sample_beta(ones, ones, torch.Generator().manual_seed(1))
    sample_gaussian(ones, ones, torch.Generator().manual_seed(1))
    assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_gaussian_samples_have_the_asked_moments():
    mean, log_variance = torch.full((100_000,), 1.5), torch.full((100_000,), float(np.log(4.0)))
    draws = sample_gaussian(mean, log_variance, torch.Generator().manual_seed(0))
    # Five standard errors: 2/√n for the mean, about √2·σ²/√n for the variance.
    assert abs(draws.mean().item() - 1.5) < 5 * 2 / np.sqrt(100_000)
    assert abs(draws.var().item() - 4.0) < 5 * np.sqrt(2) * 4 / np.sqrt(100_000)
