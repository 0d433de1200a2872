"""Losses in float32 at logits up to ±1e4 and Beta parameters from 1e-6 to 1e6, against mpmath with fifty digits.

Tolerances: a loss within 1e-5 of its value, its gradient within 1e-5 of the largest term, both relative; the Beta
divergence within 16 units of float32 rounding of its largest term, which is what cancellation leaves of it.
"""

import itertools

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf

from onepos.methods import crisp, entropy_maximization, generalized_robust, hill, large_loss, role, softmax
from onepos.methods.smile.beta import beta_kl, sample_beta
from onepos.methods.smile.enhancement import gaussian_kl, sample_gaussian
from onepos.training import losses

mpmath.mp.dps = 50
LOGITS = [-1e4, -700.0, -100.0, -30.0, -1.0, 0.0, 1e-4, 1.0, 30.0, 100.0, 700.0, 1e4]
OBSERVED = np.array([[1, 0, -1], [0, 1, 0], [1, 0, 0]])
SHAPE = {"slope": 2.0, "offset": -1.0, "center": 0.5, "width": 0.8}
PRIORS, WEIGHTS = (0.5, 0.25, 0.1), (1.0, 0.5, 0.2)


def p(z):
    return 1 / (1 + mpmath.exp(-z))


def there(z):
    """−log σ(z)."""
    return mpmath.log1p(mpmath.exp(-z))


def absent(z):
    return there(-z)


def _entries(rule):
    """A loss that sums ``rule(z, s, z with no gradient)`` over entries and averages over rows."""

    def loss(logits, fixed):
        cells = itertools.product(range(len(logits)), range(3))
        return sum(rule(logits[i][j], OBSERVED[i, j], fixed[i][j]) for i, j in cells) / len(logits)

    return loss


def _an(z, s, _):
    return there(z) if s > 0 else absent(z)


def _smoothed(z, s, _):
    t = mpf("0.9") if s > 0 else mpf("0.1")
    return t * there(z) + (1 - t) * absent(z)


def _weighted(z, s, fixed):
    return _an(z, s, fixed) * (mpf("0.5") if s == 0 else 1)


def _entropy(z, s, _):
    if s == 0:
        return -mpf("0.25") * (p(z) * there(z) + p(-z) * absent(z))
    return _an(z, s, _)


def _focal(z, s, _):
    signed = z - 1 if s > 0 else -z
    return p(-signed) ** 2 * there(signed)


def _hill(z, s, _):
    return (mpf("1.5") - p(z)) * p(z) ** 2 if s == 0 else _focal(z, s, _)


def _splc(z, s, fixed):
    if s == 0 and p(fixed) > mpf("0.6"):
        return p(-z) ** 2 * there(z)
    return _focal(z, s, fixed)


def _robust(z, s, fixed):
    if s:
        return _an(z, s, fixed)
    label = p(2 * p(fixed) - 1)
    trust = mpmath.exp(-(((p(fixed) - mpf("0.5")) / mpf("0.8")) ** 2) / 2)
    q, r = mpf("0.1"), mpf("1.5")
    return trust * (label * (1 - p(z) ** q) / q + (1 - label) * (1 - p(-z) ** r) / r)


def _expected(logits, _):
    rows = len(logits)
    seen = _entries(lambda z, s, _: _an(z, s, _) if s else mpf(0))(logits, logits)
    excess = sum(p(z) for row in logits for z in row) / rows - mpf("1.5")
    return seen + 2 * excess**2 / 3


def _crisp(logits, _):
    rows = range(len(logits))
    found = sum(mpf(WEIGHTS[j]) * p(-logits[i][j]) for i in rows for j in range(3) if OBSERVED[i, j] > 0)
    means = [sum(p(logits[i][j]) for i in rows) / len(logits) for j in range(3)]
    known = sum(p(logits[i][j]) for i in rows for j in range(3) if OBSERVED[i, j] < 0)
    return (found + known) / len(logits) + sum(abs(m - mpf(prior)) for m, prior in zip(means, PRIORS, strict=True))


def _softmax(logits, _):
    def row(z, s):
        top = max(z)
        total = top + mpmath.log(sum(mpmath.exp(value - top) for value in z))
        return sum((total - value for value, seen in zip(z, s, strict=True) if seen > 0), mpf(0))

    return sum(row(z, s) for z, s in zip(logits, OBSERVED, strict=True)) / len(logits)


