"""LL-R, LL-Ct, LL-Cp: which entries are taken for wrong, what becomes of them, and how many by the epoch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from onepos.datasets import make_known_posterior
from onepos.methods.large_loss import LargeLossClassifier, LargeLossObjective, correct, largest_unknown, n_large, reject
from onepos.training import Batch, TrainingRows
from onepos.training.losses import assume_negative

SCHEMES = ["reject", "correct", "correct-permanently"]


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(200, 5, 6, random_state=0)


def _case(seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, 6, dtype=torch.float64, generator=generator)
    observed = torch.eye(6, dtype=torch.int8)[[0, 2, 3, 5, 1]]
    observed[0, 4] = -1
    return logits, observed


def _by_numpy(logits, observed, number, scheme):
    """Second implementation: entry-wise losses in a table, sorted."""
    z, s = np.asarray(logits), np.asarray(observed)
    loss = np.where(s > 0, np.log1p(np.exp(-z)), np.log1p(np.exp(z)))
    unknown = [(i, j) for i in range(len(z)) for j in range(z.shape[1]) if s[i, j] == 0]
    for i, j in sorted(unknown, key=lambda entry: -loss[entry])[:number]:
        loss[i, j] = 0.0 if scheme == "reject" else np.log1p(np.exp(-z[i, j]))
    return loss.sum() / len(z)


@pytest.mark.parametrize("number", [0, 1, 4, 24, 1000])
@pytest.mark.parametrize(("scheme", "loss"), [("reject", reject), ("correct", correct)])
def test_equals_a_second_implementation(scheme, loss, number):
    logits, observed = _case()
    got = loss(logits, observed, largest_unknown(logits, observed, number))
    assert float(got) == pytest.approx(_by_numpy(logits, observed, number, scheme), rel=1e-12)


def test_worked_by_hand():
    """p = (½, ¾, ¼), the first observed, one entry marked: that with p = ¾."""
    logits = torch.tensor([[0.0, math.log(3), -math.log(3)]], dtype=torch.float64)
    observed = torch.tensor([[1, 0, 0]], dtype=torch.int8)
    marked = largest_unknown(logits, observed, 1)
    assert marked.tolist() == [[False, True, False]]
    rest = -math.log(1 / 2) - math.log(3 / 4)
    assert float(reject(logits, observed, marked)) == pytest.approx(rest, rel=1e-12)
    assert float(correct(logits, observed, marked)) == pytest.approx(rest - math.log(3 / 4), rel=1e-12)


@given(st.integers(0, 40), st.booleans())
@settings(max_examples=30, deadline=None)
def test_exactly_so_many_unknown_entries_whatever_the_ties(number, tied):
    logits, observed = _case()
    logits = torch.zeros_like(logits) if tied else logits
    marked = largest_unknown(logits, observed, number)
    assert int(marked.sum()) == min(number, int((observed == 0).sum()))
    assert not marked[observed != 0].any()


@pytest.mark.parametrize("loss", [reject, correct])
def test_gradients_match_finite_differences_and_stay_finite(loss):
    logits, observed = _case()
    marked = largest_unknown(logits, observed, 5)
    assert gradcheck(lambda z: loss(z, observed, marked), (logits.requires_grad_(),))
    for size in (1e4, -1e4):
        far = torch.full((5, 6), size, requires_grad=True)
        value = loss(far, observed, marked)
        assert torch.isfinite(value)
        assert torch.isfinite(torch.autograd.grad(value, far)[0]).all()


def test_share_is_rounded_up_but_not_by_rounding_errors():
    assert n_large(100, 0.0) == 0
    assert n_large(100, 0.001) == 1
    assert n_large(1000, 3 * 0.1) == 300  # 3 · 0.1 is a little above 0.3 in floating point


def _objective(scheme, rate=0.1):
    logits, observed = _case()
    rows = TrainingRows.from_arrays(logits.float().numpy(), observed.numpy(), np.arange(5))
    objective = LargeLossObjective(torch.nn.Identity(), rows, scheme, rate)
    return objective, Batch(torch.arange(5), rows.features, rows.observed)


@pytest.mark.parametrize(
    ("scheme", "expected"), [("reject", [0.0, 0.1, 0.2]), ("correct", [0.0, 0.1, 0.2]), (SCHEMES[2], [0.0, 0.1, 0.1])]
)
def test_schedule(scheme, expected):
    objective, _ = _objective(scheme)
    rates = []
    for epoch in range(3):
        objective.begin_epoch(epoch)
        rates.append(objective.rate)
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("epoch", "rate"), [(0, 0.3), (7, 0.0)])
def test_first_epoch_and_rate_zero_are_assume_negative(scheme, epoch, rate):
    objective, batch = _objective(scheme, rate)
    objective.begin_epoch(epoch)
    ((_, loss),) = objective.losses(batch)
    assert float(loss) == pytest.approx(float(assume_negative(batch.features, batch.observed)), rel=1e-6)


def test_permanent_corrections_stay_and_others_do_not():
    objective, batch = _objective("correct-permanently")
    before = batch.observed.clone()
    for epoch, n_corrected in ((1, 3), (2, 6)):  # ⌈30 · 0.1⌉ more in each epoch
        objective.begin_epoch(epoch)
        ((_, loss),) = objective.losses(batch)
        changed = objective.labels != before
        assert int(changed.sum()) == n_corrected
        assert float(loss) == pytest.approx(float(assume_negative(batch.features, objective.labels)), rel=1e-6)
    # The loss of the step is that of the labels it leaves behind: the marked set and the corrected set are one.
    assert (objective.labels[before != 0] == before[before != 0]).all()
    assert torch.equal(batch.observed, before)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rate_zero_trains_the_assume_negative_model(data, quick, scheme):
    settings = {"max_epochs": 3, "random_state": 0, "batch_size": 32}
    model = LargeLossClassifier(scheme=scheme, rate_per_epoch=0.0, **settings).fit(data.X, data.observed)
    plain = quick("an", **settings).fit(data.X, data.observed)
    assert np.allclose(model.predict_proba(data.X), plain.predict_proba(data.X), atol=1e-6)


def test_corrections_raise_the_number_of_positives(data):
    few, more = (
        LargeLossClassifier(scheme="correct", rate_per_epoch=rate, max_epochs=10, early_stopping=False, random_state=0)
        .fit(data.X, data.observed)
        .predict_proba(data.X)
        .sum(axis=1)
        .mean()
        for rate in (0.0, 0.02)
    )
    assert more > few + 0.3
