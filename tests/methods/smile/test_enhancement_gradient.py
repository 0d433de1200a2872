"""T_LE with its gradient written out, against automatic differentiation of the same loss term by term."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onepos.methods.smile.encoder import GraphEncoder
from onepos.methods.smile.enhancement import EnhancementSettings, LabelEnhancement, links
from onepos.training import Batch


def model_and_batch(
    n_labels=6, prior=(1.0, 1.0), unobserved_weight=0.3, elbo_weight=0.1, scale=1.0, seed=0, known_absent=True, rows=5
):
    """A model in double precision; ``scale`` stretches its parameters until variances and α, β reach their bounds."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(20, 5, generator=generator, dtype=torch.float64)
    neighborhoods = torch.stack([torch.arange(20), *(torch.arange(20).roll(-step) for step in (1, 2, 3))], dim=1)
    encoder = GraphEncoder(features, neighborhoods, 7, n_labels, self_weight=0.5, generator=generator)
    constants = EnhancementSettings(elbo_weight, prior, 1, "mean", unobserved_weight, 3, 4, known_absent)
    model = LabelEnhancement(encoder, 5, n_labels, constants, 1.7, generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    which = torch.tensor([3, 4, 9, 0, 17])
    observed = torch.zeros(5, n_labels, dtype=torch.int8)
    observed[torch.arange(4), torch.arange(4) % n_labels] = 1  # the last row has nothing
    observed[2, 0] = -1 if known_absent else 0
    return model, Batch(which[:rows], features[which[:rows]], observed[:rows])


def loss_and_gradients(model, loss, batch, seed=5):
    model.generator.manual_seed(seed)
    value = loss(batch)
    return value, torch.autograd.grad(value, list(model.parameters()))


@pytest.mark.parametrize("n_labels", [2, 6, 60])  # 60: the fast draws
@pytest.mark.parametrize(("prior", "unobserved_weight"), [((1.0, 1.0), 0.3), ((0.4, 2.5), 1.0)])
def test_equals_automatic_differentiation(n_labels, prior, unobserved_weight):
    model, batch = model_and_batch(n_labels, prior, unobserved_weight)
    value, gradients = loss_and_gradients(model, model.loss, batch)
    reference, expected = loss_and_gradients(model, model.reference_loss, batch)
    torch.testing.assert_close(value, reference, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradients, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 5])
def test_equals_it_without_known_absences_and_for_one_row(rows):
    model, batch = model_and_batch(known_absent=False, rows=rows)
    given_before = [value.clone() for value in (batch.positives, batch.features, batch.observed)]
    value, gradients = loss_and_gradients(model, model.loss, batch)
    reference, expected = loss_and_gradients(model, model.reference_loss, batch)
    torch.testing.assert_close(value, reference, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradients, expected, rtol=1e-8, atol=1e-12)
    for before, after in zip(given_before, (batch.positives, batch.features, batch.observed), strict=True):
        assert torch.equal(before, after)


@given(
    scale=st.floats(0.1, 30.0), elbo_weight=st.floats(1e-4, 10.0), n_labels=st.integers(2, 9), seed=st.integers(0, 99)
)
@settings(max_examples=40, deadline=None)
def test_equals_automatic_differentiation_at_any_parameters(scale, elbo_weight, n_labels, seed):
    model, batch = model_and_batch(n_labels, elbo_weight=elbo_weight, scale=scale, seed=seed)
    value, gradients = loss_and_gradients(model, model.loss, batch, seed)
    reference, expected = loss_and_gradients(model, model.reference_loss, batch, seed)
    torch.testing.assert_close(value, reference, rtol=1e-9, atol=1e-12)
    for found, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-9 * float(wanted.abs().max()) + 1e-12)


def test_a_multiple_of_the_loss_has_the_multiple_of_its_gradient():
    model, batch = model_and_batch()
    _, single = loss_and_gradients(model, model.loss, batch)
    _, triple = loss_and_gradients(model, lambda given_batch: 3.0 * model.loss(given_batch), batch)
    torch.testing.assert_close(triple, tuple(3.0 * gradient for gradient in single))


@pytest.mark.parametrize("n_labels", [2, 6, 60])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_with_the_encoder_written_out_too(n_labels, scale):
    model, batch = model_and_batch(n_labels, scale=scale)
    reference, expected = loss_and_gradients(model, model.reference_loss, batch)
    model.generator.manual_seed(5)
    found = model.differentiated(batch)
    torch.testing.assert_close(found.value, reference.detach(), rtol=1e-9, atol=1e-12)
    assert set(found.gradients) == set(model.parameters())
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        gradient = found.gradients[parameter]
        torch.testing.assert_close(gradient, wanted, rtol=1e-7, atol=1e-9 * float(wanted.abs().max()) + 1e-12)


@pytest.mark.parametrize("n_labels", [6, 60])
def test_in_single_precision_as_training_computes_it(n_labels):
    model, batch = model_and_batch(n_labels)
    model.float().encoder.use_graph(model.encoder.aggregated.float(), model.encoder.neighborhoods)
    single = Batch(batch.rows, batch.features.float(), batch.observed)
    reference, expected = loss_and_gradients(model, model.reference_loss, single)
    model.generator.manual_seed(5)
    found = model.differentiated(single)
    torch.testing.assert_close(found.value, reference.detach(), rtol=1e-5, atol=0)
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        gradient = found.gradients[parameter]
        torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-5 * float(wanted.abs().max()))


@given(st.integers(1, 150), st.integers(1, 150), st.integers(1, 12), st.integers(0, 1000))
@settings(max_examples=100)
def test_links_are_those_of_comparing_all_with_all(n_rows, n_others, k, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(300, generator=generator)[:n_rows]
    neighbors = torch.randint(300, (n_others, k + 1), generator=generator)[:, 1:]
    assert torch.equal(links(rows, neighbors), (rows[:, None, None] == neighbors).any(dim=2))