def _capped(logits, _):
    def row(z, s):
        kept = [value for value, seen in zip(z, s, strict=True) if seen >= 0]
        target = min(mpf("1.5"), len(kept) - mpf("0.5"))
        low, high = -max(kept) - 40, -min(kept) + 40
        for _ in range(400):
            middle = (low + high) / 2
            below = sum(p(value + middle) for value in kept) < target
            low, high = (middle, high) if below else (low, middle)
        return sum((there(value + low) for value, seen in zip(z, s, strict=True) if seen > 0), mpf(0))

    return sum(row(z, s) for z, s in zip(logits, OBSERVED, strict=True)) / len(logits)


def _risk(logits, fixed):
    total = mpf(0)
    for z, f, s in zip(logits, fixed, OBSERVED, strict=True):
        confidence = sum((p(value) for value, seen in zip(f, s, strict=True) if seen > 0), mpf(0))
        weight = min(1 / (3 * confidence), mpf(10)) if confidence else mpf(10)
        total += weight * sum(mpf("0.3") * there(value) + mpf("0.7") * absent(value) for value in z)
    return total / len(logits)


def _seen(observed):
    return torch.as_tensor(WEIGHTS) * (observed > 0)


def _single_positive_risk(z, s):
    return losses.single_positive_risk(z, torch.full_like(z, 0.3), losses.risk_weights(z, s, 10.0))


CASES = {
    "assume negative": (losses.assume_negative, _entries(_an)),
    "weighted": (lambda z, s: losses.assume_negative(z, s, unobserved_weight=0.5), _entries(_weighted)),
    "smoothed": (lambda z, s: losses.assume_negative(z, s, label_smoothing=0.1), _entries(_smoothed)),
    "softmax": (losses.softmax_cross_entropy, _softmax),
    "capped": (lambda z, s: softmax.capped_likelihood(z, s, 1.5), _capped),
    "single-positive risk": (_single_positive_risk, _risk),
    "entropy": (lambda z, s: entropy_maximization.entropy_maximization(z, s, 0.25), _entries(_entropy)),
    "reject none": (lambda z, s: large_loss.reject(z, s, torch.zeros_like(s, dtype=torch.bool)), _entries(_an)),
    "correct none": (lambda z, s: large_loss.correct(z, s, torch.zeros_like(s, dtype=torch.bool)), _entries(_an)),
    "hill": (lambda z, s: hill.hill(z, s, margin=1.0, focusing=2.0, height=1.5), _entries(_hill)),
    "splc": (
        lambda z, s: hill.self_paced_correction(z, s, threshold=0.6, margin=1.0, focusing=2.0),
        _entries(_splc),
    ),
    "robust": (
        lambda z, s: generalized_robust.generalized_robust(z, s, **SHAPE, positive_power=0.1, negative_power=1.5),
        _entries(_robust),
    ),
    "expected positive": (lambda z, s: role.expected_positive(z, s, 1.5, 2.0), _expected),
    "crisp": (lambda z, s: crisp.class_prior_risk(z, s, torch.tensor(PRIORS), _seen(s)), _crisp),
}


def _blocks():
    """Matrices of three rows in which every logit comes in every kind of place."""
    for start in range(0, len(LOGITS), 3):
        turned = LOGITS[start:] + LOGITS[:start]
        yield torch.tensor(turned[:9]).reshape(3, 3)
    yield torch.full((3, 3), 1e4)
    yield torch.full((3, 3), -1e4)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_and_its_gradient_at_extreme_logits(name):
    loss, oracle = CASES[name]
    observed = torch.as_tensor(OBSERVED)
    for block in _blocks():
        logits = block.clone().requires_grad_()
        value = loss(logits, observed)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(logits.grad).all()
        exact = [[mpf(float(z)) for z in row] for row in block]
        expected = oracle(exact, exact)
        assert abs(value.item() - expected) <= 1e-5 * max(1, abs(expected)), (name, block)
        for i, j in itertools.product(range(3), range(3)):
            slope = _slope(oracle, exact, i, j)
            assert abs(logits.grad[i, j].item() - slope) <= 1e-5 * max(1, abs(slope)), (name, block, i, j)


def _slope(oracle, exact, i, j):
    step = mpf(10) ** -20
    sides = []
    for sign in (1, -1):
        moved = [list(row) for row in exact]
        moved[i][j] += sign * step
        sides.append(oracle(moved, exact))
    return (sides[0] - sides[1]) / (2 * step)


