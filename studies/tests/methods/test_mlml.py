"""MLML: the graph of rows, the solver, new rows, smooth data."""

import numpy as np
import pytest
from scipy import sparse

import onepos
from assume_negative_lines import AssumeNegativeLines
from onepos.datasets import make_single_positive
from onepos.exceptions import LabelWarning
from onepos.metrics import average_precision
from onepos_studies.methods._mlml_solver import (
    instance_weights,
    kernel_average,
    laplacian,
    nearest_rows,
    objective,
    on_sphere,
    solve,
)
from onepos_studies.methods.mlml import MLMLClassifier

N, C = 60, 7


@pytest.fixture
def rows():
    X = np.random.default_rng(0).standard_normal((N, 3))
    return laplacian(instance_weights(X, 6, 3, "euclidean")[0])


@pytest.fixture
def targets():
    rng = np.random.default_rng(1)
    return np.eye(C)[rng.integers(C, size=N)]


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


def test_laplacian():
    rng = np.random.default_rng(0)
    V = rng.random((8, 8))
    V = np.triu(V, 1) + np.triu(V, 1).T
    V[5] = V[:, 5] = 0  # no edges
    L = laplacian(sparse.csr_array(V)).toarray()
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


@pytest.mark.parametrize("instance", [0.0, 1.0, 100.0])
def test_the_solution_is_that_of_a_dense_solver(rows, targets, instance):
    exact = np.linalg.solve(np.eye(N) + instance * rows.toarray(), targets)
    assert np.abs(exact - solve(targets, rows, instance, 1e-12)).max() < 1e-8


def test_solution_minimises_the_objective(rows, targets):
    rng = np.random.default_rng(3)
    Z = solve(targets, rows, 2.0, 1e-12)
    best = objective(Z, targets, rows, 2.0)
    assert best == pytest.approx(((Z - targets) ** 2).sum() + 2 * np.trace(Z.T @ rows @ Z))
    for scale in (1e-3, 1e-1, 1.0):
        assert objective(Z + scale * rng.standard_normal(Z.shape), targets, rows, 2.0) > best


