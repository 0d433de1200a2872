"""Hill, SPLC and GR: by hand, by a second implementation, by their limits, and their schedules."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit
from torch.autograd import gradcheck

from label_case import label_case
from onepos.datasets import make_known_posterior
from onepos.methods.generalized_robust import (
    GeneralizedRobustClassifier,
    generalized_cross_entropy,
    generalized_robust,
    scheduled,
)
from onepos.methods.hill import SPLCClassifier, hill, self_paced_correction
from onepos.training import Batch
from onepos.training.losses import assume_negative

SHAPE = {"slope": 2.0, "offset": -2.0, "center": 0.8, "width": 0.5}


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(200, 5, 4, random_state=0)


def _case(seed=0):
    logits, observed, _ = label_case(seed)
    observed[1, 5] = 1
    return logits, observed


def focal_margin(logits, observed, **shape):
    """SPLC without correction: no probability is above 1."""
    return self_paced_correction(logits, observed, threshold=1.0, **shape)


def _focal(z, positive, margin, focusing):
    p = expit(z - margin if positive else z)
    p_t = p if positive else 1 - p
    return -((1 - p_t) ** focusing) * np.log(p_t)


def _sum_entries(logits, observed, entry):
    """Second implementation: one entry at a time, in float64 by numpy."""
    z, s = np.asarray(logits), np.asarray(observed)
    return sum(entry(z[i, j], s[i, j]) for i in range(len(z)) for j in range(z.shape[1])) / len(z)


def _hill_entry(z, s):
    return (1.4 - expit(z)) * expit(z) ** 2 if s == 0 else _focal(z, s > 0, 0.7, 1.5)


def _splc_entry(z, s):
    if s == 0 and expit(z) > 0.6:
        return _focal(z, True, 0.0, 1.5)
    return _focal(z, s > 0, 0.7, 1.5)


def _robust_entry(z, s):
    if s != 0:
        return -log_expit(z if s > 0 else -z)
    p = expit(z)
    label, trust = expit(2 * p - 2), math.exp(-((p - 0.8) ** 2) / (2 * 0.25))
    return trust * (label * (1 - p**0.01) / 0.01 + (1 - label) * (1 - (1 - p) ** 1.5) / 1.5)


LOSSES = [
    (lambda z, s: hill(z, s, margin=0.7, focusing=1.5, height=1.4), _hill_entry),
    (lambda z, s: focal_margin(z, s, margin=0.7, focusing=1.5), lambda z, s: _focal(z, s > 0, 0.7, 1.5)),
    (lambda z, s: self_paced_correction(z, s, threshold=0.6, margin=0.7, focusing=1.5), _splc_entry),
    (lambda z, s: generalized_robust(z, s, **SHAPE, positive_power=0.01, negative_power=1.5), _robust_entry),
]
NAMES = ["hill", "focal", "splc", "gr"]


@pytest.mark.parametrize(("loss", "entry"), LOSSES, ids=NAMES)
def test_equals_a_second_implementation(loss, entry):
    for seed in range(3):
        logits, observed = _case(seed)
        assert float(loss(logits, observed)) == pytest.approx(_sum_entries(logits, observed, entry), rel=1e-12)


@pytest.mark.parametrize("loss", [loss for loss, _ in LOSSES[:3]], ids=NAMES[:3])
def test_gradients_match_finite_differences(loss):
    logits, observed = _case()
    assert gradcheck(lambda z: loss(z, observed), (logits.requires_grad_(),))


def test_gradient_of_gr_takes_soft_label_and_trust_for_constants():
    logits, observed = _case()
    p = expit(np.asarray(logits))
    label, trust = expit(2 * p - 2), np.exp(-((p - 0.8) ** 2) / (2 * 0.25))
    # d/dz (1−p^q)/q = −p^q (1−p) and d/dz (1−(1−p)^q)/q = (1−p)^q p.
    unknown = trust * (-label * p**0.01 * (1 - p) + (1 - label) * (1 - p) ** 1.5 * p)
    expected = np.where(observed == 0, unknown, p - (np.asarray(observed) > 0)) / len(p)
    leaf = logits.requires_grad_()
    loss = generalized_robust(leaf, observed, **SHAPE, positive_power=0.01, negative_power=1.5)
    assert np.allclose(torch.autograd.grad(loss, leaf)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("loss", [loss for loss, _ in LOSSES], ids=NAMES)
@pytest.mark.parametrize("size", [1e4, -1e4, 50.0, -50.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_far_logits(loss, size, dtype):
    _, observed = _case()
    far = torch.full(observed.shape, size, dtype=dtype, requires_grad=True)
    value = loss(far, observed)
    assert torch.isfinite(value)
    assert torch.isfinite(torch.autograd.grad(value, far)[0]).all()


class TestHill:
    def test_worked_by_hand(self):
        """P = ¾ unknown: (3/2 − ¾)·9/16; p_m = ½ observed (z = m): −(½)² log ½."""
        logits = torch.tensor([[1.0, math.log(3)]], dtype=torch.float64)
        loss = hill(logits, torch.tensor([[1, 0]]), margin=1.0, focusing=2.0, height=1.5)
        assert float(loss) == pytest.approx(0.25 * math.log(2) + 0.75 * 9 / 16, rel=1e-12)

    def test_gradient_is_a_hill_over_the_probability(self):
        p = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
        logits = torch.logit(p)[None].requires_grad_()
        loss = hill(logits, torch.zeros_like(logits), margin=1.0, focusing=2.0, height=1.5)
        gradient = torch.autograd.grad(loss, logits)[0][0]
        assert torch.allclose(gradient, 3 * p**2 * (1 - p) ** 2, rtol=1e-9)
        assert float(p[gradient.argmax()]) == pytest.approx(0.5)
        assert gradient[0] < 1e-5  # nothing is asked of what is surely absent …
        assert gradient[-1] < 1e-5  # … nor of what is surely there

    def test_lower_than_the_loss_of_assuming_negative_where_sure(self):
        logits = torch.tensor([[3.0]], dtype=torch.float64)
        unknown = torch.zeros(1, 1)
        forgiving = hill(logits, unknown, margin=1.0, focusing=2.0, height=1.5)
        assert float(forgiving) < 0.5 * float(assume_negative(logits, unknown))


class TestSelfPacedCorrection:
    def _losses(self, epoch, warm_up_epochs=1):
        logits, observed = _case()
        context = SimpleNamespace(network=torch.nn.Identity())
        objective = SPLCClassifier(threshold=0.6, warm_up_epochs=warm_up_epochs)._make_objective(context)
        objective.begin_epoch(epoch)
        ((_, loss),) = objective.losses(Batch(torch.arange(5), logits, observed))
        shape = {"margin": 1.0, "focusing": 2.0}
        plain = focal_margin(logits, observed, **shape)
        return float(loss), float(plain), float(self_paced_correction(logits, observed, threshold=0.6, **shape))

    @pytest.mark.parametrize(("epoch", "warm_up"), [(0, 1), (1, 2), (4, 5)])
    def test_focal_margin_before_its_start(self, epoch, warm_up):
        loss, plain, corrected = self._losses(epoch, warm_up)
        assert loss == plain != corrected

    @pytest.mark.parametrize(("epoch", "warm_up"), [(0, 0), (1, 1), (9, 1)])
    def test_corrects_from_its_start(self, epoch, warm_up):
        loss, plain, corrected = self._losses(epoch, warm_up)
        assert loss == corrected != plain

    def test_worked_by_hand(self):
        """P = ¾ is corrected and has no margin, p = ½ is not: −(¼)² log ¾ − (½)² log ½."""
        logits = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
        loss = self_paced_correction(logits, torch.zeros(1, 2), threshold=0.6, margin=1.0, focusing=2.0)
        assert float(loss) == pytest.approx(-math.log(3 / 4) / 16 - math.log(1 / 2) / 4, rel=1e-12)

    def test_known_negatives_are_never_corrected(self):
        logits, absent = torch.full((1, 1), 5.0), torch.tensor([[-1]])
        shape = {"margin": 1.0, "focusing": 2.0}
        assert self_paced_correction(logits, absent, threshold=0.6, **shape) == focal_margin(logits, absent, **shape)

    def test_without_focus_and_margin_it_is_assume_negative(self):
        logits, observed = _case()
        assert float(focal_margin(logits, observed, margin=0.0, focusing=0.0)) == pytest.approx(
            float(assume_negative(logits, observed)), rel=1e-12
        )


class TestGeneralizedRobust:
    @pytest.mark.parametrize("power", [0.0, 1e-9])
    def test_no_soft_label_full_trust_and_power_zero_is_assume_negative(self, power):
        logits, observed = _case()
        shape = {"slope": 0.0, "offset": -1e4, "center": 0.5, "width": math.inf}
        loss = generalized_robust(logits, observed, **shape, positive_power=0.01, negative_power=power)
        assert float(loss) == pytest.approx(float(assume_negative(logits, observed)), rel=1e-7)

    def test_the_whole_method_becomes_assume_negative(self, data, quick):
        settings = {"max_epochs": 3, "random_state": 0, "batch_size": 32}
        model = GeneralizedRobustClassifier(
            slope=(0, 0), offset=(-1e4, -1e4), width=(1e6, 1e6), negative_power=0.0, **settings
        ).fit(data.X, data.observed)
        plain = quick("an", **settings).fit(data.X, data.observed)
        assert np.allclose(model.predict_proba(data.X), plain.predict_proba(data.X), atol=1e-5)

    def test_powers_run_from_cross_entropy_to_absolute_loss(self):
        log_p = torch.log(torch.tensor([0.2, 0.9], dtype=torch.float64))
        assert torch.equal(generalized_cross_entropy(log_p, 0.0), -log_p)
        assert torch.allclose(generalized_cross_entropy(log_p, 1e-9), -log_p, rtol=1e-7)
        assert torch.allclose(generalized_cross_entropy(log_p, 1.0), 1 - log_p.exp())

    def test_worked_by_hand(self):
        """P = ½ unknown with K = ½, V = e^{−1/2} and both powers 1: V·½."""
        shape = {"slope": 0.0, "offset": 0.0, "center": 1.0, "width": 0.5}
        loss = generalized_robust(torch.zeros(1, 1), torch.zeros(1, 1), **shape, positive_power=1.0, negative_power=1.0)
        assert float(loss) == pytest.approx(math.exp(-0.5) / 2, rel=1e-6)

    def test_schedule(self):
        ends = {"slope": (0, 10), "offset": (-2, -8), "center": (0.5, 0.8), "width": (2, 0.5)}
        for epoch, expected in ((0, (0, -2, 0.53, 1.85)), (5, (5, -5, 0.68, 1.1)), (9, (9, -7.4, 0.8, 0.5))):
            assert scheduled(ends, epoch, 10) == pytest.approx(dict(zip(ends, expected, strict=True)))

    @pytest.mark.parametrize(
        ("bad", "message"),
        [({"slope": (1.0,)}, "slope must be two numbers"), ({"width": (1.0, 0.0)}, "width must be above 0")],
    )
    def test_bad_values(self, data, bad, message):
        with pytest.raises(ValueError, match=message):
            GeneralizedRobustClassifier(**bad).fit(data.X, data.observed)
