"""Losses against closed forms, finite differences (gradcheck) and each other."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from onepos.training import losses


def _inputs(rows=4, labels=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, labels, generator=generator, dtype=torch.float64, requires_grad=True)
    observed = torch.zeros(rows, labels, dtype=torch.int8)
    observed[torch.arange(rows), torch.randint(labels, (rows,), generator=generator)] = 1
    soft = torch.rand(rows, labels, generator=generator, dtype=torch.float64)
    return logits, observed, soft


def test_assume_negative_equals_its_definition():
    logits, observed, _ = _inputs()
    p = torch.sigmoid(logits)
    expected = -(observed * p.log() + (1 - observed) * (1 - p).log()).sum() / len(logits)
    assert losses.assume_negative(logits, observed).item() == pytest.approx(expected.item(), rel=1e-12)


def test_label_smoothing_targets_are_one_minus_epsilon_and_epsilon():
    logits, observed, _ = _inputs()
    p, eps = torch.sigmoid(logits), 0.1
    target = eps + (1 - 2 * eps) * observed.double()
    expected = -(target * p.log() + (1 - target) * (1 - p).log()).sum() / len(logits)
    got = losses.assume_negative(logits, observed, label_smoothing=eps)
    assert got.item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("weight", [0.25, 2.0])
def test_unobserved_weight_leaves_known_negatives_alone(weight):
    logits, observed, _ = _inputs()
    observed[0, observed[0] == 0] = -1
    p = torch.sigmoid(logits)
    weights = 1.0 - (1.0 - weight) * (observed == 0).double()
    target = (observed == 1).double()
    expected = -(weights * (target * p.log() + (1 - target) * (1 - p).log())).sum() / len(logits)
    got = losses.assume_negative(logits, observed, unobserved_weight=weight)
    assert got.item() == pytest.approx(expected.item(), rel=1e-12)


def test_softmax_cross_entropy_equals_torch_on_single_labels():
    logits, observed, _ = _inputs()
    expected = torch.nn.functional.cross_entropy(logits, observed.argmax(dim=1))
    assert losses.softmax_cross_entropy(logits, observed).item() == pytest.approx(expected.item(), rel=1e-12)


def test_risk_weights_are_inverse_confidence_times_labels_up_to_the_bound():
    logits, observed, _ = _inputs()
    confidence = torch.sigmoid(logits)[observed == 1]
    loose = losses.risk_weights(logits, observed, bound=1e9)
    assert torch.allclose(loose[:, 0], 1 / (confidence * logits.shape[1]))
    assert not loose.requires_grad
    tight = losses.risk_weights(logits, observed, bound=0.3)
    assert tight.max() == 0.3
    assert torch.allclose(tight, loose.clamp(max=0.3))


def test_risk_with_unit_weights_and_hard_labels_is_binary_cross_entropy():
    logits, observed, _ = _inputs()
    targets = observed.double()
    risk = losses.single_positive_risk(logits, targets, torch.ones(len(logits), 1, dtype=torch.float64))
    assert risk.item() == pytest.approx(losses.binary_cross_entropy(logits, targets).item(), rel=1e-12)


def test_risk_is_minimised_where_the_network_equals_the_soft_label():
    _, observed, soft = _inputs()
    logits = torch.logit(soft).requires_grad_()
    weights = losses.risk_weights(logits, observed, bound=1.0)
    losses.single_positive_risk(logits, soft, weights).backward()
    assert logits.grad.abs().max() < 1e-12


def test_adjacency_reconstruction_hand_worked():
    soft = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    adjacency = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    s1, s2 = 1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(-2.0))
    expected = (s1**2 + (1 - s1) ** 2 + s1**2 + s2**2) / 2
    assert losses.adjacency_reconstruction(soft, adjacency).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        lambda z, o, s: losses.assume_negative(z, o),
        lambda z, o, s: losses.assume_negative(z, o, unobserved_weight=0.2, label_smoothing=0.1),
        lambda z, o, s: losses.softmax_cross_entropy(z, o),
        lambda z, o, s: losses.binary_cross_entropy(z, s),
        lambda z, o, s: losses.single_positive_risk(z, s, torch.full((len(z), 1), 0.7, dtype=torch.float64)),
        lambda z, o, s: losses.adjacency_reconstruction(torch.sigmoid(z), torch.eye(len(z), dtype=torch.float64)),
        lambda z, o, s: losses.feature_reconstruction(z, s),
    ],
)
def test_gradients_match_finite_differences(loss):
    logits, observed, soft = _inputs()
    assert gradcheck(lambda z: loss(z, observed, soft), (logits,))


@pytest.mark.parametrize("size", [30.0, 1e4])
def test_losses_and_gradients_stay_finite_at_extreme_logits(size):
    _, observed, soft = _inputs()
    logits = (size * (2 * soft.round() - 1)).requires_grad_()
    weights = losses.risk_weights(logits, observed, bound=1.0)
    total = losses.assume_negative(logits, observed) + losses.single_positive_risk(logits, soft, weights)
    (total + losses.softmax_cross_entropy(logits, observed)).backward()
    assert torch.isfinite(total)
    assert torch.isfinite(logits.grad).all()


def test_softmax_of_several_observed_labels_is_their_mean_and_of_none_is_nothing():
    logits = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.0, 0.5], [4.0, 1.0, 0.0]], dtype=torch.float64)
    observed = torch.tensor([[1, 0, 1], [0, 0, 0], [-1, 1, 0]])
    logs = torch.log_softmax(logits, dim=1)
    expected = -((logs[0, 0] + logs[0, 2]) / 2 + logs[2, 1]) / 3
    assert losses.softmax_cross_entropy(logits, observed).item() == pytest.approx(expected.item(), rel=1e-12)


def test_risk_weights_of_several_observed_labels_use_their_mean_and_of_none_the_bound():
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.0], [1.0, 0.0, 0.5, 3.0]], dtype=torch.float64)
    observed = torch.tensor([[1, -1, 1, 0], [0, -1, 0, 0]])
    p = torch.sigmoid(logits)
    found = losses.risk_weights(logits, observed, bound=7.0)
    assert found.shape == (2, 1)
    assert found[0, 0].item() == pytest.approx(1 / ((p[0, 0] + p[0, 2]).item() / 2 * 4), rel=1e-12)
    assert found[1, 0] == 7.0


def test_the_risk_sends_no_gradient_into_its_labels_and_weights():
    logits, _, soft = _inputs()
    soft, weights = soft.requires_grad_(), torch.full((len(logits), 1), 0.7, dtype=torch.float64, requires_grad=True)
    losses.single_positive_risk(logits, soft, weights).backward()
    assert logits.grad is not None
    assert soft.grad is None
    assert weights.grad is None


def test_the_weighted_risk_equals_equation_six():
    logits, observed, soft = _inputs()
    p, weights = torch.sigmoid(logits), losses.risk_weights(logits, observed, bound=0.4)
    rows = -(soft * p.log() + (1 - soft) * (1 - p).log()).sum(dim=1)
    expected = (weights[:, 0] * rows).mean()
    assert losses.single_positive_risk(logits, soft, weights).item() == pytest.approx(expected.item(), rel=1e-12)


def test_feature_reconstruction_is_the_squared_distance_of_a_row():
    features = torch.tensor([[1.0, 2.0, 5.0], [0.0, -1.0, 0.0]])
    shifted = features + torch.tensor([[1.0, -2.0, 0.0], [3.0, 0.0, 0.0]])
    assert losses.feature_reconstruction(shifted, features).item() == (1 + 4 + 9) / 2


def test_adjacency_reconstruction_is_per_row_whatever_the_number_of_labels():
    soft, adjacency = torch.zeros(2, 5), torch.ones(2, 2)
    assert losses.adjacency_reconstruction(soft, adjacency).item() == 4 * 0.5**2 / 2


def test_unobserved_entries_alone_are_weighted_and_precision_stays():
    logits, observed = torch.zeros(1, 3, dtype=torch.float64), torch.tensor([[1, 0, -1]], dtype=torch.int8)
    loss = losses.assume_negative(logits, observed, unobserved_weight=1 / 3)
    assert loss.dtype == torch.float64
    assert loss.item() == pytest.approx((1 + 1 / 3 + 1) * math.log(2), rel=1e-15)


def test_known_absent_labels_are_negatives_with_and_without_smoothing():
    logits, observed, _ = _inputs()
    absent = observed.clone()
    absent[observed == 0] = -1
    for smoothing in (0.0, 0.1):
        found = losses.assume_negative(logits, absent, label_smoothing=smoothing)
        assert found.item() == losses.assume_negative(logits, observed, label_smoothing=smoothing).item()


def test_assume_negative_smoothed_and_weighted_is_the_cross_entropy_with_these_targets():
    logits, observed = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64), torch.tensor([[1, 0, -1]])
    targets, weights = torch.tensor([[0.9, 0.1, 0.1]]).double(), torch.tensor([[1.0, 0.25, 1.0]]).double()
    found = losses.assume_negative(logits, observed, unobserved_weight=0.25, label_smoothing=0.1)
    torch.testing.assert_close(found, losses.binary_cross_entropy(logits, targets, weights), rtol=1e-6, atol=0)
