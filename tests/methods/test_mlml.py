"""MLML: the graphs, both exact solvers, what one positive does to the label graph, new rows, smooth data."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from onepos import LinearClassifier
from onepos.datasets import make_single_positive
from onepos.exceptions import LabelWarning
from onepos.methods._mlml_graph import instance_weights, label_weights, laplacian
from onepos.methods._mlml_predict import kernel_average, make_reference
from onepos.methods._mlml_solve import objective, solve_decoupled, solve_dense
from onepos.methods._stored_features import nearest_rows, pack, squared_lengths, unpack
from onepos.methods.mlml import MLMLClassifier
from onepos.metrics import average_precision

N, C = 60, 7


@pytest.fixture
def rows():
    X = np.random.default_rng(0).standard_normal((N, 3))
    return laplacian(instance_weights(X, 6, 3, "euclidean")[0])


@pytest.fixture
def targets():
    rng = np.random.default_rng(1)
    return np.eye(C)[rng.integers(C, size=N)]


def label_laplacian(seed=2):
    return laplacian(label_weights(np.random.default_rng(seed).random((N, C)), 10.0))


def test_row_graph_equals_its_definition():
    X = np.random.default_rng(0).standard_normal((25, 3))
    weights, scales = instance_weights(X, 5, 2, "euclidean")
    d = np.linalg.norm(X[:, None] - X[None], axis=2)
    order = np.argsort(d, axis=1)[:, 1:]
    sigma = d[np.arange(25), order[:, 1]]
    listed = np.zeros((25, 25), dtype=bool)
    listed[np.arange(25)[:, None], order[:, :5]] = True
    expected = np.where(listed | listed.T, np.exp(-(d**2) / (sigma[:, None] * sigma[None, :])), 0.0)
    assert np.allclose(scales, sigma)
    assert np.allclose(weights.toarray(), expected)


def test_label_graph_equals_its_definition():
    Z = np.random.default_rng(0).random((30, 4))
    Z[:, 3] = 0
    V = label_weights(Z, 10.0)
    cosine = Z[:, 0] @ Z[:, 1] / np.linalg.norm(Z[:, 0]) / np.linalg.norm(Z[:, 1])
    assert V[0, 1] == pytest.approx(np.exp(-10 * (1 - cosine)))
    assert V[0, 3] == pytest.approx(np.exp(-10.0))
    assert np.array_equal(V, V.T)
    assert not np.diag(V).any()


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_laplacian(kind):
    rng = np.random.default_rng(0)
    V = rng.random((8, 8))
    V = np.triu(V, 1) + np.triu(V, 1).T
    V[5] = V[:, 5] = 0  # no edges
    L = laplacian(sparse.csr_array(V) if kind == "sparse" else V)
    L = L.toarray() if kind == "sparse" else L
    values = np.linalg.eigvalsh(L)
    assert values.min() > -1e-12
    assert values.max() < 2 + 1e-12
    assert np.allclose(L @ np.sqrt(V.sum(axis=1)), 0)
    assert not L[5].any()


def test_duplicates_have_weight_one():
    X = np.repeat(np.arange(3.0)[:, None], 5, axis=0)  # more duplicates than scale_neighbor: σ is 0
    weights, scales = instance_weights(X, 6, 3, "euclidean")
    assert not scales.any()
    assert np.isfinite(weights.toarray()).all()
    assert weights.toarray()[0, 1] == 1.0
    assert weights.toarray()[0, 5] == 0.0


@pytest.mark.parametrize("label", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("instance", [0.0, 1.0, 100.0])
def test_both_solvers_agree_and_satisfy_the_equation(rows, targets, instance, label):
    labels = label_laplacian()
    exact = solve_dense(targets, rows, labels, instance, label)
    scalable = solve_decoupled(targets, rows, labels, instance, label, 1e-12)
    for Z in (exact, scalable):
        residual = Z + instance * (rows @ Z) + label * Z @ labels - targets
        assert np.abs(residual).max() < 1e-8
    assert np.abs(exact - scalable).max() < 1e-8


def test_solution_minimises_the_objective(rows, targets):
    labels, rng = label_laplacian(), np.random.default_rng(3)
    Z = solve_decoupled(targets, rows, labels, 2.0, 0.5, 1e-12)
    best = objective(Z, targets, rows, labels, 2.0, 0.5)
    dense = ((Z - targets) ** 2).sum() + 2 * np.trace(Z.T @ rows @ Z) + 0.5 * np.trace(Z @ labels @ Z.T)
    assert best == pytest.approx(dense)
    for scale in (1e-3, 1e-1, 1.0):
        assert objective(Z + scale * rng.standard_normal(Z.shape), targets, rows, labels, 2.0, 0.5) > best


def test_published_label_graph_says_nothing_with_one_positive(rows, targets):
    """V_C is constant; contrasts between labels are those of λ_C = 0 with λ_X / (1 + λ_C c/(c − 1)), shrunk alike."""
    V = label_weights(targets, 10.0)
    assert np.allclose(V[~np.eye(C, dtype=bool)], np.exp(-10.0))
    shrink = 1 + 0.8 * C / (C - 1)
    with_graph = solve_dense(targets, rows, laplacian(V), 3.0, 0.8)
    without = solve_dense(targets, rows, None, 3.0 / shrink, 0.0) / shrink

    def contrasts(Z):
        return Z - Z.mean(axis=1, keepdims=True)

    assert np.allclose(contrasts(with_graph), contrasts(without), atol=1e-10)


def smooth_data(seed, n=500, c=8):
    """Labels that are smooth, but not linear, functions of two features: bumps."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n + 1000, 2))
    centres = rng.uniform(-1, 1, (c, 2, 2))
    squared = ((X[:, None, None, :] - centres[None]) ** 2).sum(axis=3).min(axis=2)
    Y = (squared < 0.15).astype(np.int8)
    Y[np.arange(len(Y)), squared.argmin(axis=1)] = 1
    return X[:n], make_single_positive(Y[:n], random_state=seed), X[n:], Y[n:]


