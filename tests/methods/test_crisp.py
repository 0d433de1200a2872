"""CRISP: the prior's estimator against known truth, its bias under 1/|Y| selection and the correction, the risk."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from onepos import load
from onepos.datasets import make_known_posterior
from onepos.methods.crisp import (
    CRISPClassifier,
    CRISPObjective,
    class_prior,
    class_prior_risk,
)
from onepos.training import TrainingRows


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(300, 6, 5, n_positives=2.0, signal=6.0, random_state=0)


def _sample(n, prior, share_seen, rng):
    """Scores of positives on (0.3, 1), of negatives on (0, 0.8): the top bin is pure above 0.8."""
    truth = rng.random(n) < prior
    scores = np.where(truth, rng.uniform(0.3, 1.0, n), rng.uniform(0.0, 0.8, n))
    return scores, truth & (rng.random(n) < share_seen)


class TestEstimator:
    @pytest.mark.parametrize("prior", [0.05, 0.3, 0.7])
    def test_converges_to_the_true_prior_where_its_assumption_holds(self, prior):
        rng = np.random.default_rng(0)
        errors = []
        for n in (1_000, 10_000, 100_000):
            estimates = [class_prior(*_sample(n, prior, 0.4, rng)) for _ in range(10)]
            errors.append(np.abs(np.array(estimates) - prior).mean())
        assert errors[2] < errors[1] < errors[0]
        assert errors[2] < 0.04 * prior

    def test_stays_above_the_prior_where_no_top_bin_is_pure(self):
        """Positives and negatives overlap to the top: every ratio is an upper bound, the best one is known."""
        rng = np.random.default_rng(0)
        truth = rng.random(200_000) < 0.3
        # Densities 2f and 1 on (0, 1): P(f ≥ z | y = 1) = 1 − z², so q/q⁺ = π + (1−π)/(1 + z) → π + (1−π)/2.
        scores = np.where(truth, np.sqrt(rng.random(200_000)), rng.random(200_000))
        assert class_prior(scores, truth) == pytest.approx(0.65, abs=0.05)

    def test_equals_a_search_over_every_threshold(self):
        rng = np.random.default_rng(1)
        for _ in range(5):
            scores, seen = _sample(300, 0.3, 0.5, rng)
            scores = scores.round(2)  # ties
            radius = math.sqrt(math.log(400) / (2 * 300)) + math.sqrt(math.log(400) / (2 * seen.sum()))
            candidates = []
            for z in np.unique(scores):
                above = np.mean(scores >= z)
                above_seen = np.mean(scores[seen] >= z)
                if above_seen > 0:
                    candidates.append(((above + 1.01 * radius) / above_seen, above / above_seen))
            expected = max(min(candidates)[1], seen.mean())
            assert class_prior(scores, seen) == pytest.approx(min(expected, 1.0), rel=1e-12)

    def test_depends_on_the_order_of_scores_alone(self):
        scores, seen = _sample(2000, 0.2, 0.5, np.random.default_rng(2))
        plain = class_prior(scores, seen)
        assert class_prior(np.exp(5 * scores), seen) == pytest.approx(plain, rel=1e-12)
        order = np.random.default_rng(3).permutation(2000)
        assert class_prior(scores[order], seen[order]) == pytest.approx(plain)

    def test_bounds(self):
        scores = np.zeros(10)
        assert class_prior(scores, np.zeros(10, dtype=bool)) == 0.0
        assert class_prior(scores, np.arange(10) < 3) == 1.0  # one bin says nothing
        assert class_prior(np.arange(10.0), np.arange(10) >= 7) >= 0.3


class TestRisk:
    def _case(self, n=8, c=4):
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(n, c, dtype=torch.float64, generator=generator)
        observed = torch.eye(c, dtype=torch.int8)[torch.arange(n) % c]
        priors = torch.tensor([0.3, 0.5, 0.4, 0.25], dtype=torch.float64)
        weights = 2 * priors * n / observed.sum(dim=0) * observed
        return logits, observed, priors, weights

    def test_equals_the_published_sum(self):
        logits, observed, priors, weights = self._case()
        f, s = torch.sigmoid(logits).numpy(), observed.numpy() == 1
        expected = 0.0
        for j, prior in enumerate(priors.tolist()):
            expected += 2 * prior * np.mean(1 - f[s[:, j], j]) + abs(f[:, j].mean() - prior)
        assert float(class_prior_risk(logits, observed, priors, weights)) == pytest.approx(expected, rel=1e-12)

    def test_worked_by_hand(self):
        """f = (¾, ½), the first observed, π = (½, ¼), n_j/n = 1: 2·½·¼ + |¾ − ½| + |½ − ¼|."""
        logits = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
        priors = torch.tensor([0.5, 0.25], dtype=torch.float64)
        observed = torch.tensor([[1, 0]])
        assert float(class_prior_risk(logits, observed, priors, 2 * priors * observed)) == pytest.approx(0.75)

    def test_is_the_risk_of_complete_labels_if_priors_and_sample_are_right(self):
        """With every positive observed and true priors, the bracket non-negative: Σ_j mean_i |y − f|."""
        rng = np.random.default_rng(0)
        y = rng.random((50, 3)) < 0.4
        f = np.where(y, rng.uniform(0.7, 1.0, y.shape), rng.uniform(0.3, 0.6, y.shape))
        priors = torch.from_numpy(y.mean(axis=0))
        weights = torch.from_numpy(2.0 * y)  # 2π·n/n_j = 2
        assert (f.mean(axis=0) > y.mean(axis=0)).all()
        risk = class_prior_risk(torch.logit(torch.from_numpy(f)), torch.from_numpy(y * 1), priors, weights)
        assert float(risk) == pytest.approx(np.abs(y - f).mean(axis=0).sum(), rel=1e-12)

    def test_known_negatives_add_their_absolute_loss(self):
        logits, observed, priors, weights = self._case()
        without = class_prior_risk(logits, observed, priors, weights)
        observed = observed.clone()
        observed[0, 2] = -1
        added = torch.sigmoid(logits[0, 2]) / len(logits)
        assert float(class_prior_risk(logits, observed, priors, weights)) == pytest.approx(float(without + added))

    def test_gradients_match_finite_differences_and_stay_finite(self):
        logits, observed, priors, weights = self._case()
        observed[1, 0] = -1
        assert gradcheck(lambda z: class_prior_risk(z, observed, priors, weights), (logits.requires_grad_(),))
        for size in (1e4, -1e4):
            far = torch.full((8, 4), size, requires_grad=True)
            loss = class_prior_risk(far, observed, priors.float(), weights.float())
            assert torch.isfinite(loss)
            assert torch.isfinite(torch.autograd.grad(loss, far)[0]).all()


class TestClassifier:
    def test_priors_are_estimated_when_due(self, data):
        rows = TrainingRows.from_arrays(data.X, data.observed.astype(np.int8), np.arange(300))
        method = CRISPClassifier(warm_up_epochs=2, refresh_epochs=3)
        method.single_label_ = False
        objective = CRISPObjective(torch.nn.Linear(6, 5), rows, method)
        estimated = []
        for epoch in range(9):
            objective.priors.zero_()
            objective.begin_epoch(epoch)
            estimated.append(bool(objective.priors.any()))
        assert estimated == [False, False, True, False, False, True, False, False, True]

    def test_weights_sum_to_twice_the_prior(self, data):
        rows = TrainingRows.from_arrays(data.X, data.observed.astype(np.int8), np.arange(300))
        method = CRISPClassifier()
        method.single_label_ = False
        objective = CRISPObjective(torch.nn.Linear(6, 5), rows, method)
        objective.estimate()
        assert torch.allclose(objective.weights.mean(dim=0), 2 * objective.priors)
        assert (objective.weights[rows.observed <= 0] == 0).all()

    def test_history_and_file_have_the_priors(self, data, tmp_path):
        model = CRISPClassifier(max_epochs=6, random_state=0).fit(data.X, data.observed)
        assert model.class_priors_.shape == (5,)
        assert model.history_["n_positives"][2] == 0.0
        assert model.history_["n_positives"][-1] == pytest.approx(model.class_priors_.sum(), rel=1e-6)
        again = load(model.save(tmp_path / "model.onepos"))
        assert np.array_equal(again.class_priors_, model.class_priors_)

    def test_ranks_hidden_labels(self, data):
        model = CRISPClassifier(max_epochs=20, early_stopping=False, random_state=0)
        assert model.fit(data.X, data.observed).score(data.X, data.Y) > 0.9

    def test_a_warm_up_throughout_is_assume_negative_with_priors(self, data, quick):
        settings = {"max_epochs": 3, "random_state": 0, "batch_size": 32}
        model = CRISPClassifier(warm_up_epochs=3, **settings).fit(data.X, data.observed)
        plain = quick("an", **settings).fit(data.X, data.observed)
        assert np.array_equal(model.predict_proba(data.X), plain.predict_proba(data.X))
        assert (model.class_priors_ >= data.observed.mean(axis=0) - 1e-7).all()

    def test_one_class_a_row_needs_no_estimate(self, data):
        shown = data.observed.argmax(axis=1)
        model = CRISPClassifier(max_epochs=5, random_state=0).fit(data.X, shown)
        assert np.allclose(model.class_priors_, np.bincount(shown) / len(shown))
