"""D2ML: singular-value thresholding, the bound, ADMM's optimality, the ridge, kernels, invariances, rank data."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from assume_negative_lines import AssumeNegativeLines
from onepos.datasets import make_single_positive
from onepos.metrics import average_precision
from onepos_studies.methods._d2ml_solver import (
    Problem,
    Splitting,
    choose_landmarks,
    cross_validated_ridge,
    default_gamma,
    fit_d2ml,
    kernel_product,
    threshold_singular_values,
)
from onepos_studies.methods.d2ml import D2MLClassifier
from stored_parts import restored

N, Q, C = 40, 5, 4


def problem(rank_weight=0.5, *, several=False, container=np.asarray):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, Q))
    observed = np.zeros((N, C), dtype=np.int8)
    observed[np.arange(N), rng.integers(C, size=N)] = 1
    if several:
        observed[:10, 0] = 1
    return Problem(container(X), observed, rank_weight, 0.1), observed


@pytest.mark.parametrize("shape", [(3, 20), (20, 3), (6, 6), (1, 5)])
@pytest.mark.parametrize("threshold", [0.0, 1e-7, 0.5, 2.0, 100.0])
def test_proximal_step_is_singular_value_thresholding(shape, threshold):
    M = np.random.default_rng(0).standard_normal(shape)
    left, s, right = np.linalg.svd(M, full_matrices=False)
    expected = left * np.maximum(s - threshold, 0.0) @ right
    assert np.abs(threshold_singular_values(M, threshold) - expected).max() < 1e-8


def test_proximal_step_minimises():
    rng = np.random.default_rng(1)
    M = rng.standard_normal((5, 8))

    def value(Z):
        return 0.7 * np.linalg.norm(Z, "nuc") + 0.5 * ((Z - M) ** 2).sum()

    Z = threshold_singular_values(M, 0.7)
    for scale in (1e-4, 1e-2, 1.0):
        assert value(Z) < value(Z + scale * rng.standard_normal(M.shape))


def test_one_positive_per_row_makes_the_blocks_a_partition():
    setup, observed = problem()
    for start, stop in pairwise(setup.bounds):
        assert len(np.unique(observed[setup.rows[start:stop]].argmax(axis=1))) == 1
    assert np.array_equal(np.sort(setup.rows), np.arange(N))
    assert np.allclose(setup.block_gram, setup.gram)
    assert np.allclose(setup.root.T @ setup.root, setup.gram)
    rng = np.random.default_rng(0)
    for _ in range(20):
        F = setup.features @ rng.standard_normal((Q, C))
        assert setup.blocks_norm(F) >= np.linalg.norm(F, "nuc") - 1e-9


def test_rows_with_several_positives_are_in_several_blocks():
    setup, observed = problem(several=True)
    expected = sum(setup.features[observed[:, k] > 0].T @ setup.features[observed[:, k] > 0] for k in range(C))
    assert np.allclose(setup.block_gram, expected)
    F = setup.features @ np.random.default_rng(0).standard_normal((Q, C))
    norms = sum(np.linalg.norm(F[observed[:, k] > 0], "nuc") for k in range(C))
    assert setup.blocks_norm(F) == pytest.approx(norms)
    stacked = np.random.default_rng(1).standard_normal(F[setup.rows].shape)
    assert np.vdot(F[setup.rows], stacked) == pytest.approx(np.vdot(F, setup.scatter(stacked)))


def test_objective_equals_its_definition():
    setup, observed = problem()
    W = np.random.default_rng(2).standard_normal((Q, C))
    F = setup.features @ W
    Y = np.where(observed > 0, 1.0, -1.0)
    local = sum(np.linalg.norm(F[observed[:, k] > 0], "nuc") for k in range(C))
    value = 0.5 * ((F - Y) ** 2).sum() + 0.5 * (local - np.linalg.norm(F, "nuc")) + 0.05 * (W**2).sum()
    assert setup.objective(W) == pytest.approx(value)


def test_expansion_gradient_is_that_of_the_nuclear_norm():
    setup, _ = problem()
    rng = np.random.default_rng(3)
    W = rng.standard_normal((Q, C))
    left, _, right = np.linalg.svd(setup.features @ W, full_matrices=False)
    gradient = setup.expansion_gradient(W)
    assert np.abs(gradient - setup.features.T @ (left @ right)).max() < 1e-8
    direction = rng.standard_normal(W.shape)
    ahead, behind = (np.linalg.norm(setup.features @ (W + h * direction), "nuc") for h in (1e-6, -1e-6))
    assert (ahead - behind) / 2e-6 == pytest.approx(np.vdot(gradient, direction), rel=1e-6)


def test_bound_touches_and_dominates_the_objective():
    setup, _ = problem()
    rng = np.random.default_rng(4)
    at = rng.standard_normal((Q, C))
    linear = setup.bound_at(at)
    gap = setup.objective(at) - setup.bound(linear, at, setup.features @ at)
    for scale in (1e-3, 0.1, 1.0, 10.0):
        W = at + scale * rng.standard_normal(at.shape)
        assert setup.objective(W) <= setup.bound(linear, W, setup.features @ W) + gap + 1e-9


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_admm_reaches_the_optimum_of_the_bound(several, container):
    """The multipliers certify it: ρΛ_k/λ is a subgradient of ‖X_kW‖_*, and with it the gradient is zero."""
    setup, _ = problem(rank_weight=2.0, several=several, container=container)
    start = np.random.default_rng(5).standard_normal((Q, C))
    linear = setup.bound_at(start)
    splitting = Splitting(setup, 0.7)
    W, _ = splitting.minimise(linear, start, 1000, 0.0, 0.0)
    S = 0.7 * splitting.multipliers / 2.0
    F = np.asarray(setup.features @ W)[setup.rows]
    gradient = setup.gram @ W + 0.1 * W - linear
    gradient += 2.0 * np.asarray(setup.features.T @ setup.scatter(S))
    assert np.abs(gradient).max() < 1e-6
    for a, b in pairwise(setup.bounds):
        assert np.linalg.norm(S[a:b], 2) <= 1 + 1e-8
        assert np.vdot(S[a:b], F[a:b]) == pytest.approx(np.linalg.norm(F[a:b], "nuc"), abs=1e-5)


@pytest.mark.parametrize("several", [False, True])
def test_objective_never_increases(several):
    setup, _ = problem(1.0, several=several)
    _, history = fit_d2ml(setup, max_iter=30, inner_iter=50, tolerance=0.0)
    values = np.array(history["objective"])
    assert (np.diff(values) <= 0).all()
    assert values[-1] < values[0]


def test_without_the_rank_terms_it_is_ridge_regression():
    setup, observed = problem(rank_weight=0.0)
    W, history = fit_d2ml(setup, max_iter=5, inner_iter=5, tolerance=1e-12)
    Y = np.where(observed > 0, 1.0, -1.0)
    assert np.abs(setup.features.T @ (setup.features @ W - Y) + 0.1 * W).max() < 1e-8
    assert history.facts["stopped"] == "converged"


def test_kernel_is_exact_with_all_rows_as_landmarks():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    landmarks, projection = choose_landmarks(X, 0.5, 30, rng)
    mapped = kernel_product(X, landmarks, 0.5, projection)
    assert np.allclose(mapped @ mapped.T, K, atol=1e-6)
    # With λ_d = 0: kernel ridge regression.
    observed = np.eye(3, dtype=np.int8)[rng.integers(3, size=30)]
    setup = Problem(mapped, observed, 0.0, 0.2)
    W, _ = fit_d2ml(setup, max_iter=1, inner_iter=1, tolerance=0.0)
    expected = K @ np.linalg.solve(K + 0.2 * np.eye(30), 2.0 * observed - 1.0)
    assert np.allclose(mapped @ W, expected, atol=1e-5)


def test_ridge_minimises_the_generalised_cross_validation_error():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) @ rng.standard_normal((8, 8)) + 3.0
    positive = np.eye(4, dtype=bool)[rng.integers(4, size=60)]
    positive[:, 0] |= X[:, 0] > 4.0
    Y, centred = np.where(positive, 1.0, -1.0), X - X.mean(axis=0)

    def criterion(ridge):  # from the smoother itself
        H = 1 / 60 + centred @ np.linalg.solve(centred.T @ centred + ridge * np.eye(8), centred.T)
        return ((Y - H @ Y) ** 2).sum() / (1 - np.trace(H) / 60) ** 2

    found = cross_validated_ridge(X, positive)
    unit = (centred**2).sum() / 8
    grid = unit * 10.0 ** np.arange(-4.0, 3.01, 0.25)
    assert found == pytest.approx(min(grid, key=criterion))
    assert grid[0] < found < grid[-1]
    assert cross_validated_ridge(sparse.csr_array(X), positive) == pytest.approx(found)
    for constant in (0.0, 0.1):
        assert cross_validated_ridge(np.full((60, 3), constant), positive) == 1.0


def shared_signal(seed=0, n=150):
    """Smooth, not linear: one of three labels by where the row lies in the plane."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.digitize(np.hypot(X[:, 0], X[:, 1]) + 0.1 * rng.standard_normal(n), [0.5, 0.9])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_more_rows_than_landmarks_use_nystroem(container):
    """K has quickly decaying eigenvalues, so a few landmarks span it; with all rows as landmarks the map is exact."""
    X, y = shared_signal()
    features = container(X)

    def scores(n_landmarks):
        model = D2MLClassifier(
            rank_weight=0.5, ridge=1.0, kernel="rbf", gamma=0.1, n_landmarks=n_landmarks, tol=1e-6, random_state=0
        )
        model.fit(features, y)
        assert model.coef_.shape[0] == model.landmarks_.shape[0] == min(n_landmarks, 150)
        return model.decision_function(features)

    exact = scores(150)
    assert np.array_equal(scores(1000), exact)
    error = [np.linalg.norm(scores(m) - exact) / np.linalg.norm(exact) for m in (3, 10, 30)]
    assert all(more > 5 * less for more, less in pairwise(error))
    assert error[0] > 0.1
    assert error[-1] < 1e-4  # about what the iterations themselves are accurate to


