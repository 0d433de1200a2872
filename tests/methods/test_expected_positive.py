"""EPR: its loss against the published mean over entries, and the number of positives it is asked for."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from onepos.datasets import make_known_posterior
from onepos.methods.role import ExpectedPositiveClassifier, expected_positive


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(300, 6, 5, n_positives=2.0, signal=6.0, random_state=0)


def test_worked_by_hand():
    """One row, p = (¾, ½), the first label observed, k = 1, λ = 2: −log ¾ + 2·(5/4 − 1)²/2."""
    logits = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
    loss = expected_positive(logits, torch.tensor([[1, 0]]), 1.0, 2.0)
    assert float(loss) == pytest.approx(-math.log(3 / 4) + 1 / 16, rel=1e-12)


def test_is_the_published_loss_times_the_number_of_labels():
    rng = np.random.default_rng(0)
    z, s = rng.standard_normal((4, 6)), np.eye(6)[[0, 3, 5, 1]]
    p = 1 / (1 + np.exp(-z))
    published = -np.log(p[s == 1]).sum() / z.size + 0.7 * ((p.sum() / 4 - 2.3) / 6) ** 2
    loss = expected_positive(torch.from_numpy(z), torch.from_numpy(s), 2.3, 0.7)
    assert float(loss) / 6 == pytest.approx(published, rel=1e-12)


def test_gradient_and_far_logits():
    observed = torch.tensor([[1, 0, -1], [0, 1, 0]])
    logits = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert gradcheck(lambda z: expected_positive(z, observed, 2.0, 3.0), (logits,))
    for size in (1e4, -1e4):
        far = torch.full((2, 3), size, requires_grad=True)
        loss = expected_positive(far, observed, 2.0, 3.0)
        (gradient,) = torch.autograd.grad(loss, far)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("k", [1.5, 3.5])
def test_a_strong_regulariser_gives_the_number_asked_for(data, k):
    # Without a choice of the epoch, for which the start, label frequencies, is a candidate too.
    model = ExpectedPositiveClassifier(
        n_positives=k, regularizer_weight=100.0, max_epochs=20, early_stopping=False, random_state=0
    )
    predicted = model.fit(data.X, data.observed).predict_proba(data.X).sum(axis=1).mean()
    assert predicted == pytest.approx(k, abs=0.3)


def test_where_the_number_comes_from(data):
    full = {"validation": (data.X, data.Y), "validation_labels": "full"}
    cases = [
        (None, {}, 2.0, "default"),
        (1.7, full, 1.7, "given"),
        (None, full, data.Y.sum(axis=1).mean(), "validation"),
        ("estimate", {}, None, "estimated"),
    ]
    for given, settings, value, source in cases:
        model = ExpectedPositiveClassifier(n_positives=given, max_epochs=1, random_state=0)
        model.fit(data.X, data.observed, **settings)
        assert model.history_.facts["n_positives_from"] == source
        assert value is None or model.n_positives_ == pytest.approx(value)
    one = ExpectedPositiveClassifier(max_epochs=1, random_state=0).fit(data.X, data.observed.argmax(axis=1))
    assert one.n_positives_ == 1.0
