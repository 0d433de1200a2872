"""ROLE: its loss by hand, its gradient by finite differences, its labels against truth."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from onepos.datasets import make_known_posterior
from onepos.label_sets.thresholds import estimate_n_positives
from onepos.methods.role import (
    ROLEClassifier,
    agreement,
    expected_positive,
    initial_label_logits,
    role,
)
from onepos.training import Callback


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(300, 6, 5, n_positives=2.0, signal=6.0, random_state=0)


def _case(seed=0, batch=4, c=6):
    generator = torch.Generator().manual_seed(seed)
    logits, theta = torch.randn(2, batch, c, dtype=torch.float64, generator=generator)
    observed = torch.zeros(batch, c, dtype=torch.int8)
    observed[torch.arange(batch), torch.arange(batch) % c] = 1
    observed[0, -1] = -1
    return logits, theta, observed


class TestLoss:
    def test_worked_by_hand(self):
        """One row, two labels: p = (¾, ½), ŷ = (½, ¼), the first label observed, k = 1, λ = 2."""
        logits = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
        theta = torch.tensor([[0.0, -math.log(3)]], dtype=torch.float64)
        network = -0.5 * math.log(3 / 4 * 1 / 4) - 0.25 * math.log(1 / 2) - 0.75 * math.log(1 / 2)  # BCE(p, ŷ)
        network += -math.log(3 / 4) + 2 * (5 / 4 - 1) ** 2 / 2
        labels = -0.75 * math.log(1 / 2) - 0.25 * math.log(1 / 2) - 0.5 * math.log(1 / 4 * 3 / 4)  # BCE(ŷ, p)
        labels += -math.log(1 / 2) + 2 * (3 / 4 - 1) ** 2 / 2
        loss = role(logits, theta, torch.tensor([[1, 0]]), n_positives=1.0, weight=2.0)
        assert float(loss) == pytest.approx((network + labels) / 2, rel=1e-12)

    def test_is_the_published_mean_over_entries_times_the_number_of_labels(self):
        logits, theta, observed = _case()
        observed = observed.clamp(min=0)
        k, weight, (batch, c) = 2.3, 1.7, logits.shape
        p, y, s = (np.asarray(v) for v in (logits.sigmoid(), theta.sigmoid(), observed))

        def ell(a, b):
            entropy = -(b * np.log(a) + (1 - b) * np.log(1 - a)).mean()
            return entropy - np.log(a[s == 1]).sum() / (batch * c) + weight * ((a.sum() / batch - k) / c) ** 2

        expected = 0.5 * (ell(p, y) + ell(y, p))
        assert float(role(logits, theta, observed, k, weight)) / c == pytest.approx(expected, rel=1e-12)

    def test_each_side_learns_only_as_the_first_argument(self):
        logits, theta, observed = _case(1)
        leaves = [logits.clone().requires_grad_(), theta.clone().requires_grad_()]
        slopes = torch.autograd.grad(role(*leaves, observed, 2.5, 3.0), leaves)
        # The other side is frozen: finite differences see ½·ℓ(p | ŷ) and ½·ℓ(ŷ | p) alone.
        step = 1e-5
        for slope, values, others in zip(slopes, (logits, theta), (theta, logits), strict=True):
            for i, j in [(0, 0), (0, 5), (2, 3)]:
                up, down = values.clone(), values.clone()
                up[i, j] += step
                down[i, j] -= step
                ends = [0.5 * agreement(t, others.sigmoid(), observed, 2.5, 3.0) for t in (up, down)]
                assert float((ends[0] - ends[1]) / (2 * step)) == pytest.approx(float(slope[i, j]), abs=1e-9)

    @pytest.mark.parametrize("k", [1.5, 3.0])
    def test_a_strong_regulariser_fixes_the_number_of_positives(self, k):
        _, logits, observed = _case(2)
        observed = observed.clamp(min=0)
        logits.requires_grad_()
        optimiser = torch.optim.Adam([logits], lr=0.05)
        for _ in range(200):
            optimiser.zero_grad()
            expected_positive(logits, observed, k, weight=1e3).backward()
            optimiser.step()
        assert float(logits.detach().sigmoid().sum(dim=1).mean()) == pytest.approx(k, abs=5e-3)

    def test_without_regulariser_only_known_entries_count(self):
        logits, _, observed = _case(3)
        leaf = logits.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(expected_positive(leaf, observed, 2.0, 0.0), leaf)
        assert (gradient[observed == 0] == 0).all()
        assert (gradient[observed == 1] < 0).all()
        assert (gradient[observed == -1] > 0).all()


def test_initialisation_as_published():
    observed = torch.zeros(400, 5, dtype=torch.int8)
    observed[:, 0], observed[:, 1] = 1, -1
    estimate = initial_label_logits(observed, torch.Generator().manual_seed(0)).sigmoid()
    assert torch.allclose(estimate[:, 0], torch.tensor(0.995))
    assert torch.allclose(estimate[:, 1], torch.tensor(0.005))
    assert 0.4 <= estimate[:, 2:].min() < 0.402
    assert 0.598 < estimate[:, 2:].max() <= 0.6
    assert float(estimate[:, 2:].mean()) == pytest.approx(0.5, abs=0.005)


class TestClassifier:
    def test_hidden_labels_are_recovered(self, data):
        model = ROLEClassifier(n_positives=2.0, max_epochs=30, random_state=0).fit(data.X, data.observed)
        hidden = data.observed == 0
        assert roc_auc_score(data.Y[hidden], model.soft_labels_[hidden]) > 0.85
        # Against chance as control: the same labels, seen from other rows.
        assert abs(roc_auc_score(data.Y[hidden], model.soft_labels_[::-1][hidden]) - 0.5) < 0.15

    def test_more_expected_positives_give_more(self, data):
        few, many = (
            ROLEClassifier(n_positives=k, regularizer_weight=10.0, max_epochs=10, random_state=0)
            .fit(data.X, data.observed)
            .predict_proba(data.X)
            .sum(axis=1)
            .mean()
            for k in (1.2, 4.0)
        )
        assert many > few + 0.5

    def test_soft_labels_are_those_of_the_restored_epoch(self, data):
        kept = []

        class Keep(Callback):
            def on_epoch_end(self, objective, record):
                kept.append(objective.label_logits.detach().sigmoid().numpy())

        nonsense = np.eye(5, dtype=int)[np.arange(40) % 5]  # validation that has nothing to learn: an early epoch wins
        model = ROLEClassifier(max_epochs=8, patience=None, random_state=0)
        model.fit(data.X, data.observed, validation=(data.X[:40], nonsense), callbacks=[Keep()])
        best = model.history_.facts["best_epoch"] - 1
        assert best < 7
        assert np.array_equal(model.soft_labels_, kept[best])
        assert not np.array_equal(kept[best], kept[-1])

    def test_rows_without_trained_labels_get_the_network_s_probability(self, data):
        observed = data.observed.astype(np.int8)
        observed[:20] = 0
        observed[0, 2] = -1
        with pytest.warns(UserWarning, match="20 of 300 rows"):
            model = ROLEClassifier(max_epochs=2, random_state=0).fit(data.X, observed)
        expected = model.predict_proba(data.X[:20])
        expected[0, 2] = 0.005
        assert np.allclose(model.soft_labels_[:20], expected, atol=1e-6)

    def test_the_rate_of_the_labels_follows_its_factor(self, data):
        settings = {"max_epochs": 2, "early_stopping": False, "random_state": 0}
        still = ROLEClassifier(label_rate_factor=0.0, **settings).fit(data.X, data.observed)
        unknown = still.soft_labels_[data.observed == 0]
        assert unknown.min() > 0.4 - 1e-6
        assert unknown.max() < 0.6 + 1e-6
        moved = ROLEClassifier(**settings).fit(data.X, data.observed)
        assert np.abs(moved.soft_labels_ - still.soft_labels_).max() > 0.01


class TestNumberOfPositives:
    @pytest.mark.parametrize(
        ("given", "full", "value", "source"),
        [(1.7, False, 1.7, "given"), (None, False, 2.0, "default"), (None, True, None, "validation")],
    )
    def test_where_it_comes_from(self, data, given, full, value, source):
        model = ROLEClassifier(n_positives=given, max_epochs=1, random_state=0)
        validation = {"validation": (data.X, data.Y), "validation_labels": "full"} if full else {}
        model.fit(data.X, data.observed, **validation)
        assert model.n_positives_ == pytest.approx(data.Y.sum(axis=1).mean() if value is None else value)
        assert model.history_.facts["n_positives_from"] == source

    def test_estimated(self, data):
        model = ROLEClassifier(n_positives="estimate", max_epochs=1, random_state=0).fit(data.X, data.observed)
        assert 1.0 < model.n_positives_ < math.sqrt(5)
        assert model.history_.facts["n_positives_from"] == "estimated"

    @pytest.mark.parametrize("given", [None, "estimate"])
    def test_a_vector_of_classes_has_one(self, data, given):
        model = ROLEClassifier(n_positives=given, max_epochs=1, random_state=0)
        assert model.fit(data.X, data.observed.argmax(axis=1)).n_positives_ == 1.0

    @pytest.mark.parametrize(("bad", "message"), [(9.0, "between 1 and 5"), (0.5, "parameter"), ("guess", "parameter")])
    def test_bad_values(self, data, bad, message):
        with pytest.raises(ValueError, match=message):
            ROLEClassifier(n_positives=bad).fit(data.X, data.observed)

    @pytest.mark.parametrize("m", [1, 2, 4])
    def test_equal_sets_of_neighbours_reach_the_bound(self, m):
        """Neighbours with the same m labels agree with probability 1/m; the estimate is √m by construction."""
        rng = np.random.default_rng(0)
        group = np.repeat(np.arange(2000), 2)
        shown = (group * 7 + rng.integers(m, size=len(group))) % 97
        observed = np.eye(97, dtype=np.int8)[shown]
        assert estimate_n_positives(group[:, None].astype(float), observed) == pytest.approx(m**0.5, rel=0.05)

    def test_inverse_agreement_bounds_the_harmonic_mean(self):
        for seed in range(5):
            data = make_known_posterior(600, 4, 8, n_positives=2.5, random_state=seed)
            harmonic = 1.0 / np.mean(1.0 / data.Y.sum(axis=1))
            assert estimate_n_positives(data.X, data.observed.astype(np.int8)) ** 2 > harmonic

    def test_several_observed_positives_and_tiny_sets(self):
        assert estimate_n_positives(np.zeros((1, 1)), np.ones((1, 3), dtype=np.int8)) == 1.0
        both = np.ones((4, 2), dtype=np.int8)
        assert estimate_n_positives(np.arange(4.0)[:, None], both) == pytest.approx(2**0.5)
        apart = np.eye(4, dtype=np.int8)  # no label is seen twice: nothing bounds the number but c
        assert estimate_n_positives(np.arange(4.0)[:, None], apart) == pytest.approx(2.0)
