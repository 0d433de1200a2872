"""Capped softmax: its likelihood worked by hand, its limits, its gradient, what it estimates, what it returns."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from torch.autograd import gradcheck

import onepos
from onepos.datasets import make_known_posterior
from onepos.label_sets.pooling import marginal_logits
from onepos.methods.softmax import capped_likelihood
from onepos.training.losses import cardinality_shift, softmax_cross_entropy


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(300, 6, 5, n_positives=2.0, signal=6.0, random_state=0)


def _case(rows=4, labels=6):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(rows, labels, dtype=torch.float64, generator=generator)
    observed = torch.eye(labels, dtype=torch.int8)[torch.arange(rows) % labels]
    return logits.requires_grad_(), observed


def _value(loss):
    return float(loss.detach())


class TestLoss:
    def test_worked_by_hand(self):
        """Three labels alike with m = 3/2 have ½ each."""
        even = torch.zeros(1, 3, dtype=torch.float64)
        seen = torch.tensor([[0, 1, 0]])
        assert _value(capped_likelihood(even, seen, 1.5)) == pytest.approx(math.log(2), rel=1e-12)
        # Two labels with odds 4 to 1 in z and m = 1: σ(a + b) + σ(b) = 1 means a + b = −b, σ(log 2) = 2/3.
        odds = torch.tensor([[math.log(4), 0.0]], dtype=torch.float64)
        assert _value(capped_likelihood(odds, torch.tensor([[1, 0]]), 1.0)) == pytest.approx(math.log(1.5), rel=1e-10)
        assert _value(capped_likelihood(odds, torch.tensor([[0, 1]]), 1.0)) == pytest.approx(math.log(3), rel=1e-10)

    def test_the_gradient(self):
        logits, observed = _case()
        observed[0, 3], observed[1, 2] = -1, 1
        for m in (0.5, 1.0, 2.5, 4.0):
            assert gradcheck(lambda z, m=m: capped_likelihood(z, observed, m), (logits,))

    def test_is_softmax_where_labels_are_few(self):
        """σ(u) is exp(u) for small f, so that f/m is a softmax, in value and slope."""
        logits, observed = _case()
        m = 1e-7
        ours, theirs = capped_likelihood(logits, observed, m) + math.log(m), softmax_cross_entropy(logits, observed)
        assert _value(ours) == pytest.approx(_value(theirs), rel=1e-6)
        slopes = [torch.autograd.grad(loss, logits)[0] for loss in (ours, theirs)]
        np.testing.assert_allclose(*(slope.numpy() for slope in slopes), atol=1e-6)

    def test_does_not_change_with_a_shift(self):
        logits, observed = _case()
        here, there = (_value(capped_likelihood(logits + s, observed, 2.5)) for s in (0.0, 11.0))
        assert here == pytest.approx(there, rel=1e-10)

    def test_labels_known_to_be_absent_have_no_part(self):
        logits, observed = _case()
        observed[:, 5] = -1
        without = capped_likelihood(logits[:, :5], observed[:, :5], 2.0)
        assert _value(capped_likelihood(logits, observed, 2.0)) == pytest.approx(_value(without), rel=1e-10)

    def test_several_observed_labels_share_and_none_is_nothing(self):
        logits, _ = _case(rows=2)
        observed = torch.zeros(2, 6, dtype=torch.int8)
        observed[0, :2] = 1
        f = torch.sigmoid(torch.from_numpy(marginal_logits(logits.detach().numpy(), 2.0)))
        expected = -(f[0, 0].log() + f[0, 1].log()) / 2 / 2
        assert _value(capped_likelihood(logits, observed, 2.0)) == pytest.approx(_value(expected), rel=1e-8)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10_000), st.floats(0.1, 100.0), st.floats(0.05, 0.95), st.booleans())
    def test_the_sum_is_m(self, seed, spread, part, single):
        dtype = torch.float32 if single else torch.float64
        generator = torch.Generator().manual_seed(seed)
        logits = spread * torch.randn(5, 7, dtype=torch.float64, generator=generator)
        m = 0.5 + part * 6.0
        shift = cardinality_shift(logits.to(dtype), torch.ones(5, 7, dtype=torch.bool), m)
        total = torch.sigmoid(logits.to(dtype) + shift).sum(1).numpy()
        np.testing.assert_allclose(total, m, rtol=1e-4 if single else 1e-9)
        if not single:  # bisection finds the same
            np.testing.assert_allclose(
                torch.sigmoid(logits + shift), expit(marginal_logits(logits.numpy(), m)), atol=1e-9
            )

    @pytest.mark.parametrize("size", [50.0, 1e4])
    def test_far_logits(self, size):
        _, observed = _case()
        for logits in (torch.full((4, 6), size), size * torch.sign(torch.randn(4, 6, generator=torch.Generator()))):
            logits = logits.clone().requires_grad_()
            loss = capped_likelihood(logits, observed, 2.5)
            loss.backward()
            assert torch.isfinite(loss)
            assert torch.isfinite(logits.grad).all()

    def test_its_minimum_are_the_shares_times_m(self):
        """If no share of the observed labels is above 1/m, f = m·share; one above has f = 1, the others the rest."""
        share = torch.tensor([0.4, 0.3, 0.2, 0.07, 0.03], dtype=torch.float64)

        def risk(z):
            logits = torch.tensor(z[None], dtype=torch.float64, requires_grad=True)
            shift = cardinality_shift(logits.detach(), torch.ones(1, 5, dtype=torch.bool), 2.0)
            value = sum(
                s * capped_likelihood(logits, torch.eye(5, dtype=torch.int8)[j : j + 1], 2.0)
                for j, s in enumerate(share)
            )
            (slope,) = torch.autograd.grad(value, logits)
            return _value(value), slope.numpy()[0], torch.sigmoid(logits.detach() + shift).numpy()[0]

        found = minimize(lambda z: risk(z)[:2], np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(risk(found.x)[2], 2.0 * share.numpy(), atol=1e-5)


class TestClassifier:
    def test_probabilities_add_up_to_m_also_after_loading(self, data, tmp_path):
        model = onepos.CappedSoftmaxClassifier(n_positives=1.7, max_epochs=3, random_state=0)
        model.fit(data.X, data.observed)
        np.testing.assert_allclose(model.predict_proba(data.X).sum(axis=1), 1.7, rtol=1e-9)
        again = onepos.load(model.save(tmp_path / "model.onepos"))
        assert (again.predict_proba(data.X) == model.predict_proba(data.X)).all()

    def test_where_m_comes_from(self, data):
        full = {"validation": (data.X, data.Y), "validation_labels": "full"}
        for given_m, more, m, source in [
            (None, {}, 2.0, "default"),
            (1.7, full, 1.7, "given"),
            (None, full, data.Y.sum(axis=1).mean(), "validation"),
            (5.0, {}, 4.5, "given"),
        ]:
            model = onepos.CappedSoftmaxClassifier(n_positives=given_m, max_epochs=1, random_state=0)
            model.fit(data.X, data.observed, **more)
            assert model.n_positives_ == pytest.approx(m)
            assert model.history_.facts["n_positives_from"] == source

    def test_finds_probabilities_that_a_softmax_cannot(self):
        """All rows have three of six labels, two of them sure: f reaches 1 while the shares stay at a third."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 2))
        first, third = (X[:, 0] > 0).astype(int), rng.integers(2, size=3000)
        Y = np.zeros((3000, 6), dtype=int)
        for column in (first, 2 + (X[:, 1] > 0), 4 + third):
            Y[np.arange(3000), column] = 1
        observed = onepos.datasets.make_single_positive(Y, random_state=0)
        model = onepos.CappedSoftmaxClassifier(n_positives=3.0, network=(64,), max_epochs=15, random_state=0)
        far = np.abs(X).min(axis=1) > 0.3  # from the borders
        p = model.fit(X, observed).predict_proba(X[far])
        truth = Y[far].astype(float)
        truth[:, 4:] = 0.5
        assert np.abs(p - truth).mean() < 0.05