@pytest.mark.parametrize("seed", range(3))
def test_beats_assume_negative_on_smooth_labels(seed):
    X, observed, X_test, Y_test = smooth_data(seed)
    linear = LinearClassifier(random_state=0).fit(X, observed)
    mlml = MLMLClassifier(random_state=0).fit(X, observed)
    scores = [average_precision(Y_test, m.decision_function(X_test)) for m in (mlml, linear)]
    assert scores[0] > scores[1] + 0.05


@pytest.mark.parametrize("solver", ["sylvester", "decoupled"])
def test_every_solve_lowers_its_objective(solver):
    X, observed, _, _ = smooth_data(0, n=150)
    settings = {"instance_smoothness": 1.0, "label_smoothness": 0.5, "label_updates": 3}
    model = MLMLClassifier(solver=solver, **settings).fit(X, observed)
    assert len(model.history_) == 4
    assert all(record["objective"] <= record["start"] for record in model.history_)
    assert model.history_.facts["solver"] == solver


def test_solvers_give_the_same_model():
    X, observed, X_test, _ = smooth_data(0, n=150)
    settings = {"instance_smoothness": 1.0, "label_smoothness": 0.5, "tol": 1e-12}
    models = [MLMLClassifier(solver=s, **settings).fit(X, observed) for s in ("sylvester", "decoupled")]
    assert np.allclose(models[0].decision_function(X_test), models[1].decision_function(X_test), atol=1e-6)


def test_unobserved_changes_no_ranking_without_the_label_graph():
    X, observed, X_test, _ = smooth_data(0, n=150)
    ranks = [
        MLMLClassifier(instance_smoothness=1.0, unobserved=u).fit(X, observed).decision_function(X_test)
        for u in ("ignore", 0.5, "negative")
    ]
    order = np.argsort(ranks[0], axis=1)
    sorted_first = np.take_along_axis(ranks[0], order, axis=1)
    distinct = (np.diff(sorted_first, axis=1) > 1e-5).all(axis=1)
    assert distinct.any()
    for other in ranks[1:]:
        assert np.array_equal(np.argsort(other, axis=1)[distinct], order[distinct])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_nearest_rows_and_kernel_average_equal_loops(container):
    rng = np.random.default_rng(0)
    X, Q = rng.integers(0, 3, (40, 4)).astype(np.float32), rng.integers(0, 3, (15, 4)).astype(np.float32)
    Z, sigma = rng.random((40, 3)), rng.random(40) + 0.1
    indices, squared = nearest_rows(container(Q), container(X), squared_lengths(container(X)), 5)
    reference = make_reference(container(X), sigma, Z)
    result = kernel_average(container(Q), reference, 5, 3, cosine=False)
    for i, q in enumerate(Q):
        d = ((X - q) ** 2).sum(axis=1)
        order = np.lexsort((np.arange(40), d))[:5]
        assert np.array_equal(indices[i], order)
        assert np.array_equal(squared[i], d[order])
        own = np.sqrt(d[order[2]])
        if own > 0:
            v = np.exp(-d[order] / (own * sigma[order]))
            assert np.allclose(result[i], v @ reference.soft[order] / v.sum())


def test_features_survive_packing():
    X = sparse.csr_array(np.eye(3, 5))
    assert np.array_equal(unpack("x", pack("x", X)).toarray(), X.toarray())
    assert np.array_equal(unpack("x", pack("x", np.eye(2))), np.eye(2))


def test_metric_follows_the_features():
    X, observed, _, _ = smooth_data(0, n=150)
    assert MLMLClassifier(instance_smoothness=1.0).fit(X, observed).graph_metric_ == "euclidean"
    binary = (X[:, :1] > np.linspace(-1, 1, 12)).astype(float)
    model = MLMLClassifier(instance_smoothness=1.0).fit(binary, observed)
    assert model.graph_metric_ == "cosine"
    assert np.isfinite(model.predict_proba(np.zeros((2, 12)))).all()


def test_rows_without_a_positive_stay_in_the_graph():
    X, observed, _, _ = smooth_data(0, n=150)
    observed = observed.copy()
    observed[:40] = 0
    with pytest.warns(LabelWarning, match="40 of 150"):
        model = MLMLClassifier(instance_smoothness=1.0).fit(X, observed)
    assert model.soft_labels_.shape == (150, 8)
    assert (model.soft_labels_[:40].max(axis=1) > 0).all()


def test_few_rows_warn():
    with pytest.warns(LabelWarning, match="needs more than 6 rows; 5"):
        MLMLClassifier(instance_smoothness=1.0).fit(np.arange(6.0)[:, None], np.eye(3)[[0, 1, 2, 0, 1, 2]])


def test_predictions_are_probabilities_about_one_half():
    X, observed, X_test, _ = smooth_data(0, n=150)
    for unobserved in ("ignore", "negative"):
        model = MLMLClassifier(instance_smoothness=1.0, unobserved=unobserved).fit(X, observed)
        assert np.allclose(model.predict_proba(X_test), expit(model.decision_function(X_test)))
        assert 0 < model.predict(X_test).mean() < 0.5
