"""T_LE and its gradient written out, against automatic differentiation of the same loss term by term."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln

from onepos import SMILEClassifier
from onepos.datasets import make_known_posterior
from onepos.methods.smile.encoder import GraphEncoder
from onepos.methods.smile.enhancement import LabelEnhancement
from onepos.training import Batch


def model_and_batch(n_labels=6, unobserved_weight=0.3, elbo_weight=0.1, scale=1.0, seed=0, rows=5, n_features=5):
    """A model; ``scale`` stretches its parameters until variances and α, β reach their bounds."""
    generator = torch.Generator().manual_seed(seed)
    n = max(20, rows)
    features = torch.randn(n, n_features, generator=generator)
    neighbors = np.column_stack([np.roll(np.arange(n), -step) for step in (1, 2, 3)])
    encoder = GraphEncoder(features, neighbors, n_labels, generator)
    weights = {"elbo_weight": elbo_weight, "unobserved_weight": unobserved_weight}
    model = LabelEnhancement(encoder, n_features, n_labels, **weights, feature_scale=1.7, generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    which = torch.randperm(n, generator=generator)[:rows]
    observed = torch.zeros(rows, n_labels, dtype=torch.int8)
    observed[torch.arange(rows), torch.arange(rows) % n_labels] = 1
    observed[-1] = 0  # the last row has nothing
    observed[0, 1] = -1
    return model, Batch(which, features[which], observed)


def both_ways(model, batch, seed=5):
    """Value and gradients, written out and by automatic differentiation, from the same random numbers."""
    results = []
    for kind in (model.written_out_loss, model.reference_loss):
        model.generator.manual_seed(seed)
        value = kind(model.encoder(batch.rows), batch)
        results.append((value.detach(), torch.autograd.grad(value, list(model.parameters()))))
    return results


def rounding(model, batch):
    """How far two computations in single precision may differ: the terms of the divergence cancel to a small sum."""
    alpha, beta = (values.double().exp().numpy() for values in model.encoder(batch.rows).detach().chunk(2, dim=1))
    terms = 0.0
    for x, more in [(alpha, 1), (beta, 1), (alpha + beta, 2)]:
        terms += (np.abs(gammaln(x)) + np.abs((x - more) * digamma(x))).sum()
    return 2 * np.finfo(np.float32).eps * model.elbo_weight / len(batch.rows) * terms


def compare(model, batch, seed=5):
    before = [values.clone() for values in (batch.positives, batch.features, batch.observed, *model.parameters())]
    (value, gradients), (expected, expected_gradients) = both_ways(model, batch, seed)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6 + rounding(model, batch))
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=3e-5 * float(wanted.abs().max()) + 1e-8)
    for old, new in zip(before, (batch.positives, batch.features, batch.observed, *model.parameters()), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("unobserved_weight", [0.3, 1.0])
@pytest.mark.parametrize(("n_labels", "rows", "n_features"), [(2, 1, 2), (6, 5, 7), (60, 16, 30), (9, 40, 3)])
def test_written_out_it_equals_automatic_differentiation(n_labels, rows, n_features, unobserved_weight):
    compare(*model_and_batch(n_labels, unobserved_weight, rows=rows, n_features=n_features))


@given(
    scale=st.floats(0.1, 8.0), elbo_weight=st.floats(1e-4, 10.0), n_labels=st.integers(2, 30), seed=st.integers(0, 99)
)
@example(8.0, 10.0, 6, 3)
@settings(max_examples=40)
def test_written_out_it_equals_it_at_any_parameters(scale, elbo_weight, n_labels, seed):
    compare(*model_and_batch(n_labels, elbo_weight=elbo_weight, scale=scale, seed=seed), seed)


@pytest.mark.parametrize("place", ["encoder", "latent_encoder"])
def test_what_is_not_a_number_shows_in_the_loss(place):
    model, batch = model_and_batch()
    with torch.no_grad():
        next(getattr(model, place).parameters())[0, 0] = np.nan
    assert torch.isnan(model.loss(batch))


def test_other_settings_and_precisions_are_left_to_automatic_differentiation(monkeypatch):
    model, batch = model_and_batch()
    monkeypatch.setattr(model, "written_out_loss", None)
    with pytest.raises(TypeError):
        model.loss(batch)
    model.double().encoder.use_graph(model.encoder.aggregated.double(), model.encoder.neighbors)
    assert model.loss(Batch(batch.rows, batch.features.double(), batch.observed)).dtype == torch.float64


@pytest.mark.parametrize("n_labels", [6, 30])  # 30: fast draws
def test_a_fit_is_the_same_but_for_the_last_digits(n_labels, request):
    def fitted():
        data = make_known_posterior(600, 6, n_labels, random_state=0)
        model = SMILEClassifier(max_epochs=2, warm_up_epochs=1, elbo_weight=0.5, random_state=0)
        return model.fit(data.X, data.observed)

    written_out, again = fitted(), fitted()
    np.testing.assert_array_equal(written_out.soft_labels_, again.soft_labels_)
    request.getfixturevalue("by_autograd")
    reference = fitted()
    np.testing.assert_allclose(written_out.soft_labels_, reference.soft_labels_, atol=2e-5)
    for name in ("label_enhancement", "risk"):
        np.testing.assert_allclose(written_out.history_[name], reference.history_[name], rtol=1e-5)
