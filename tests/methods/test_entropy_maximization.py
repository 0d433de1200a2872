"""EM and EM+APL: the entropy by hand, the limit without it, which entries get a pseudo-label and when."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import bernoulli
from torch.autograd import gradcheck

from label_case import label_case
from onepos.datasets import make_known_posterior
from onepos.methods._neural import Context
from onepos.methods.entropy_maximization import (
    EntropyMaximizationClassifier,
    EntropyMaximizationObjective,
    binary_entropy,
    entropy_maximization,
    freeze_lowest,
)
from onepos.training import Callback, Schedule, TrainingRows
from onepos.training.losses import binary_cross_entropy

NAN = math.nan


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(200, 5, 4, random_state=0)


def _case(seed=0):
    logits, observed, generator = label_case(seed)
    pseudo = torch.full((5, 6), NAN, dtype=torch.float64)
    pseudo[:3, :3] = torch.rand(3, 3, dtype=torch.float64, generator=generator)
    return logits, observed, pseudo


def test_entropy_equals_scipy():
    logits, _, _ = _case()
    assert np.allclose(binary_entropy(logits), bernoulli.entropy(torch.sigmoid(logits).numpy()), rtol=1e-12)


def test_worked_by_hand():
    """p = (¾, ½, ¼): observed; unknown; pseudo-label ½. α = 0.1, β = 0.4."""
    logits = torch.tensor([[math.log(3), 0.0, -math.log(3)]], dtype=torch.float64)
    pseudo = torch.tensor([[NAN, NAN, 0.5]], dtype=torch.float64)
    expected = -math.log(3 / 4) - 0.1 * math.log(2) - 0.4 * 0.5 * math.log(1 / 4 * 3 / 4)
    loss = entropy_maximization(logits, torch.tensor([[1, 0, 0]]), 0.1, pseudo_labels=pseudo, pseudo_label_weight=0.4)
    assert float(loss) == pytest.approx(expected, rel=1e-12)


def test_equals_a_second_implementation():
    for seed in range(3):
        logits, observed, pseudo = _case(seed)
        p, s, y = torch.sigmoid(logits).numpy(), observed.numpy(), pseudo.numpy()
        total = 0.0
        for i, j in np.ndindex(p.shape):
            if s[i, j] != 0:
                total -= np.log(p[i, j] if s[i, j] > 0 else 1 - p[i, j])
            elif not np.isnan(y[i, j]):
                total -= 0.4 * (y[i, j] * np.log(p[i, j]) + (1 - y[i, j]) * np.log(1 - p[i, j]))
            else:
                total -= 0.1 * bernoulli.entropy(p[i, j])
        loss = entropy_maximization(logits, observed, 0.1, pseudo_labels=pseudo, pseudo_label_weight=0.4)
        assert float(loss) == pytest.approx(total / len(p), rel=1e-12)


def test_without_entropy_unknown_entries_are_ignored():
    logits, observed, _ = _case()
    loss = entropy_maximization(logits.requires_grad_(), observed, 0.0)
    known = (observed != 0).double()
    ignoring = binary_cross_entropy(logits.detach(), (observed > 0).double(), known)
    assert loss.item() == pytest.approx(ignoring.item(), rel=1e-12)
    assert (torch.autograd.grad(loss, logits)[0][observed == 0] == 0).all()


def test_unknown_entries_are_drawn_to_one_half():
    """The gradient of −α·H by the logit is α·z·p(1−p): towards z = 0, and nothing far from it."""
    z = torch.linspace(-8, 8, 33, dtype=torch.float64)[None].requires_grad_()
    loss = entropy_maximization(z, torch.zeros_like(z), 0.3)
    p = torch.sigmoid(z)
    assert torch.allclose(torch.autograd.grad(loss, z)[0], 0.3 * z * p * (1 - p), atol=1e-14)


def test_gradients_match_finite_differences_and_stay_finite():
    logits, observed, pseudo = _case()
    settings = {"pseudo_labels": pseudo, "pseudo_label_weight": 0.4}
    assert gradcheck(lambda z: entropy_maximization(z, observed, 0.1, **settings), (logits.requires_grad_(),))
    for size in (1e4, -1e4):
        for dtype in (torch.float32, torch.float64):
            far = torch.full((5, 6), size, dtype=dtype, requires_grad=True)
            loss = entropy_maximization(far, observed, 0.1, **settings)
            assert torch.isfinite(loss)
            assert torch.isfinite(torch.autograd.grad(loss, far)[0]).all()


class TestPseudoLabels:
    def test_the_lowest_open_entries_of_each_label(self):
        p = torch.tensor([[0.1, 0.9], [0.2, 0.1], [0.3, 0.2], [0.4, 0.3]])
        open_entries = torch.tensor([[False, True], [True, True], [True, True], [True, True]])
        labels = torch.full_like(p, NAN)
        freeze_lowest(labels, p, open_entries, torch.tensor([2, 1]))
        expected = torch.tensor([[NAN, NAN], [0.2, 0.1], [0.3, NAN], [NAN, NAN]])
        assert torch.equal(labels.isnan(), expected.isnan())
        assert torch.equal(labels.nan_to_num(), expected.nan_to_num())
        freeze_lowest(labels, 1 - p, open_entries & labels.isnan(), torch.tensor([9, 1]))  # more than there are
        assert labels[3, 0] == pytest.approx(0.6)
        assert labels[0].isnan().tolist() == [True, False]
        assert labels[1, 0] == pytest.approx(0.2)  # frozen

    @pytest.mark.parametrize(
        ("share", "warm_up", "max_epochs", "due"), [(0.9, 5, 10, range(5, 10)), (0.0, 0, 10, []), (0.9, 5, 5, [])]
    )
    def test_schedule(self, share, warm_up, max_epochs, due):
        observed = torch.ones(100, 3, dtype=torch.int8)
        observed[:, 0], observed[:11, 1] = 0, 0
        rows = TrainingRows(torch.zeros(100, 2), observed, torch.arange(100))
        context = Context(rows, torch.nn.Linear(2, 3), None, torch.Generator(), Schedule(max_epochs, 16, 1e-3), 3)
        objective = EntropyMaximizationObjective(context, share=share, due=range(warm_up, max_epochs))
        assert list(objective.due) == list(due)
        if due:
            assert objective.portion.tolist() == [18, 1, 0]  # ⌊0.9·N/5⌋

    def test_a_portion_an_epoch_until_the_share_is_reached(self, data):
        counts, frozen = [], []

        class Count(Callback):
            def on_epoch_end(self, objective, record):
                labels = objective.pseudo_labels
                counts.append((~labels.isnan()).sum(dim=0).tolist())
                frozen.append(labels.clone())

        model = EntropyMaximizationClassifier(
            pseudo_label_share=0.9, warm_up_epochs=2, max_epochs=5, early_stopping=False, random_state=0
        )
        model.fit(data.X, data.observed, callbacks=[Count()])
        portion = np.floor(0.9 * (data.observed == 0).sum(axis=0) / 3)
        assert counts[:2] == [[0] * 4] * 2
        for i, epoch in enumerate((2, 3, 4)):
            assert counts[epoch] == ((i + 1) * portion).tolist()
        made = ~frozen[2].isnan()
        assert torch.equal(frozen[4][made], frozen[2][made])
        assert frozen[4][torch.from_numpy(data.observed) == 1].isnan().all()

    def test_a_share_of_zero_is_entropy_maximisation(self, data, quick):
        all_epochs = {"early_stopping": False}
        plain = quick("em", **all_epochs).fit(data.X, data.observed)
        none = quick("em-apl", pseudo_label_share=0.0, warm_up_epochs=0, **all_epochs).fit(data.X, data.observed)
        some = quick("em-apl", warm_up_epochs=1, **all_epochs).fit(data.X, data.observed)
        assert np.array_equal(plain.predict_proba(data.X), none.predict_proba(data.X))
        assert not np.array_equal(plain.predict_proba(data.X), some.predict_proba(data.X))