def test_nystroem_without_rank_terms_is_regression_on_the_landmarks():
    """Without λ_d: min ‖K_nm A + 1b − Y‖² + ε tr(Aᵀ K_mm A), solved directly."""
    X, y = shared_signal()
    model = D2MLClassifier(
        rank_weight=0.0, ridge=0.3, kernel="rbf", gamma=0.5, n_landmarks=12, scale="none", random_state=0
    ).fit(X, y)
    across = np.column_stack(
        [rbf_kernel(X.astype(np.float32).astype(float), model.landmarks_.astype(float), 0.5), np.ones(150)]
    )
    within = np.zeros((13, 13))
    within[:12, :12] = rbf_kernel(model.landmarks_.astype(float), gamma=model.gamma_)
    solved = np.linalg.solve(across.T @ across + 0.3 * within, across.T @ (2.0 * np.eye(3)[y] - 1.0))
    assert np.allclose(model.decision_function(X), 2.0 * across @ solved, atol=1e-7)


def test_features_may_be_shifted_and_with_a_vanishing_ridge_mixed():
    """Intercepts are free, and the rank terms see predictions only: any invertible mixing of features is undone."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 4)), rng.integers(3, size=80)

    def scores(features, ridge):
        model = D2MLClassifier(rank_weight=1.0, ridge=ridge, scale="none").fit(features, y)
        return model.decision_function(features)

    assert np.allclose(scores(X, 5.0), scores(X + 2.0, 5.0), atol=1e-5)
    mixed = X @ (np.diag([10.0, 3.0, 1.0, 0.3]) @ np.linalg.qr(rng.standard_normal((4, 4)))[0])
    assert np.allclose(scores(X, 1e-6), scores(mixed, 1e-6), atol=1e-4)
    assert np.abs(scores(X, 5.0) - scores(mixed, 5.0)).max() > 0.05


def discriminative_data(seed, n=400, q=20, n_groups=5, size=6):
    """Rows that share a label share their whole label set: rank one within a label's rows, five over all.

    The features mix what tells the groups apart with the noise around it, by a matrix of condition 30: which directions
    tell the groups apart has nothing to do with which are long.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(n_groups, size=n + 1000)
    X = rng.standard_normal((n_groups, q))[group] + rng.standard_normal((len(group), q))
    left, right = (np.linalg.qr(rng.standard_normal((q, q)))[0] for _ in range(2))
    X = X @ (left * 30.0 ** -np.linspace(0.0, 1.0, q) @ right)
    Y = np.repeat(np.eye(n_groups, dtype=np.int8), size, axis=1)[group]
    return X[:n], make_single_positive(Y[:n], random_state=seed), X[n:], Y[n:]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beats_assume_negative_on_discriminative_ranks(seed):
    """Both choose their strength on the same held-out rows, a tenth, with one label each."""
    X, observed, X_test, Y_test = discriminative_data(seed)
    tenth = len(X) // 10
    held = {"validation": (X[:tenth], observed[:tenth])}
    linear = AssumeNegativeLines().fit(X[tenth:], observed[tenth:], **held)
    d2ml = D2MLClassifier(random_state=0).fit(X[tenth:], observed[tenth:], **held)
    ahead, behind = (average_precision(Y_test, model.decision_function(X_test)) for model in (d2ml, linear))
    assert ahead > behind + 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rank_terms_lift_ridge_regression_on_discriminative_ranks(seed):
    X, observed, X_test, Y_test = discriminative_data(seed)
    models = [D2MLClassifier(rank_weight=rank_weight).fit(X, observed) for rank_weight in (1.0, 0.0)]
    assert models[0].ridge_ == models[1].ridge_
    ahead, behind = (average_precision(Y_test, model.decision_function(X_test)) for model in models)
    assert ahead > behind + 0.01


