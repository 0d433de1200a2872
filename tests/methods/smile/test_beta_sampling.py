"""Fast Beta draws: the exact law, and derivatives against closed forms and the exact implicit ones."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import special, stats

from onepos.methods.smile import beta_sampling
from onepos.methods.smile.beta_sampling import draw_log_gamma
from onepos.methods.smile.posterior import draw_beta, sample_beta

SHAPES = [0.003, 0.05, 0.5, 1.0, 3.0, 40.0, 400.0]
PAIRS = [(0.05, 3.0), (0.5, 0.5), (1.0, 1.0), (1.0, 10.0), (3.0, 1.0), (30.0, 0.7), (400.0, 400.0)]


def full(value, size, dtype=torch.float32, **options):
    return torch.full((size,), value, dtype=dtype, **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_draws_follow_the_gamma_law(shape):
    log_draw, _ = draw_log_gamma(np.full(20_000, shape), torch.Generator().manual_seed(3))
    # Through the distribution function. Draws of small shapes lie below the smallest number, where it is xᵅ / Γ(α+1).
    t = log_draw
    tail = np.exp(shape * t - special.gammaln(shape + 1))
    uniform = np.where(t < -700, tail, stats.gamma(shape).cdf(np.exp(np.maximum(t, -700))))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_derivative_is_that_of_the_mean(shape):
    """E[log x] = ψ(α), so the derivatives of log x have mean ψ₁(α)."""
    _, slope = draw_log_gamma(np.full(400_000, shape), torch.Generator().manual_seed(5))
    error = slope.std().item() / np.sqrt(len(slope))
    assert abs(slope.mean().item() - special.polygamma(1, shape)) < 0.003 * special.polygamma(1, shape) + 4 * error


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_beta_draws_follow_the_beta_law(a, b):
    size, kind = 20_000, torch.float64  # in single precision small draws are raised to 1e-19
    draws = sample_beta(full(a, size, kind), full(b, size, kind), torch.Generator().manual_seed(7), fast=True)
    assert draws.min() > 0
    assert draws.max() < 1
    assert stats.kstest(draws.numpy(), stats.beta(a, b).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("function", [lambda d: d, lambda d: d * d, lambda d: torch.sqrt(1 - d)])
def test_gradients_agree_with_the_exact_ones(a, b, function):
    """Of the mean of a function of d: fast and implicit gradients, each a mean over many draws."""
    found = {}
    for fast in (False, True):
        alpha = full(a, 300_000, torch.float64, requires_grad=True)
        beta = full(b, 300_000, torch.float64, requires_grad=True)
        function(sample_beta(alpha, beta, torch.Generator().manual_seed(11), fast=fast)).sum().backward()
        found[fast] = [(g.mean().item(), g.std().item() / np.sqrt(len(g))) for g in (alpha.grad, beta.grad)]
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


def test_draws_of_a_shape_that_is_no_number_end():
    shape = np.full(1000, 0.7, dtype=np.float32)
    shape[3] = np.nan
    found = draw_log_gamma(shape, torch.Generator().manual_seed(0))
    for values in found:
        assert np.isnan(values[3])
        assert np.isfinite(np.delete(values, 3)).all()


@pytest.mark.parametrize("tries", [1, 8])
@pytest.mark.parametrize("shape", [0.05, 1.0, 40.0])
def test_what_is_drawn_again_follows_the_law(monkeypatch, tries, shape):
    """Refused draws are too few for the tests above to see: here all of them are."""
    monkeypatch.setattr(beta_sampling, "_TRIES", tries)
    spread = np.full(20_000, shape + 2 - 1 / 3)
    factor = 1 / np.sqrt(9 * spread)
    noise = beta_sampling._redraw(spread, factor, np.random.default_rng(0))
    draws = spread * (1 + factor * noise) ** 3
    assert stats.kstest(draws, stats.gamma(shape + 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("fast", [False, True])
def test_draws_repeat_from_a_saved_state_and_beside_other_threads(fast):
    both = np.full((2, 500), 0.8, dtype=np.float32)

    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        state = generator.get_state()
        first = [draw_beta(both, generator, fast=fast)[0] for _ in range(20)]
        generator.set_state(state)
        again = [draw_beta(both, generator, fast=fast)[0] for _ in range(20)]
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
