"""Passes without automatic differentiation, against automatic differentiation of the same."""

import pytest
import torch
from torch import nn

from onepos import AssumeNegativeClassifier
from onepos.methods.assume_negative import AssumeNegativeObjective
from onepos.methods.smile.encoder import GraphEncoder
from onepos.training import Batch, Differentiated, Logits, Objective, Rows, Schedule, forward_precision, losses, train
from onepos.training.backpropagation import NetworkPass, cross_entropy, has_plain_passes
from onepos.training.networks import MLP
from onepos.training.optimizer import FusedAdam


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _network(sizes, **more):
    return MLP(sizes, generator=_generator(), **more).double()


def _features(n=6, q=5):
    return torch.randn(n, q, generator=_generator(1), dtype=torch.float64)


def _targets(n=6, c=3):
    generator = _generator(2)
    return torch.rand(n, c, generator=generator).double(), 0.1 + torch.rand(n, c, generator=generator).double()


@pytest.mark.parametrize("sizes", [(5, 3), (5, 7, 3), (5, 7, 4, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_gradient_of_the_cross_entropy(sizes, weighted):
    network, features, (targets, weights) = _network(sizes), _features(), _targets()
    weights = weights if weighted else None
    found = Logits(network, features).cross_entropy(targets, weights)
    assert isinstance(found, Differentiated)
    expected = losses.binary_cross_entropy(network(features), targets, weights)
    torch.testing.assert_close(found.value, expected.detach(), rtol=1e-12, atol=0)
    assert set(found.gradients) == set(network.parameters())
    for parameter, gradient in zip(
        network.parameters(), torch.autograd.grad(expected, list(network.parameters())), strict=True
    ):
        torch.testing.assert_close(found.gradients[parameter], gradient, rtol=1e-10, atol=1e-14)


def test_rows_of_a_larger_batch_are_a_share_of_it():
    logits, (targets, _) = _features(6, 3), _targets()
    value, slopes = cross_entropy(logits, targets)
    shares = [cross_entropy(logits[part], targets[part], None, 6) for part in (slice(0, 4), slice(4, 6))]
    torch.testing.assert_close(sum(share[0] for share in shares), value)
    torch.testing.assert_close(torch.cat([share[1] for share in shares]), slopes)


class _Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = _network((5, 3))

    def forward(self, features):
        return 2.0 * self.inner(features)


def test_other_networks_are_differentiated_automatically():
    assert has_plain_passes(_network((5, 3)))
    for network in (_Scaled(), _network((5, 4, 3), dropout=0.5), nn.Sequential(nn.Linear(5, 3)).double()):
        assert not has_plain_passes(network)
        loss = Logits(network, _features()).cross_entropy(_targets()[0])
        assert isinstance(loss, torch.Tensor)
        assert loss.requires_grad
    network = MLP([5, 3])
    with forward_precision(network, "bfloat16", "cpu"):
        assert not has_plain_passes(network)
    assert has_plain_passes(network)


class _Automatic(AssumeNegativeObjective):
    """The same objective as a tensor."""

    def losses(self, batch):
        yield (
            "assume_negative",
            losses.assume_negative(
                self.network(batch.features),
                batch.observed,
                unobserved_weight=self.unobserved_weight,
                label_smoothing=self.label_smoothing,
            ),
        )


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("factors", [{}, {"0": 0.1, "2.bias": 0.0}])
def test_training_is_the_same_either_way(accumulation, factors):
    observed = torch.zeros(40, 3, dtype=torch.int8)
    observed[torch.arange(40), torch.arange(40) % 3] = 1
    observed[4, 2] = -1
    rows = Rows(_features(40).float(), observed, torch.arange(40))
    trained = []
    for kind in (AssumeNegativeObjective, _Automatic):
        objective = kind(MLP([5, 7, 3], generator=_generator()), 0.4, 0.1)
        schedule = Schedule(3, 16, 0.01, weight_decay=0.1, rate_factors=factors, accumulation=accumulation)
        history = train(objective, rows, schedule, _generator(3))
        trained.append((history["loss"], objective))
    assert trained[0][0] == pytest.approx(trained[1][0], rel=1e-5)
    for one, other in zip(trained[0][1].parameters(), trained[1][1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_parameter_that_the_loss_does_not_name_has_no_gradient():
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    optimizer = FusedAdam([([used, unused], 1.0)], 0.0)
    optimizer.step(Differentiated(torch.tensor(1.0), {used: torch.ones(2)}), 0.1)
    assert (used < 1).all()
    assert (unused == 1).all()


def test_a_multiple_has_the_multiple_of_its_gradient():
    network, features, (targets, _) = _network((5, 3)), _features(), _targets()
    loss = Logits(network, features).cross_entropy(targets)
    third = loss * 3.0
    torch.testing.assert_close(third.detach(), 3.0 * loss.value)
    weight = network[0].weight
    torch.testing.assert_close(third.gradients[weight], 3.0 * loss.gradients[weight])


def test_a_network_of_the_user_s_own_is_trained_through_its_own_forward():
    class Own(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, features):
            Own.calls += 1
            return self.layer(features)

    labels = torch.eye(3, dtype=torch.int8)[torch.arange(40) % 3].numpy()
    AssumeNegativeClassifier(network=Own(), max_epochs=1, early_stopping=False, random_state=0).fit(
        _features(40).numpy(), labels
    )
    assert Own.calls >= 3  # one for each batch


@pytest.mark.parametrize("density", [0.1, 1.0])  # sparse and dense first layer
@pytest.mark.parametrize("size", [5, 400])  # dense and sparse pooling
@pytest.mark.parametrize("scale", [1.0, 40.0])  # 40: outputs reach their bounds
def test_encoder(density, size, scale):
    generator = _generator()
    aggregated = torch.randn(500, 30, generator=generator, dtype=torch.float64)
    aggregated *= torch.rand(500, 30, generator=generator) < density
    neighborhoods = torch.stack([torch.arange(500).roll(-step) for step in range(4)], dim=1)
    encoder = GraphEncoder(aggregated, neighborhoods, 8, 4, self_weight=0.5, generator=generator).double()
    with torch.no_grad():
        encoder.second.weight.mul_(scale)
    rows = torch.randperm(500, generator=generator)[:size]
    passed = encoder.evaluate(rows)
    both = torch.cat(encoder(rows), dim=1)
    torch.testing.assert_close(passed.log_parameters, both.detach(), rtol=1e-12, atol=1e-14)
    assert (scale == 1.0) == bool((both.abs() < encoder.log_bound).all())
    by_both = torch.randn(both.shape, generator=generator, dtype=torch.float64)
    found = passed.gradients(by_both)
    for parameter, gradient in zip(
        encoder.parameters(), torch.autograd.grad(both, list(encoder.parameters()), by_both), strict=True
    ):
        torch.testing.assert_close(found[parameter].detach(), gradient, rtol=1e-9, atol=1e-12)


def test_nothing_is_kept_for_automatic_differentiation():
    objective = AssumeNegativeObjective(MLP([5, 7, 3]), 1.0, 0.0)
    assert isinstance(objective, Objective)
    observed = torch.eye(3, dtype=torch.int8)
    ((_, loss),) = objective.losses(Batch(torch.arange(3), _features(3).float(), observed))
    assert not loss.value.requires_grad
    assert not any(gradient.requires_grad for gradient in loss.gradients.values())


def test_pass_keeps_the_inputs_of_each_layer():
    network, features = _network((5, 7, 3)), _features()
    passed = NetworkPass(network, features)
    torch.testing.assert_close(passed.output, network(features))
    torch.testing.assert_close(passed.inputs[1], torch.relu(network[0](features)))


def test_what_is_multiplied_is_aligned(without_kernels):
    """Else the last bits of a product depend on where memory was free, and equal seeds give other bits."""
    neighborhoods = torch.stack([torch.arange(60).roll(-step) for step in range(4)], dim=1)
    encoder = GraphEncoder(torch.randn(60, 5), neighborhoods, 8, 4, self_weight=0.5)
    for size in range(1, 60):
        inputs, around = encoder._read(torch.arange(size))
        assert inputs.data_ptr() % 64 == 0
        assert around.pooling.data_ptr() % 64 == 0