def test_role_and_its_gradient_at_extreme_logits():
    observed = torch.as_tensor(OBSERVED)
    for block in _blocks():
        labels, exact_labels = block.flip(0).requires_grad_(), block.double().flip(0).requires_grad_()
        value = role.role(block, labels, observed, 1.5, 2.0)
        value.backward()
        exact = role.role(block.double(), exact_labels, observed, 1.5, 2.0)
        exact.backward()
        assert torch.isfinite(labels.grad).all()
        torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(exact_labels.grad.float(), labels.grad, rtol=1e-5, atol=1e-6)


def test_reconstructions_stay_finite():
    soft = torch.tensor([[0.0, 1.0], [1.0, 1.0]], requires_grad=True)
    value = losses.adjacency_reconstruction(soft * 1e4, torch.eye(2))
    value.backward()
    assert value.isfinite()
    assert soft.grad.isfinite().all()
    far = torch.full((2, 2), 1e15, requires_grad=True)
    losses.feature_reconstruction(far, torch.zeros(2, 2)).backward()
    assert torch.equal(far.grad, torch.full((2, 2), 1e15))


GRID = [1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6]
#: Sixteen roundings of float32.
ROUNDING = 16 * 2.0**-24


def test_the_beta_divergence_from_a_millionth_to_a_million():
    pairs = torch.tensor(list(itertools.product(GRID, GRID)))
    alpha, beta = pairs[:, 0].clone().requires_grad_(), pairs[:, 1].clone().requires_grad_()
    values = beta_kl(alpha, beta)
    values.sum().backward()
    for k, (first, second) in enumerate(pairs.tolist()):
        a, b = mpf(first), mpf(second)
        terms = [mpmath.loggamma(a + b), -mpmath.loggamma(a), -mpmath.loggamma(b)]
        terms += [(a - 1) * mpmath.digamma(a), (b - 1) * mpmath.digamma(b), -(a + b - 2) * mpmath.digamma(a + b)]
        assert abs(values[k].item() - sum(terms)) <= ROUNDING * max(map(abs, terms)) + 1e-6
        shared = (a + b - 2) * mpmath.psi(1, a + b)
        for found, own in ((alpha.grad[k], (a - 1) * mpmath.psi(1, a)), (beta.grad[k], (b - 1) * mpmath.psi(1, b))):
            assert abs(found.item() - (own - shared)) <= ROUNDING * max(abs(own), abs(shared))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fast", [False, True])
def test_beta_draws_from_a_millionth_to_a_million(fast, seed):
    n = 2000
    pairs = torch.tensor(list(itertools.product(GRID, GRID)))
    both = pairs.T[:, None, :].expand(2, n, len(pairs)).contiguous().requires_grad_()
    draws = sample_beta(*both, torch.Generator().manual_seed(seed), fast=fast)
    assert torch.autograd.grad(draws.sum(), both)[0].isfinite().all()
    draws = draws.detach()
    assert ((draws > 0) & (draws < 1)).all()
    a, b = pairs.double().T
    mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    # Without the draw that is furthest off: of Beta(1, 10⁻⁶), one in 10⁵ is a thousand times as far from the mean as
    # all others, and a mean with it is not normal. It changes no other mean by a tenth of a standard error.
    off = draws.double() - mean
    off.scatter_(0, off.abs().argmax(0, keepdim=True), 0.0)
    # Five standard errors of the mean, and the float32 grid near 1.
    assert (off.mean(0).abs() <= 5 * (variance / n).sqrt() + 2e-7).all()


def test_gaussians_at_the_ends_of_their_log_variance():
    mean = torch.tensor([0.0, 1e4, -1e4, 3.0]).repeat(3).requires_grad_()
    log_variance = torch.tensor([-10.0, 0.0, 10.0]).repeat_interleave(4).requires_grad_()
    value = gaussian_kl(mean, log_variance)
    value.sum().backward()
    m, v = mean.detach().double(), log_variance.detach().double()
    torch.testing.assert_close(value.detach().double(), -0.5 * (1 + v - m**2 - v.exp()), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(log_variance.grad.double(), -0.5 * (1 - v.exp()), rtol=1e-6, atol=1e-6)
    assert sample_gaussian(mean, log_variance, torch.Generator().manual_seed(0)).isfinite().all()