def smooth_data(seed, n=500, c=8, irrelevant=0):
    """Labels that are smooth, but not linear, functions of two features: bumps; and features that say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n + 1000, 2))
    centres = rng.uniform(-1, 1, (c, 2, 2))
    squared = ((X[:, None, None, :] - centres[None]) ** 2).sum(axis=3).min(axis=2)
    Y = (squared < 0.15).astype(np.int8)
    Y[np.arange(len(Y)), squared.argmin(axis=1)] = 1
    X = np.hstack([X, rng.uniform(-1, 1, (len(X), irrelevant))])
    return X[:n], make_single_positive(Y[:n], random_state=seed), X[n:], Y[n:]


def curved_data(seed, n_features, n=500, c=8):
    """The bumps of ``smooth_data``, seen through waves: a curved surface in many dimensions, and noise."""
    U, observed, U_test, Y_test = smooth_data(seed, n, c)
    rng = np.random.default_rng(100 + seed)
    directions, phases = 3 * rng.standard_normal((2, n_features)), rng.uniform(0, 2 * np.pi, n_features)
    X, X_test = (np.cos(u @ directions + phases) + 0.1 * rng.standard_normal((len(u), n_features)) for u in (U, U_test))
    return X, observed, X_test, Y_test


@pytest.mark.parametrize("seed", range(3))
def test_beats_assume_negative_on_smooth_labels(seed):
    X, observed, X_test, Y_test = smooth_data(seed)
    linear = AssumeNegativeLines().fit(X, observed)
    mlml = MLMLClassifier(random_state=0).fit(X, observed)
    scores = [average_precision(Y_test, m.decision_function(X_test)) for m in (mlml, linear)]
    assert scores[0] > scores[1] + 0.05


def test_loses_to_assume_negative_among_irrelevant_features():
    """The page says so: with twenty features of noise near rows are near by accident."""
    X, observed, X_test, Y_test = smooth_data(0, irrelevant=20)
    linear = AssumeNegativeLines().fit(X, observed)
    mlml = MLMLClassifier(random_state=0).fit(X, observed)
    scores = [average_precision(Y_test, m.decision_function(X_test)) for m in (mlml, linear)]
    assert scores[0] < scores[1]


@pytest.mark.parametrize(("n_features", "better"), [(3, "euclidean"), (10, "cosine")])
def test_the_chosen_metric_is_the_better_one_on_curved_surfaces(n_features, better):
    """The reason of the limit of ten features: mean of three draws."""
    means = {}
    for metric in ("euclidean", "cosine", "auto"):
        scores = []
        for seed in range(3):
            X, observed, X_test, Y_test = curved_data(seed, n_features)
            model = MLMLClassifier(graph_metric=metric, random_state=0).fit(X, observed)
            scores.append(average_precision(Y_test, model.decision_function(X_test)))
        means[metric] = np.mean(scores)
    assert model.graph_metric_ == better
    assert means["auto"] == means[better] == max(means.values())


def test_a_tight_tolerance_changes_nothing_that_float32_shows():
    X, observed, X_test, _ = smooth_data(0, n=150)
    settings = {"instance_smoothness": 10.0}
    models = [MLMLClassifier(**settings, **tol).fit(X, observed) for tol in ({}, {"tol": 1e-12})]
    assert np.allclose(models[0].soft_labels_, models[1].soft_labels_, atol=1e-6)
    assert np.allclose(models[0].decision_function(X_test), models[1].decision_function(X_test), atol=1e-6)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-10])
def test_tolerance_bounds_the_residual_of_every_column(rows, targets, tol):
    targets = targets * np.logspace(-3, 3, C)  # each column is judged by its own length
    Z = solve(targets, rows, 30.0, tol)
    residual = np.linalg.norm(Z + 30.0 * (rows @ Z) - targets, axis=0) / np.linalg.norm(targets, axis=0)
    assert (residual <= tol * (1 + 1e-3)).all()
    assert residual.max() > 1e-3 * tol  # and no more was done than asked for


def test_solution_for_columns_of_zeros_and_more_columns_than_one_block(rows):
    targets = np.zeros((N, 40))
    targets[np.arange(N), np.arange(N) % 39] = 1.0
    Z = solve(targets, rows, 2.0, 1e-12)
    assert np.allclose(Z, np.linalg.solve(np.eye(N) + 2.0 * rows.toarray(), targets), atol=1e-10)
    assert not Z[:, 39].any()


def test_the_row_graph_is_built_once_for_all_strengths(monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return instance_weights(*arguments)

    monkeypatch.setattr("onepos_studies.methods._mlml_solver.instance_weights", counted)
    X, observed, X_test, Y_test = smooth_data(0, n=150)
    model = MLMLClassifier(random_state=0)
    model.fit(X, observed, validation=(X_test, Y_test), validation_labels="full")
    assert len(calls) == 1
    assert model.instance_smoothness_ == max(model.validation_scores_, key=model.validation_scores_.get)
    model.set_params(n_neighbors=5).fit(X, observed)  # once without the rows held out, once with them
    assert [call[0].shape[0] for call in calls[1:]] == [135, 150]
    assert all(call[1] == 5 for call in calls[1:])
    assert model._graph is None


def test_a_known_absence_lowers_its_label_near_by():
    X, observed, _, _ = smooth_data(0, n=150)
    label = int(observed[0].argmax())
    near = np.argsort(np.linalg.norm(X - X[0], axis=1))[1:4]
    absent = observed.astype(np.int8)
    for row in near:
        absent[row, label] = -1 if not observed[row, label] else 1
    assert (absent < 0).any()
    before, after = (MLMLClassifier(instance_smoothness=1.0).fit(X, y).soft_labels_ for y in (observed, absent))
    assert after[0, label] < before[0, label]
    others = np.arange(8) != label
    assert np.allclose(after[:, others], before[:, others], atol=1e-6)  # columns are independent


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_nearest_rows_and_kernel_average_equal_loops(container):
    rng = np.random.default_rng(0)
    X, Q = rng.integers(0, 3, (40, 4)).astype(np.float32), rng.integers(0, 3, (15, 4)).astype(np.float32)
    Z, sigma = rng.random((40, 3)), rng.random(40) + 0.1
    indices, squared = nearest_rows(container(Q), container(X), 5)
    result = kernel_average(container(Q), container(X), sigma, Z, 5, 3, "euclidean")
    for i, q in enumerate(Q):
        d = ((X - q) ** 2).sum(axis=1)
        order = indices[i]  # which of equally far rows come last is arbitrary
        assert len(set(order)) == 5
        assert np.array_equal(squared[i], np.sort(d)[:5])
        assert np.array_equal(squared[i], d[order])
        own = np.sqrt(d[order[2]])
        if own > 0:
            v = np.exp(-d[order] / (own * sigma[order]))
            assert np.allclose(result[i], v @ Z[order] / v.sum())


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_new_rows_minimise_the_penalty_on_their_edges(metric):
    """z(x) is the minimiser of Σ v_i ‖z − Z_i‖² over edges to the k + 1 nearest training rows: a weighted mean."""
    X, observed, X_test, _ = curved_data(0, 4, n=150)
    model = MLMLClassifier(instance_smoothness=1.0, n_neighbors=10, graph_metric=metric, scale="none").fit(X, observed)
    X, X_test = X.astype(np.float32).astype(float), X_test[:30].astype(np.float32).astype(float)
    if metric == "cosine":
        X, X_test = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, X_test))

    def distances(left, right):
        if metric == "cosine":
            return 1 - left @ right.T
        return np.linalg.norm(left[:, None] - right[None], axis=2)

    own = np.sort(distances(X, X), axis=1)[:, 7]  # the seventh without the row itself
    for x, scores in zip(X_test, model.decision_function(X_test), strict=True):
        d = distances(x[None], X)[0]
        near = np.argsort(d)[:11]
        v = np.exp(-(d[near] ** 2) / (d[near[6]] * own[near]))
        z = v @ model.soft_labels_[near] / v.sum()
        assert np.allclose(scores, 2 * (2 * z - 1), atol=1e-4)


def test_rows_of_zeros_are_far_from_all_but_each_other():
    X = np.zeros((6, 3), dtype=np.float32)
    X[:4] = np.eye(4, 3) + np.eye(4, 3, k=-1)
    for rows in (on_sphere(X, "cosine"), on_sphere(sparse.csr_array(X), "cosine").toarray()):
        assert rows.dtype == np.float32
        cosines = rows @ rows.T
        assert np.allclose(np.diag(cosines), 1.0)
        assert np.allclose(cosines[4:, :4], 0.0)
        assert cosines[4, 5] == 1.0


def test_rows_with_nothing_in_common_have_no_edge():
    """Else a row of its own kind would be joined to whatever rows come first: it is equally far from all."""
    X, observed, _, _ = curved_data(0, 30, n=150)
    X = np.column_stack([np.abs(X), np.zeros(150)])
    X[0] = 30 * [0.0] + [1.0]
    X[1:3] = 0.0
    weights, _ = instance_weights(on_sphere(X, "cosine"), 20, 7, "cosine")
    edges = weights.toarray() > 0
    assert not edges[0].any()
    assert np.flatnonzero(edges[1]).tolist() == [2]
    model = MLMLClassifier(instance_smoothness=3.0, scale="none").fit(X, observed)
    assert np.allclose(model.soft_labels_[0], observed[0])
    scores = model.decision_function(np.vstack([X[:2], -X[3:4]]))
    assert np.allclose(scores[0], 4 * observed[0] - 2.0)
    assert np.allclose(scores[1], 2 * model.soft_labels_[1:3].sum(axis=0) - 2, atol=1e-6)
    assert np.allclose(scores[2], 4 * model.soft_labels_.mean(axis=0) - 2, atol=1e-6)


def test_sparse_features_give_the_model_of_dense_ones():
    X, observed, X_test, _ = curved_data(0, 30, n=150)
    X, X_test = np.maximum(X, 0.0), np.maximum(X_test, 0.0)
    X[0] = X_test[0] = 0.0
    settings = {"instance_smoothness": 1.0, "scale": "none"}
    dense = MLMLClassifier(**settings).fit(X, observed)
    csr = MLMLClassifier(**settings).fit(sparse.csr_array(X), observed)
    assert dense.graph_metric_ == csr.graph_metric_ == "cosine"
    assert np.allclose(dense.soft_labels_, csr.soft_labels_, atol=1e-5)
    assert np.allclose(dense.decision_function(X_test), csr.decision_function(sparse.csr_array(X_test)), atol=1e-4)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_state_comes_back_bit_for_bit(container, tmp_path):
    X, observed, X_test, _ = curved_data(0, 30, n=150)
    queries = container(np.maximum(X_test, 0.0))
    model = MLMLClassifier(instance_smoothness=1.0).fit(container(np.maximum(X, 0.0)), observed)
    again = onepos.load(model.save(tmp_path / "model.onepos"))
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.soft_labels_, model.soft_labels_)
    assert again.soft_labels_.dtype == np.float32
    for name in ("instance_smoothness_", "n_neighbors_", "graph_metric_", "n_iter_"):
        assert getattr(again, name) == getattr(model, name)
    assert again.history_["objective"] == model.history_["objective"]
    assert np.array_equal(again.decision_function(queries), model.decision_function(queries))


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
