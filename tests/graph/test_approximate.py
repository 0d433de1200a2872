"""The approximate graph against the exact one, and when which of them is taken."""

import sys

import numpy as np
import pytest
from scipy import sparse

from onepos import SMILEClassifier, load
from onepos.datasets import make_known_posterior
from onepos.exceptions import MissingDependencyError, TrainingWarning
from onepos.graph import approximate, neighbors
from onepos.graph.approximate import approximate_graph
from onepos.graph.neighbors import nearest_neighbors, neighbor_graph
from onepos.rows.stored import DiskRows

K = 7


def mixture(n=3000, q=16, n_clusters=20, seed=0):
    generator = np.random.default_rng(seed)
    centers = 2.0 * generator.normal(size=(n_clusters, q))
    return (centers[generator.integers(n_clusters, size=n)] + generator.normal(size=(n, q))).astype(np.float32)


def overlap(found, exact):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), exact.tolist(), strict=True)])


def lengths(X, indices):
    """Distances of the rows to those listed."""
    X = X.astype(np.float64)
    return np.linalg.norm(X[:, None] - X[indices], axis=2)


def assert_sound(indices, X, k=K):
    n = len(X)
    assert indices.dtype == np.int64
    assert indices.shape == (n, k)
    assert ((indices >= 0) & (indices < n)).all()
    assert (indices != np.arange(n)[:, None]).all()
    assert all(len(set(row)) == k for row in indices.tolist())
    assert (np.diff(lengths(X, indices), axis=1) >= -1e-6).all()


@pytest.mark.parametrize("container", [np.asarray, np.float64, sparse.csr_array, DiskRows], ids=str)
def test_finds_most_of_the_nearest_rows_nearest_first(container):
    X = mixture()
    X[np.abs(X) < 1.0] = 0.0
    exact, _ = nearest_neighbors(X, K)
    graph = approximate_graph(container(X), K)
    assert_sound(graph.indices, X)
    assert overlap(graph.indices, exact) > 0.93  # the aim is 0.95, on a sample
    assert graph.recall == pytest.approx(overlap(graph.indices, exact), abs=0.03)  # of 500 rows


def test_the_search_is_widened_until_it_is_good_enough():
    """Without clusters the first few cells hold few of the neighbours."""
    X = np.random.default_rng(0).normal(size=(3000, 16))
    graph = approximate_graph(X, K)
    assert graph.recall >= approximate.ENOUGH
    assert overlap(graph.indices, nearest_neighbors(X, K)[0]) > approximate.ENOUGH - 0.02
    assert approximate_graph(X, K, most=0.2) is None


def test_duplicates_are_neighbours_of_each_other_and_never_of_themselves():
    X = np.repeat(mixture(150), 20, axis=0)
    indices = approximate_graph(X, K).indices
    assert_sound(indices, X)
    assert (indices // 20 == np.arange(len(X))[:, None] // 20).all()


def test_rows_are_searched_block_by_block(monkeypatch):
    X = mixture(500)
    whole = approximate_graph(X, K)
    monkeypatch.setattr(approximate, "_BLOCK_BYTES", 1 << 12)
    parts = approximate_graph(X, K)
    np.testing.assert_array_equal(parts.indices, whole.indices)
    assert parts.recall == whole.recall


@pytest.mark.parametrize("n", [2, 5, 60])
def test_few_rows_are_searched_exactly(n):
    X = mixture(n)
    k = min(K, n - 1)
    np.testing.assert_array_equal(approximate_graph(X, k).indices, nearest_neighbors(X, k)[0])


def test_the_same_rows_give_the_same_graph():
    X = np.random.default_rng(0).normal(size=(3000, 8))
    assert np.array_equal(approximate_graph(X, K).indices, approximate_graph(X, K).indices)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_beyond_the_memory_limit_a_reduced_index_ranks_by_full_distances(monkeypatch, container):
    X = np.hstack([mixture(), 0.1 * mixture(q=40, seed=1)])
    monkeypatch.setattr(approximate, "INDEX_LIMIT_BYTES", 1)
    monkeypatch.setattr(approximate, "REDUCED", 24)
    graph = approximate_graph(container(X), K)
    assert overlap(graph.indices, nearest_neighbors(X, K)[0]) > 0.93
    assert_sound(graph.indices, X)


def test_a_recall_out_of_reach_is_warned_about(monkeypatch):
    monkeypatch.setattr(approximate, "INDEX_LIMIT_BYTES", 1)
    monkeypatch.setattr(approximate, "REDUCED", 2)
    X = np.random.default_rng(0).normal(size=(800, 30))
    with pytest.warns(TrainingWarning, match="of the nearest rows only"):
        graph = neighbor_graph(X, K, search="approximate")
    assert 0 < graph.facts["recall"] < approximate.ENOUGH


def test_without_faiss_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependencyError, match=r"onepos\[large\]"):
        neighbor_graph(mixture(100), K, search="approximate")
    assert neighbor_graph(mixture(100), K).facts["search"] == "exact"  # few rows need none
    monkeypatch.setattr(neighbors, "EXACT_UP_TO", 99)
    with pytest.warns(TrainingWarning, match=r"pip install 'onepos\[large\]'"):
        graph = neighbor_graph(mixture(100), K)
    assert graph.facts["search"] == "exact"
    assert neighbor_graph(mixture(100), K, search="exact").facts["search"] == "exact"


def test_auto_is_exact_up_to_the_limit_and_where_there_are_no_clusters(monkeypatch):
    X = mixture()
    monkeypatch.setattr(neighbors, "EXACT_UP_TO", len(X))
    graph = neighbor_graph(X, K)
    np.testing.assert_array_equal(graph.neighbors, nearest_neighbors(X, K)[0])
    assert graph.facts["search"] == "exact"
    monkeypatch.setattr(neighbors, "EXACT_UP_TO", len(X) - 1)
    assert neighbor_graph(X, K).facts["search"] == "approximate"
    shapeless = np.random.default_rng(0).normal(size=X.shape)
    assert neighbor_graph(shapeless, K).facts["search"] == "exact"
    assert neighbor_graph(shapeless, K, search="approximate").facts["search"] == "approximate"


@pytest.mark.parametrize("search", ["exact", "approximate"])
def test_the_history_says_how_the_graph_was_found(search, tmp_path):
    data = make_known_posterior(300, 5, 4, random_state=0)
    model = SMILEClassifier(max_epochs=1, random_state=0, graph_search=search).fit(data.X, data.observed)
    facts = model.history_.facts["graph"]
    assert facts["search"] == search
    assert approximate.ENOUGH <= facts["recall"] <= 1.0
    assert facts["seconds"] > 0
    assert load(model.save(tmp_path / "model.onepos")).history_.facts["graph"] == facts


def test_the_default_is_the_exact_graph_for_few_rows():
    data = make_known_posterior(300, 5, 4, random_state=0)
    models = [
        SMILEClassifier(max_epochs=1, random_state=0, graph_search=search).fit(data.X, data.observed)
        for search in ("auto", "exact")
    ]
    assert np.array_equal(models[0].soft_labels_, models[1].soft_labels_)
