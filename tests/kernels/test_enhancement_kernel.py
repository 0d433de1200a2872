"""T_LE compiled, against T_LE in NumPy and torch from the same random numbers."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln

pytest.importorskip("numba")

from onepos import kernels
from onepos.methods.smile.enhancement_gradient import Given, loss_and_gradients
from onepos.training.networks import MLP


def _problem(seed, size=5, n_features=7, n_labels=6, *, scale=1.0, elbo_weight=0.1, prior=(1.0, 1.0)):
    """Log parameters, parameters of the networks, and the rest; ``scale`` takes log σ² past its bounds."""
    generator = torch.Generator().manual_seed(seed)
    log_parameters = torch.randn(size, 2 * n_labels, generator=generator).mul_(2.0)
    hidden, latent = 5, 3
    shapes = [n_features + n_labels, hidden, 2 * latent], [n_labels, hidden, n_labels], [n_labels + latent, hidden]
    networks = [MLP(shapes[0], generator=generator), MLP(shapes[1], generator=generator)]
    networks.append(MLP([*shapes[2], n_features], generator=generator))
    parameters = [p.detach().mul_(scale) for network in networks for p in network.parameters()]
    targets = torch.zeros(size, n_labels)
    targets[torch.arange(size), torch.randint(n_labels, (size,), generator=generator)] = 1.0
    weights = (0.3 + 0.7 * targets).numpy()
    adjacency = (torch.rand(size, size, generator=generator) < 0.3).float()
    features = torch.randn(size, n_features, generator=generator)
    rest = {"elbo_weight": elbo_weight, "prior": prior, "fast_draws": True}
    return log_parameters, parameters, (features, 1.7, targets, weights, adjacency), rest


def _computed(problem, monkeypatch, *, compiled):
    log_parameters, parameters, data, rest = problem
    given_batch = Given(*data, generator=torch.Generator().manual_seed(3), **rest)
    with monkeypatch.context() as patched:
        patched.setattr(kernels, "available", lambda: compiled)
        return loss_and_gradients(given_batch, log_parameters, parameters)


def _rounding(problem):
    """How far two single-precision computations of T_LE may differ: their terms are larger than their sum.

    With α of some thousands, log Γ and ψ in the divergence are near 10⁵ and cancel to about 10; each side may be wrong
    by the precision of what cancels.
    """
    log_parameters, _, data, rest = problem
    alpha, beta = np.split(np.exp(log_parameters.numpy().astype(np.float64)), 2, axis=1)
    prior_alpha, prior_beta = rest["prior"]
    terms = 0.0
    for x, more in [(alpha, prior_alpha), (beta, prior_beta), (alpha + beta, prior_alpha + prior_beta)]:
        terms += (np.abs(gammaln(x)) + np.abs((x - more) * digamma(x))).sum()
    return 2 * np.finfo(np.float32).eps * rest["elbo_weight"] / len(data[0]) * terms


def _compare(problem, monkeypatch):
    loss, by_log_parameters, gradients = _computed(problem, monkeypatch, compiled=True)
    expected, by_expected, expected_gradients = _computed(problem, monkeypatch, compiled=False)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=3e-6, atol=1e-6 + _rounding(problem))
    for found, wanted in zip([by_log_parameters, *gradients], [by_expected, *expected_gradients], strict=True):
        assert found.shape == wanted.shape
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=2e-5 * float(wanted.abs().max()) + 1e-9)


@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.4, 2.5)])
@pytest.mark.parametrize("sizes", [(1, 2, 2), (5, 7, 6), (16, 30, 101), (40, 3, 9)])
def test_equals_numpy_and_torch(sizes, prior, monkeypatch):
    _compare(_problem(0, *sizes, prior=prior), monkeypatch)


@given(seed=st.integers(0, 10_000), scale=st.floats(0.1, 8.0), elbo_weight=st.floats(1e-4, 10.0))
@example(seed=373, scale=1.0, elbo_weight=10.0)  # α up to 5,854
@settings(max_examples=60)
def test_equals_them_at_any_parameters(seed, scale, elbo_weight):
    with pytest.MonkeyPatch.context() as monkeypatch:
        _compare(_problem(seed, scale=scale, elbo_weight=elbo_weight), monkeypatch)


def test_what_is_given_stays(monkeypatch):
    problem = _problem(1)
    log_parameters, parameters, (features, _, *others), _ = problem
    held = [log_parameters, *parameters, features, *others]
    before = [np.asarray(values).copy() for values in held]
    _computed(problem, monkeypatch, compiled=True)
    for old, new in zip(before, held, strict=True):
        np.testing.assert_array_equal(old, np.asarray(new))


@pytest.mark.parametrize("place", ["log parameters", "weights of a network"])
def test_what_is_not_a_number_shows_in_the_loss(place, monkeypatch):
    problem = _problem(2)
    (problem[0] if place == "log parameters" else problem[1][0])[0, 0] = np.nan
    loss, *_ = _computed(problem, monkeypatch, compiled=True)
    assert torch.isnan(loss)
