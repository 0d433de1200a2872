"""The variational families against torch.distributions, numerical integration and simulation."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.autograd import gradcheck
from torch.distributions import Beta, Normal, kl_divergence

from onepos.methods.smile import beta as beta_module
from onepos.methods.smile.beta import beta_kl, sample_beta
from onepos.methods.smile.enhancement import gaussian_kl, sample_gaussian

PARAMETERS = [(0.5, 0.5), (1.0, 1.0), (2.0, 5.0), (30.0, 0.7), (0.05, 3.0)]


@pytest.mark.parametrize(("a", "b"), PARAMETERS)
def test_beta_kl_equals_torch_and_integration(a, b):
    alpha, beta = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    got = beta_kl(alpha, beta).item()
    reference = kl_divergence(Beta(alpha, beta), Beta(*torch.ones(2, dtype=torch.float64))).item()
    assert got == pytest.approx(reference, rel=1e-10, abs=1e-12)
    if min(a, b) >= 0.5:
        # Integrate over u with d = sin²(u): the substitution takes the singular ends away.
        q = stats.beta(a, b)  # the logarithm of the prior is 0

        def integrand(u):
            d = np.sin(u) ** 2
            return q.pdf(d) * q.logpdf(d) * 2 * np.sin(u) * np.cos(u)

        value, _ = integrate.quad(integrand, 0, np.pi / 2, limit=200)
        assert got == pytest.approx(value, rel=1e-6, abs=1e-8)


def test_beta_kl_is_zero_at_the_prior_and_positive_elsewhere():
    grid = torch.logspace(-2, 2, 21, dtype=torch.float64)
    alpha, beta = torch.meshgrid(grid, grid, indexing="ij")
    assert (beta_kl(alpha, beta) > -1e-12).all()
    assert beta_kl(torch.tensor(1.0), torch.tensor(1.0)).item() == pytest.approx(0, abs=1e-6)


def test_gaussian_kl_equals_torch():
    mean = torch.linspace(-3, 3, 13, dtype=torch.float64)
    log_variance = torch.linspace(-4, 2, 13, dtype=torch.float64)
    reference = kl_divergence(Normal(mean, torch.exp(log_variance / 2)), Normal(0.0, 1.0))
    assert torch.allclose(gaussian_kl(mean, log_variance), reference, atol=1e-12)


def test_kl_gradients_match_finite_differences():
    alpha = torch.tensor([0.4, 1.0, 7.0], dtype=torch.float64, requires_grad=True)
    beta = torch.tensor([2.0, 0.3, 5.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(beta_kl, (alpha, beta))
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


PAIRS = [(0.05, 3.0), (0.5, 0.5), (1.0, 1.0), (1.0, 10.0), (3.0, 1.0), (30.0, 0.7), (400.0, 400.0)]


def full(value, size, **options):
    return torch.full((size,), value, **options)


@pytest.mark.parametrize("tries", [1, 8])
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_fast_draws_follow_the_beta_law(a, b, tries, monkeypatch):
    monkeypatch.setattr(beta_module, "_TRIES", tries)
    draws = sample_beta(full(a, 50_000), full(b, 50_000), torch.Generator().manual_seed(7), fast=True).numpy()
    inside = draws[(draws > 1e-6) & (draws < 1 - 1e-6)]  # what single precision can tell apart
    distribution = stats.beta(np.float32(a), np.float32(b))
    low, high = distribution.cdf(1e-6), distribution.cdf(1 - 1e-6)
    assert abs(len(inside) / len(draws) - (high - low)) < 0.012
    assert stats.kstest(inside, lambda x: (distribution.cdf(x) - low) / (high - low)).pvalue > 1e-3


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("function", [lambda d: d, lambda d: d * d, lambda d: torch.sqrt(1 - d)])
def test_gradients_of_fast_draws_agree_with_the_exact_ones(a, b, function):
    """Of the mean of a function of d: fast and implicit gradients, each a mean over many draws."""
    found = {}
    for fast in (False, True):
        alpha, beta = full(a, 300_000, requires_grad=True), full(b, 300_000, requires_grad=True)
        function(sample_beta(alpha, beta, torch.Generator().manual_seed(11), fast=fast)).sum().backward()
        slopes = [alpha.grad.double(), beta.grad.double()]
        found[fast] = [(g.mean().item(), g.std().item() / np.sqrt(len(g))) for g in slopes]
    for (exact, exact_error), (quick, quick_error) in zip(found[False], found[True], strict=True):
        assert abs(quick - exact) < 0.005 * abs(exact) + 4 * np.hypot(exact_error, quick_error)


def test_the_same_generator_gives_the_same_draws():
    first, again, other = (
        sample_beta(full(0.4, 1000), full(2.0, 1000), torch.Generator().manual_seed(seed), fast=True)
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_finite_at_extreme_parameters():
    grid = torch.logspace(-6, 6, 25)
    alpha, beta = torch.meshgrid(grid, grid, indexing="ij")
    alpha, beta = alpha.clone().requires_grad_(), beta.clone().requires_grad_()
    draw = sample_beta(alpha, beta, torch.Generator().manual_seed(0), fast=True)
    draw.sum().backward()
    for values in (draw, alpha.grad, beta.grad):
        assert torch.isfinite(values).all()


def test_parameters_that_are_no_numbers_end_and_stay_so():
    alpha = full(2.0, 40)
    alpha[::3] = torch.nan
    draw = sample_beta(alpha, full(2.0, 40), torch.Generator().manual_seed(0), fast=True).numpy()
    assert np.isnan(draw[::3]).all()
    assert np.isfinite(np.delete(draw, np.s_[::3])).all()


@pytest.mark.parametrize("fast", [False, True])
def test_draws_repeat_from_a_saved_state_and_beside_other_threads(fast):
    both = full(0.8, 500), full(0.8, 500)

    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        state = generator.get_state()
        first = [sample_beta(*both, generator, fast=fast).numpy() for _ in range(20)]
        generator.set_state(state)
        again = [sample_beta(*both, generator, fast=fast).numpy() for _ in range(20)]
        assert np.array_equal(first, again)
        return first[-1]

    alone = [draw(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        beside = list(threads.map(draw, range(4)))
    assert all(np.array_equal(a, b) for a, b in zip(alone, beside, strict=True))
    assert not np.array_equal(alone[0], alone[1])


@pytest.mark.parametrize("fast", [False, True])
def test_a_single_number_is_drawn(fast):
    draw = sample_beta(torch.tensor(2.0), torch.tensor(3.0), torch.Generator().manual_seed(0), fast=fast)
    assert draw.shape == ()
    assert 0 < draw < 1
