"""GLOCAL: gradients, closed forms, falling objective, low-rank ridge as limit, unobserved entries, low-rank data."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from assume_negative_lines import AssumeNegativeLines
from onepos.datasets import make_single_positive
from onepos.metrics import average_precision
from onepos_studies.methods._classical import WeightedLabels
from onepos_studies.methods._glocal_solver import (
    Coefficients,
    Design,
    Factors,
    Limits,
    correlation_step,
    fit_glocal,
    group_rows,
    label_step,
    latent_step,
    objective,
    unit_rows,
    weight_step,
)
from onepos_studies.methods.glocal import GLOCALClassifier

N, Q, C, K = 30, 6, 5, 3
RAW = Coefficients(1.0, 0.3, 0.5, 0.125, 0.2, 0.15)
WEIGHTS = [1.0, 0.0, 0.3]


def problem(unobserved, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, Q))
    observed = np.zeros((N, C), dtype=np.int8)
    observed[np.arange(N), rng.integers(C, size=N)] = 1
    observed[3, observed[3] == 0] = -1  # a row with known absences
    targets = WeightedLabels.from_observed(observed, unobserved)
    design = Design(X, [np.arange(0, 12), np.arange(12, N)])
    z = tuple(unit_rows(m, m) for m in rng.standard_normal((2, C, 4)))
    factors = Factors(rng.standard_normal((N, K)), rng.standard_normal((C, K)), rng.standard_normal((Q, K)), z)
    return design, targets, RAW.normalised(targets, Q, K, 2), factors, observed


@pytest.mark.parametrize("unobserved", WEIGHTS)
def test_weighted_labels_equal_dense_arrays(unobserved):
    _, targets, _, factors, observed = problem(unobserved)
    weight = unobserved
    J = np.where(observed == 0, weight, 1.0)
    Y = np.where(observed > 0, 1.0, -1.0)
    F = factors.latent @ factors.labels.T
    assert targets.total_weight == pytest.approx(J.sum())
    assert targets.loss(F) == pytest.approx(0.5 * (J * (Y - F) ** 2).sum())
    assert targets.factored_loss(factors.latent, factors.labels) == pytest.approx(targets.loss(F))
    assert np.allclose(targets.times(factors.labels), (J * Y) @ factors.labels)
    assert np.allclose(targets.transposed_times(factors.latent), (J * Y).T @ factors.latent)
    assert np.allclose(targets.transposed_times(sparse.csr_array(factors.latent)), (J * Y).T @ factors.latent)


def test_coefficients_are_normalised_as_published():
    _, targets, _, _, _ = problem(1.0)
    o = N * C
    expected = (o / (K * N), 0.3 * o / (N / 2) ** 2, 0.5 * o / N**2, 0.125 * o / (N * K), 0.2 * o / (C * K))
    assert RAW.normalised(targets, Q, K, 2) == pytest.approx((*expected, 0.15 * o / (Q * K)))


def test_objective_is_the_published_one():
    design, targets, coefficients, factors, observed = problem(1.0)
    Y = np.where(observed > 0, 1.0, -1.0).T  # the paper's layout: c×n
    X, U, V, W = design.features.T, factors.labels, factors.latent.T, factors.weights
    lam, lam1, lam2, lam3, lam4, lam5 = coefficients
    value = 0.5 * np.linalg.norm(Y - U @ V) ** 2 + 0.5 * lam * np.linalg.norm(V - W.T @ X) ** 2
    for z, rows in zip(factors.correlations, design.groups, strict=True):
        M, Xm = z @ z.T, X[:, rows]
        assert np.allclose(np.diag(M), 1.0)
        value += 0.5 * lam2 * len(rows) / N * np.trace(M @ U @ W.T @ X @ X.T @ W @ U.T)
        value += 0.5 * lam1 * np.trace(M @ U @ W.T @ Xm @ Xm.T @ W @ U.T)
    value += 0.5 * (lam3 * (V**2).sum() + lam4 * (U**2).sum() + lam5 * (W**2).sum())
    assert objective(design, targets, coefficients, factors) == pytest.approx(value)


def gradients(design, targets, coefficients, factors):
    """Euclidean gradients of ``objective`` in V, U, W and Z_m: what the closed forms must make zero."""
    latent, labels, weights, correlations = factors
    weight, listed = targets.weight, targets.listed.toarray()
    residual = (weight + (1 - weight) * listed) * (latent @ labels.T) - targets.times(np.eye(targets.shape[1]))
    error = latent - design.features @ weights
    in_latent = residual @ labels + coefficients.latent * error + coefficients.latent_ridge * latent
    in_labels = residual.T @ latent + coefficients.label_ridge * labels
    in_weights = coefficients.feature_ridge * weights - coefficients.latent * (design.features.T @ error)
    parts = design.gram_times(weights)
    total = np.sum(parts, axis=0)
    in_correlations = []
    for z, mixture, part, share in zip(
        correlations, design.mixtures(weights, coefficients), parts, design.shares, strict=True
    ):
        projected = labels.T @ z
        in_labels += z @ projected.T @ mixture
        in_weights += (coefficients.overall * share * total + coefficients.local * part) @ (projected @ projected.T)
        in_correlations.append(labels @ (mixture @ projected))
    return Factors(in_latent, in_labels, np.asarray(in_weights), tuple(in_correlations))


@pytest.mark.parametrize("unobserved", WEIGHTS)
@pytest.mark.parametrize("block", ["latent", "labels", "weights", "first group", "second group"])
def test_gradients_match_finite_differences(unobserved, block):
    design, targets, coefficients, factors, _ = problem(unobserved)
    rng = np.random.default_rng(1)
    group = {"first group": 0, "second group": 1}.get(block)

    def moved(step, direction):
        if group is None:
            parts = {block: getattr(factors, block) + step * direction}
        else:
            z = list(factors.correlations)
            z[group] = z[group] + step * direction
            parts = {"correlations": tuple(z)}
        return objective(design, targets, coefficients, factors._replace(**parts))

    found = gradients(design, targets, coefficients, factors)
    gradient = getattr(found, block) if group is None else found.correlations[group]
    for _ in range(3):
        direction = rng.standard_normal(gradient.shape)
        slope = (moved(1e-5, direction) - moved(-1e-5, direction)) / 2e-5
        assert slope == pytest.approx(np.vdot(gradient, direction), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("unobserved", WEIGHTS)
def test_closed_forms_satisfy_their_normal_equations(unobserved):
    design, targets, coefficients, factors, _ = problem(unobserved)
    steps = {
        "latent": latent_step(design, targets, coefficients, factors),
        "labels": label_step(design, targets, coefficients, factors, 1e-12),
        "weights": weight_step(design, coefficients, factors, 1e-12),
    }
    for name, solution in steps.items():
        gradient = getattr(gradients(design, targets, coefficients, factors._replace(**{name: solution})), name)
        assert np.abs(gradient).max() < 1e-8, name


def test_correlation_step_never_rises_and_keeps_unit_rows():
    design, _, coefficients, factors, _ = problem(1.0)
    mixture = design.mixtures(factors.weights, coefficients)[0]
    N_matrix = factors.labels @ mixture @ factors.labels.T
    z, values = factors.correlations[0], []
    for _ in range(50):
        values.append(np.vdot(z, N_matrix @ z))
        z = correlation_step(mixture, factors.labels, z, 1, 0.0)
        assert np.allclose((z**2).sum(axis=1), 1.0)
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert values[-1] < 0.9 * values[0]
    # Stationary on the product of spheres: the gradient has no part along the rows' tangents.
    z = correlation_step(mixture, factors.labels, z, 20000, 0.0)
    gradient = N_matrix @ z
    tangent = gradient - (gradient * z).sum(axis=1, keepdims=True) * z
    assert np.abs(tangent).max() < 1e-4 * np.abs(N_matrix).max()


@pytest.mark.parametrize("unobserved", WEIGHTS)
def test_objective_never_increases(unobserved):
    design, targets, _, _, _ = problem(unobserved)
    _, history = fit_glocal(
        design.features,
        targets,
        RAW,
        rank=K,
        groups=design.groups,
        limits=Limits(10, 25, 30, 0.0),
        generator=np.random.default_rng(0),
    )
    for phase in (1.0, 0.0):
        values = np.array([r["objective"] for r in history if r["warm_up"] == phase])
        assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert history.facts["stopped"] == "max_iter"


def test_without_correlations_it_is_low_rank_ridge():
    """Eliminating W and rotating V leaves nuclear-norm ridge, which a proximal gradient method solves on its own."""
    design, targets, _, _, observed = problem(1.0)
    raw = RAW._replace(local=0.0, overall=0.0)
    lam, _, _, lam3, lam4, lam5 = raw.normalised(targets, Q, C, 1)
    factors, _ = fit_glocal(
        design.features,
        targets,
        raw,
        rank=C,
        groups=[np.arange(N)],
        limits=Limits(0, 5000, 1, 1e-15),
        generator=np.random.default_rng(0),
    )
    X, Y = design.features, np.where(observed > 0, 1.0, -1.0)
    # min over W of λ‖V − XW‖² + λ₅‖W‖² is λ tr(Vᵀ(I − H)V), H the ridge's hat matrix.
    ridge = np.linalg.solve(X.T @ X + lam5 / lam * np.eye(Q), X.T)
    values, vectors = np.linalg.eigh(lam * (np.eye(N) - X @ ridge) + lam3 * np.eye(N))
    half = vectors / np.sqrt(values) @ vectors.T  # K^{-1/2}; F = K^{-1/2} B, penalty √λ₄ ‖B‖_*
    step = values[0]
    B = np.zeros_like(Y)
    for _ in range(20000):
        left, s, right = np.linalg.svd(B - step * half @ (half @ B - Y), full_matrices=False)
        B = left * np.maximum(s - step * np.sqrt(lam4), 0) @ right
    fitted = factors.latent @ factors.labels.T
    assert np.allclose(fitted, half @ B, atol=1e-5)
    assert np.allclose(factors.weights @ factors.labels.T, ridge @ half @ B, atol=1e-5)


@pytest.mark.parametrize("unobserved", WEIGHTS)
def test_without_correlations_its_iterates_are_those_of_weighted_alternating_ridge(unobserved):
    """Three ridge regressions in turn, row by row and label by label, with dense weights, from the same start."""
    design, targets, _, _, observed = problem(unobserved)
    raw = RAW._replace(local=0.0, overall=0.0)
    lam, _, _, lam3, lam4, lam5 = raw.normalised(targets, Q, K, 2)
    factors, history = fit_glocal(
        design.features,
        targets,
        raw,
        rank=K,
        groups=design.groups,
        limits=Limits(0, 7, 1, 0.0),
        generator=np.random.default_rng(5),
    )
    assert len(history) == 7
    rng = np.random.default_rng(5)
    X, J, Y = design.features, np.where(observed == 0, unobserved, 1.0), np.sign(observed - 0.5)
    U, V, W = rng.random((C, K)), rng.random((N, K)), np.zeros((Q, K))
    eye = np.eye(K)
    for _ in range(7):
        for i in range(N):
            V[i] = np.linalg.solve((U.T * J[i]) @ U + (lam + lam3) * eye, U.T @ (J[i] * Y[i]) + lam * X[i] @ W)
        for j in range(C):
            U[j] = np.linalg.solve((V.T * J[:, j]) @ V + lam4 * eye, V.T @ (J[:, j] * Y[:, j]))
        W = np.linalg.solve(lam * X.T @ X + lam5 * np.eye(Q), lam * X.T @ V)
    for mine, theirs in zip(factors[:3], (V, U, W), strict=True):
        assert np.abs(mine - theirs).max() < 1e-7


def linear_scores(rng, n, q, c, rank):
    """Features, and label scores of variance about ``rank`` that are linear in them and have that rank."""
    X = rng.standard_normal((n, q))
    return X, (X @ rng.standard_normal((q, rank)) / np.sqrt(q)) @ rng.standard_normal((rank, c))


def label_data(seed, n, q, c, rank, threshold=1.5):
    """Split of rows whose labels are the scores above a threshold, noisily, and always the largest one."""
    rng = np.random.default_rng(seed)
    X, scores = linear_scores(rng, n + 1000, q, c, rank)
    Y = (scores + 0.3 * rng.standard_normal(scores.shape) > threshold).astype(np.int8)
    Y[np.arange(len(Y)), scores.argmax(axis=1)] = 1
    return X[:n], make_single_positive(Y[:n], random_state=seed), X[n:], Y[n:]


def average_precisions(data, *models):
    X, observed, X_test, Y_test = data
    return [average_precision(Y_test, model.fit(X, observed).decision_function(X_test)) for model in models]


@pytest.mark.filterwarnings("ignore::onepos.exceptions.LabelWarning")
@pytest.mark.parametrize("seed", range(3))
def test_beats_assume_negative_on_low_rank_labels(seed):
    """Eighty labels that are mixtures of two; both choose their strength on the same held-out tenth.

    The shape was picked of 19, of which not all are won: the page has the table.
    """
    X, observed, X_test, Y_test = label_data(seed, n=1000, q=60, c=80, rank=2)
    glocal, assumed = (
        average_precision(
            Y_test,
            model.fit(X[100:], observed[100:], validation=(X[:100], observed[:100])).decision_function(X_test),
        )
        for model in (GLOCALClassifier(random_state=0), AssumeNegativeLines())
    )
    assert glocal > assumed + 0.02


@pytest.mark.filterwarnings("ignore::onepos.exceptions.LabelWarning")
def test_loses_to_assume_negative_when_every_label_is_its_own():
    """The page says so: forty labels with unrelated scores, of which rank 20 cannot tell half apart."""
    data = label_data(0, n=500, q=40, c=40, rank=40, threshold=7.0)
    linear = AssumeNegativeLines()
    glocal, assumed = average_precisions(data, GLOCALClassifier(random_state=0), linear)
    assert glocal < assumed


@pytest.fixture
def small():
    return label_data(1, n=150, q=8, c=6, rank=2, threshold=1.0)


SETTINGS = {"rank": 3, "feature_l2": 1.0, "random_state": 0}


@pytest.mark.parametrize("unobserved", [1.0, 0.1])
def test_fitted_attributes(small, unobserved):
    X, observed, _, _ = small
    model = GLOCALClassifier(**SETTINGS, unobserved=unobserved).fit(X, observed)
    assert model.label_correlations_.shape == (3, 6, 3)
    assert np.allclose((model.label_correlations_**2).sum(axis=2), 1.0)
    assert np.linalg.matrix_rank(np.vstack([model.coef_, model.intercept_])) <= 3
    for phase in (1.0, 0.0):
        values = np.array([r["objective"] for r in model.history_ if r["warm_up"] == phase])
        assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert len(model.history_) == model.n_iter_ <= 30


def test_a_coarser_tolerance_stops_earlier(small):
    X, observed, _, _ = small
    models = [GLOCALClassifier(**SETTINGS, max_iter=200, tol=tol).fit(X, observed) for tol in (1e-3, 1e-7)]
    assert models[0].n_iter_ < models[1].n_iter_ < 215
    assert [model.history_.facts["stopped"] for model in models] == ["converged", "converged"]
    assert GLOCALClassifier(**SETTINGS, tol=0.0).fit(X, observed).history_.facts["stopped"] == "max_iter"


def test_ignoring_unobserved_entries_needs_known_absences(small):
    X, observed, X_test, Y_test = small
    settings = {**SETTINGS, "feature_l2": 1e-4, "l2": 1e-6, "max_iter": 500, "unobserved": 0.0}
    ones = GLOCALClassifier(**settings).fit(X, observed).decision_function(X_test)
    assert np.allclose(ones, 2.0, atol=0.02)  # all targets are +1, the logit of which is 2
    known = np.where(Y_test[:200] > 0, 1, -1)
    learnt = GLOCALClassifier(**settings).fit(X_test[:200], known).decision_function(X_test[200:])
    assert average_precision(Y_test[200:], learnt) > average_precision(Y_test[200:], ones[200:]) + 0.2


def test_the_weight_of_unobserved_entries_lowers_scores(small):
    X, observed, X_test, _ = small

    def scores(unobserved):
        return GLOCALClassifier(**SETTINGS, unobserved=unobserved).fit(X, observed).decision_function(X_test)

    levels = [scores(weight).mean() for weight in (1.0, 0.3, 0.1, 0.0)]
    assert levels == sorted(levels)


def test_groups_are_a_partition_for_dense_and_sparse():
    rng = np.random.default_rng(0)
    X = (rng.random((50, 4)) < 0.4).astype(np.float32)
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for features in (X, wide):
        groups = group_rows(features, 3, np.random.default_rng(0))
        assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(50))
    assert len(group_rows(np.zeros((5, 2)), 3, np.random.default_rng(0))) == 1


@pytest.mark.filterwarnings("ignore::onepos.exceptions.LabelWarning")
def test_strength_is_chosen_on_validation_and_settings_are_checked():
    X, observed, X_test, Y_test = label_data(0, n=200, q=60, c=40, rank=3)
    model = GLOCALClassifier(rank=3, feature_l2=(1e4, 10.0), random_state=0)
    model.fit(X, observed, validation=(X_test, Y_test), validation_labels="full")
    assert model.feature_l2_ == max(model.validation_scores_, key=model.validation_scores_.get)
    with pytest.raises(ValueError, match="'unobserved' parameter"):
        GLOCALClassifier(unobserved="unknown").fit(X, observed)
    with pytest.raises(TypeError, match="pair"):
        GLOCALClassifier().fit(X, observed, validation=X_test)


@pytest.mark.parametrize("unobserved", [1.0, 0.5])
def test_the_step_of_the_labels_needs_no_matrix_per_row(unobserved):
    n, rank, rng = 30_000, 20, np.random.default_rng(0)
    targets = WeightedLabels.from_observed(np.eye(3, dtype=np.int8)[rng.integers(3, size=n)], unobserved)
    design = Design(rng.normal(size=(n, 2)), [np.arange(n)])
    start = Factors(rng.normal(size=(n, rank)), rng.normal(size=(3, rank)), np.zeros((2, rank)), (np.eye(3),))
    tracemalloc.start()
    label_step(design, targets, Coefficients(1.0, 0.0, 0.0, 1.0, 1.0, 1.0), start, 1e-9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * rank**2 / 2
