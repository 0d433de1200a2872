"""SMILE as released: its graph by brute force, its encoder over the whole graph, its loss by hand, its settings."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.special import digamma, gammaln
from torch.nn import functional

from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning
from onepos.graph.neighbors import nearest_neighbors
from onepos.methods.smile.beta import beta_kl, sample_beta
from onepos.training import Batch
from onepos.training.networks import MLP
from onepos_studies.methods import smile_code as code
from onepos_studies.methods.smile_code import (
    ReleasedEncoder,
    ReleasedModel,
    SMILEReleasedClassifier,
    SMILEReleasedObjective,
    in_edges,
    released_divergence,
)

#: What the authors printed for the set "image".
IMAGE = {"unobserved_target": 0.1, "enhancement_share": 0.9, "unobserved_weight": 0.7, "max_epochs": 10}


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(240, 6, 4, random_state=0)


def _graph(n=60, q=5, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, q))
    return X, nearest_neighbors(X, 3)[0]


def _model(neighbors, X, n_labels=4):
    edges = in_edges(neighbors)
    generator = torch.Generator().manual_seed(1)
    encoder = ReleasedEncoder(torch.from_numpy((edges @ X).astype(X.dtype)), edges, n_labels, generator)
    return ReleasedModel(encoder, X.shape[1], n_labels, X.shape[1], generator)


class TestGraph:
    def test_edges_by_brute_force(self):
        _, neighbors = _graph()
        n = len(neighbors)
        sends = np.zeros((n, n))
        for u in range(n):
            for v in neighbors[u]:
                sends[u, v] = 1.0
        out_degree, in_degree = sends.sum(axis=1), sends.sum(axis=0)
        expected = np.zeros((n, n))
        for v in range(n):
            for u in np.flatnonzero(sends[:, v]):
                expected[v, u] = 1.0 / (math.sqrt(out_degree[u]) * math.sqrt(in_degree[v]))
        assert (in_degree == 0).any()
        assert in_degree.max() > 3
        assert np.allclose(in_edges(neighbors).toarray(), expected, rtol=0, atol=1e-15)

    def test_block_of_the_adjacency_is_the_transpose_of_the_paper_s(self):
        X, neighbors = _graph()
        rows = torch.tensor([5, 0, int(neighbors[5, 1]), 17])
        block = _model(neighbors, X).encoder.linked(rows)
        for i, row in enumerate(rows.tolist()):
            assert block[i].tolist() == [other in neighbors[row] for other in rows.tolist()]
        assert block[0, 2]


class TestEncoder:
    def _whole_graph(self, encoder, X, neighbors):
        """Compute over all nodes with a dense n×n matrix: the second implementation."""
        P = torch.from_numpy(in_edges(neighbors).toarray())
        hidden = torch.relu(P @ torch.from_numpy(X) @ encoder.first_weight + encoder.first_bias)
        return encoder.last(P @ hidden @ encoder.second.weight.T + encoder.second.bias)

    @pytest.mark.parametrize("size", [1, 16, 60])
    def test_two_hops_equal_the_whole_graph_values_and_gradients(self, size):
        X, neighbors = _graph()
        encoder = _model(neighbors, X).encoder.double()
        with torch.no_grad():
            encoder.first_bias.uniform_(-1, 1, generator=torch.Generator().manual_seed(2))
        rows = torch.from_numpy(np.random.default_rng(size).permutation(60)[:size])
        whole, batch = self._whole_graph(encoder, X, neighbors)[rows], encoder(rows)
        assert torch.allclose(batch, whole, rtol=0, atol=1e-10)
        parameters = list(encoder.parameters())
        for ours, theirs in zip(
            torch.autograd.grad(batch.square().sum(), parameters),
            torch.autograd.grad(whole.square().sum(), parameters),
            strict=True,
        ):
            assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)

    def test_a_row_that_nobody_lists_receives_only_biases(self):
        X, neighbors = _graph()
        unlisted = np.setdiff1d(np.arange(60), neighbors)
        encoder = _model(neighbors, X.astype(np.float32)).encoder
        logits = encoder(torch.from_numpy(unlisted))
        assert torch.allclose(logits, encoder.last(encoder.second.bias).expand_as(logits))

    def test_nothing_is_n_by_n(self):
        X, neighbors = _graph(n=500)
        model = _model(neighbors, X.astype(np.float32))
        assert max(tensor.numel() for tensor in (*model.buffers(), *model.parameters())) <= 500 * 5


class TestDivergence:
    @pytest.mark.parametrize(("d", "released", "true"), [(0.5, 3.11, 0.24), (0.1, 11.8, 6.6)])
    def test_released_and_true_values(self, d, released, true):
        """The table of known differences: the released term has the wrong sign at both lnΓ."""
        by_hand = gammaln(d) + gammaln(1 - d) + (d - 1) * digamma(d) + (1 - d - 1) * digamma(1 - d)
        ours = released_divergence(torch.logit(torch.tensor(d, dtype=torch.float64)))
        assert float(ours) == pytest.approx(by_hand, rel=2e-5)  # the 1e-6 inside
        assert float(ours) == pytest.approx(released, rel=5e-3)
        both = torch.tensor([d, 1 - d], dtype=torch.float64)
        assert float(beta_kl(both[0], both[1])) == pytest.approx(true, rel=1e-2)

    def test_still_pushes_towards_one_half(self):
        logits = torch.linspace(-6, 6, 241, dtype=torch.float64, requires_grad=True)
        values = released_divergence(logits)
        (gradient,) = torch.autograd.grad(values.sum(), logits)
        assert int(values.argmin()) == 120
        assert torch.equal(torch.sign(gradient[:120]), -torch.ones(120, dtype=torch.float64))
        assert torch.allclose(gradient, -gradient.flip(0), atol=1e-8)

    def test_gradient(self):
        logits = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
        assert torch.autograd.gradcheck(released_divergence, logits)


class TestLoss:
    def _batch(self, X, rows, n_labels=4):
        observed = torch.from_numpy(np.eye(n_labels, dtype=np.int8)[rows.numpy() % n_labels])
        return Batch(rows, torch.from_numpy(X[rows.numpy()].astype(np.float32)), observed)

    def test_encoder_loss_equals_the_formula(self, monkeypatch):
        monkeypatch.setattr(code, "RECONSTRUCTION_WEIGHT", 0.7)
        monkeypatch.setattr(code, "DIVERGENCE_WEIGHT", 0.3)
        X, neighbors = _graph()
        model = _model(neighbors, X.astype(np.float32))
        batch = self._batch(X, torch.arange(12))
        logits = model.encoder(batch.rows).detach()
        state = model.generator.get_state()
        loss = model.loss(logits, batch).item()
        model.generator.set_state(state)
        d, s = logits.sigmoid(), batch.observed.float()
        drawn = sample_beta(d + 1e-5, 1 - d + 1e-5, model.generator)
        latent = model.latent_encoder(torch.cat([batch.features, d], dim=1))
        reconstructed = model.feature_decoder(torch.cat([d, latent], dim=1))

        def assume_negative(p):
            return -(s * torch.log(p + 1e-5) + (1 - s) * torch.log(1 - p + 1e-5)).mean()

        A = torch.tensor([[float(j in neighbors[i]) for j in range(12)] for i in range(12)])
        rest = (
            ((reconstructed - batch.features) ** 2).mean()
            + assume_negative(drawn)
            + ((drawn @ drawn.T - A) ** 2).mean()
        )
        expected = assume_negative(d) + 0.7 * rest + 0.3 * released_divergence(logits).mean()
        # AN(d, s) is computed without the 1e-5: a relative difference of about 1e-5/d.
        assert loss == pytest.approx(expected.item(), rel=1e-4)

    @pytest.mark.parametrize("size", [1e-3, 5.0, 40.0])
    def test_finite_wherever_d_is(self, size, monkeypatch):
        monkeypatch.setattr(code, "RECONSTRUCTION_WEIGHT", 1.0)
        X, neighbors = _graph()
        model = _model(neighbors, X.astype(np.float32))
        logits = size * torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        logits.requires_grad_()
        loss = model.loss(logits, self._batch(X, torch.arange(60)))
        (gradient,) = torch.autograd.grad(loss, logits)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()

    def test_targets_by_hand(self):
        objective = SMILEReleasedObjective(MLP([1, 3]), None, share=0.25, unobserved_target=0.1, unobserved_weight=1.0)
        targets = objective.targets(torch.zeros(1, 3), torch.tensor([[1, 0, -1]], dtype=torch.int8))
        assert targets.tolist() == [pytest.approx([0.25 * 0.5 + 0.75, 0.25 * 0.5 + 0.75 * 0.1, 0.0])]

    def test_one_adam_on_the_sum_equals_two_side_by_side(self):
        """Both forward passes come before either step, as in the released loop."""
        X, neighbors = _graph()
        network = MLP([5, 4, 4], generator=torch.Generator().manual_seed(3))
        one = SMILEReleasedObjective(network, _model(neighbors, X.astype(np.float32)), 0.5, 0.1, 0.3)
        one.model.generator = None
        two = copy.deepcopy(one)
        one.model.generator, two.model.generator = (torch.Generator().manual_seed(4) for _ in range(2))
        adam = torch.optim.Adam(one.parameters(), lr=1e-3)
        adams = [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (two.network, two.model)]
        for step in range(60):
            batch = self._batch(X, torch.from_numpy(np.random.default_rng(step).permutation(60)[:16]))
            ((_, loss),) = list(one.losses(batch))
            adam.zero_grad()
            loss.backward()
            adam.step()
            label_logits = two.model.encoder(batch.rows)
            weights = torch.where(batch.observed == 0, 0.3, 1.0)
            targets = two.targets(label_logits, batch.observed).detach()
            classifier = functional.binary_cross_entropy_with_logits(two.network(batch.features), targets, weights)
            encoder = two.model.loss(label_logits, batch)
            for optimiser, part in zip(adams, (classifier, encoder), strict=True):
                optimiser.zero_grad()
                part.backward()
                optimiser.step()
        for ours, theirs in zip(one.parameters(), two.parameters(), strict=True):
            assert torch.allclose(ours, theirs, rtol=0, atol=1e-5)


class TestSettings:
    def test_hidden_layers_as_wide_as_there_are_labels(self, data):
        model = SMILEReleasedClassifier(network="labels", max_epochs=1).fit(data.X, data.observed)
        assert model.network_.sizes == (6, 4, 4)
        assert SMILEReleasedClassifier(max_epochs=1).fit(data.X, data.observed).network_.sizes == (6, 128, 4)


class TestClassifier:
    def test_soft_labels_are_the_targets(self, data):
        model = SMILEReleasedClassifier(**IMAGE, random_state=0).fit(data.X, data.observed)
        unknown = data.observed == 0
        assert model.soft_labels_.shape == data.Y.shape
        assert model.soft_labels_[unknown].min() >= 0.1 * 0.1  # (1 − μ)·p₀
        assert model.soft_labels_[~unknown].min() > 0.1 + 0.9 * 0.1
        assert model.soft_labels_[~unknown].max() < 1.0  # the observed label's target is below 1, as released

    def test_share_zero_is_training_on_constants(self, data):
        model = SMILEReleasedClassifier(enhancement_share=0.0, unobserved_target=0.2, max_epochs=1, random_state=0)
        assert set(np.unique(model.fit(data.X, data.observed).soft_labels_)) == {np.float32(0.2), np.float32(1.0)}

    def test_learns_the_ranking(self, data):
        model = SMILEReleasedClassifier(random_state=0, max_epochs=30).fit(data.X, data.observed)
        assert model.score(data.X, data.Y) > 0.8

    def test_equal_seeds_give_equal_bits_whatever_the_global_state(self, data):
        models = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002 - the global state is what must not matter
            models.append(SMILEReleasedClassifier(max_epochs=3, random_state=0).fit(data.X, data.observed))
        assert np.array_equal(models[0].soft_labels_, models[1].soft_labels_)
        assert np.array_equal(models[0].predict_proba(data.X), models[1].predict_proba(data.X))

    def test_fewer_rows_than_neighbours_warn(self, data):
        with pytest.warns(LabelWarning, match="n_neighbors=9 needs more than 4 rows; 3"):
            SMILEReleasedClassifier(n_neighbors=9, max_epochs=1).fit(data.X[:4], np.eye(4, dtype=int))

    @pytest.mark.parametrize(
        ("name", "value"), [("network", "deep"), ("decoder_hidden", 0), ("enhancement_share", 1.5), ("n_neighbors", 0)]
    )
    def test_bad_parameters_name_themselves(self, data, name, value):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            SMILEReleasedClassifier(**{name: value}).fit(data.X, data.observed)