def test_too_many_features_are_refused_clearly():
    X = sparse.csr_array((np.ones(4), ([0, 1, 2, 3], [0, 1, 2, 9000])), shape=(4, 9001))
    with pytest.raises(ValueError, match="up to 8192 features; got 9001"):
        D2MLClassifier(rank_weight=1.0).fit(X, np.eye(2)[[0, 1, 0, 1]])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_state_gives_the_same_bits_back(kernel, container):
    X, y = shared_signal()
    model = D2MLClassifier(kernel=kernel, n_landmarks=30, random_state=0).fit(container(X), y)
    again = restored(model)
    assert np.array_equal(again._logits(container(X)), model._logits(container(X)))
    assert (again.rank_weight_, again.ridge_, again.gamma_) == (model.rank_weight_, model.ridge_, model.gamma_)
    assert again.history_.records == model.history_.records
    assert again.history_.facts == model.history_.facts


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_the_default_width_is_that_of_scikit_learn(container):
    square = np.random.default_rng(0).normal(size=(7, 7)).clip(min=0.0)
    assert default_gamma(container(square)) == pytest.approx(1.0 / (7 * square.var()))


def test_predictions_convert_some_rows_at_a_time():
    X = np.zeros((40_000, 50), dtype=np.float32)
    tracemalloc.start()
    kernel_product(X, X[:2], 1.0, np.ones((2, 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * X.size / 2
