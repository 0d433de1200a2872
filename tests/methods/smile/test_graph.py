"""SMILE's graph from given features and from the network's embeddings, refreshed on a schedule."""

import numpy as np
import pytest
import torch
from torch import nn

from onepos import SMILEClassifier
from onepos.datasets import make_known_posterior
from onepos.graph.neighbors import nearest_neighbors, neighbor_means
from onepos.training import Callback
from onepos.training.networks import MLP, embedder


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(160, 6, 5, random_state=0)


def build(**params):
    settings = {"max_epochs": 6, "batch_size": 32, "random_state": 0, "early_stopping": False, "warm_up_epochs": 2}
    return SMILEClassifier(**{**settings, **params})


class Graphs(Callback):
    """Keeps, for every epoch, the encoder's graph and ÂX, and the embeddings after it."""

    def __init__(self, X):
        self.X = torch.from_numpy(X)
        self.neighbors, self.aggregated, self.embeddings = [], [], []

    def on_epoch_end(self, objective, record):
        encoder = objective.enhancement.encoder
        self.neighbors.append(encoder.neighbors)
        self.aggregated.append(encoder.aggregated.numpy())
        with torch.no_grad():
            self.embeddings.append(objective.network[1](objective.network[0](self.X)).numpy())


@pytest.mark.parametrize(("refresh", "built_before"), [(None, [3]), (2, [3, 5]), (1, [3, 4, 5, 6])])
def test_graph_is_that_of_the_embeddings_when_it_is_due(data, refresh, built_before):
    model = build(graph_on="embeddings", graph_refresh=refresh, n_neighbors=4)
    X = model.fit(data.X, data.observed).scaler_.transform(data.X)
    watch = Graphs(X)
    model.fit(data.X, data.observed, callbacks=[watch])
    expected, _ = nearest_neighbors(X, 4)
    for epoch in range(1, 7):
        if epoch in built_before:
            expected, _ = nearest_neighbors(watch.embeddings[epoch - 2], 4)
        assert np.array_equal(watch.neighbors[epoch - 1], expected)
        nearby = neighbor_means(expected, len(X)) @ X
        assert np.allclose(watch.aggregated[epoch - 1], 0.5 * X + 0.5 * nearby, atol=1e-6)
    facts = model.history_.facts["graph_refreshes"]
    assert [fact["epoch"] for fact in facts] == built_before
    assert {(fact["size"], fact["search"], fact["recall"]) for fact in facts} == {(128, "exact", 1.0)}
    assert all(0.0 < fact["kept"] <= 1.0 for fact in facts)


def test_warm_up_alone_is_the_same_with_either_graph(data):
    plain = build(max_epochs=2).fit(data.X, data.observed)
    other = build(max_epochs=2, graph_on="embeddings").fit(data.X, data.observed)
    assert np.array_equal(plain.soft_labels_, other.soft_labels_)
    assert other.history_.facts["graph_refreshes"] == []
    assert "graph_refreshes" not in plain.history_.facts


def test_embeddings_that_are_the_features_change_no_bit(data):
    """Then the new graph is the old one."""

    class Same(nn.Linear):
        def embed(self, features):
            return features

    torch.manual_seed(0)
    network = Same(6, 5)
    plain = build(network=network).fit(data.X, data.observed)
    again = build(network=network, graph_on="embeddings", graph_refresh=1).fit(data.X, data.observed)
    assert np.array_equal(plain.soft_labels_, again.soft_labels_)
    assert np.array_equal(plain.decision_function(data.X), again.decision_function(data.X))
    assert [fact["kept"] for fact in again.history_.facts["graph_refreshes"]] == [1.0] * 4


def test_the_restored_epoch_has_its_own_graph(data):
    """Soft labels are those of a run that ended with the best epoch."""
    validation = {"validation": (data.X[:60], data.Y[:60]), "validation_labels": "full"}
    settings = {"graph_on": "embeddings", "graph_refresh": 1, "n_neighbors": 3, "learning_rate": 0.05}
    long = build(max_epochs=9, patience=None, **settings).fit(data.X, data.observed, **validation)
    best = long.history_.facts["best_epoch"]
    assert best < 9
    short = build(max_epochs=best, patience=None, **settings).fit(data.X, data.observed, **validation)
    assert np.array_equal(long.soft_labels_, short.soft_labels_)


def test_embeddings_are_the_last_linear_layers_input():
    features = torch.randn(3, 4)
    network = MLP([4, 7, 2], generator=torch.Generator().manual_seed(0))
    assert torch.equal(network[2](embedder(network)(features)), network(features))
    tail = nn.Sequential(nn.Linear(4, 2), nn.Identity())
    assert torch.equal(embedder(tail)(features), features)


def test_a_network_without_embeddings_is_refused(data):
    class Opaque(nn.Module):
        def __init__(self, n_features, n_labels):
            super().__init__()
            self.layer = nn.Linear(n_features, n_labels)

        def forward(self, features):
            return self.layer(features)

    with pytest.raises(ValueError, match=r"give Opaque a method embed\(features\)"):
        build(network=Opaque, graph_on="embeddings").fit(data.X, data.observed)


@pytest.mark.parametrize("form", ["sparse", "folder"])
def test_other_forms_of_features(data, form, tmp_path):
    from scipy import sparse

    X = np.where(np.abs(data.X) > 1.2, data.X, 0.0)
    given = {"X": sparse.csr_array(X)} if form == "sparse" else {"X": X}
    params = {"cache_folder": str(tmp_path)} if form == "folder" else {}
    model = build(graph_on="embeddings", graph_refresh=2, scale="none", **params).fit(given["X"], data.observed)
    plain = build(graph_on="embeddings", graph_refresh=2, scale="none").fit(X, data.observed)
    assert np.allclose(model.soft_labels_, plain.soft_labels_, atol=1e-3)


def test_given_features_make_the_graph_and_feed_the_variational_model(data):
    """Features of the network do not matter to the recovered labels: only those given for the graph do."""
    other = np.random.default_rng(1).normal(size=data.X.shape)
    soft = [build(network=(4,)).fit(X, data.observed, graph_features=data.X).soft_labels_ for X in (data.X, other)]
    assert np.array_equal(*soft)
