"""GLOCAL's alternating minimisation: warm-up without correlations, then Z_m → V → U → W until nothing changes.

Matrices are in row layout: X (n, q), V (n, k), U (c, k), W (q, k), Z_m (c, k). Each step solves, or lowers, the
objective in one unknown with the others fixed.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from onepos._utils.validation import to_dense
from onepos.training import History
from onepos_studies.methods._classical import Matrix, WeightedLabels

Map: TypeAlias = Callable[[Matrix], Matrix]

#: XᵀX and X_mᵀX_m are formed; above this many features they no longer fit.
MOST_FEATURES = 8192
_MOST_STEPS = 500  # of conjugate gradients
_STALL = 3  # iterations over which the objective has to change
_INNER_TOLERANCE = 1e-9
_ROWS_AT_ONCE = 4096


class Coefficients(NamedTuple):
    """The weights of the terms."""

    latent: float  # λ: V against its prediction XW
    local: float  # λ₁
    overall: float  # λ₂: the global correlations
    latent_ridge: float  # λ₃
    label_ridge: float  # λ₄
    feature_ridge: float  # λ₅

    def normalised(self, targets: WeightedLabels, n_features: int, rank: int, n_groups: int) -> "Coefficients":
        """Scale as published, with o = Σ J: λ·o/(kn), λ₁·o/(n/g)², λ₂·o/n², λ₃·o/(nk), λ₄·o/(ck), λ₅·o/(qk)."""
        n, c = targets.shape
        units = (rank * n, (n / n_groups) ** 2, n**2, n * rank, c * rank, n_features * rank)
        return Coefficients(*(raw * targets.total_weight / unit for raw, unit in zip(self, units, strict=True)))


class Factors(NamedTuple):
    """The unknowns: V (n, k), U (c, k), W (q, k) and one Z_m (c, k) with unit rows for each group."""

    latent: Matrix
    labels: Matrix
    weights: Matrix
    correlations: tuple[Matrix, ...]


class Design:
    """All rows X, the rows X_m of each group, and products with their Gram matrices."""

    def __init__(self, features: Any, groups: list[NDArray[np.intp]]) -> None:
        self.features, self.groups = features, groups
        self.n_samples, self.n_features = features.shape
        self.shares = [len(rows) / self.n_samples for rows in groups]  # β_m
        if self.n_features > MOST_FEATURES:
            raise ValueError(f"expected up to {MOST_FEATURES} features; got {self.n_features}: reduce them first.")
        self._grams = [to_dense(features[rows].T @ features[rows]) for rows in groups]
        values, vectors = np.linalg.eigh(np.sum(self._grams, axis=0))
        self.spectrum = np.maximum(values, 0.0), vectors  # of XᵀX

    def gram_times(self, weights: Matrix) -> list[Matrix]:
        """X_mᵀX_m W for every group; the groups' sum is XᵀX W."""
        return [gram @ weights for gram in self._grams]

    def mixtures(self, weights: Matrix, coefficients: Coefficients) -> list[Matrix]:
        """A_m = λ₂β_m WᵀXᵀXW + λ₁ WᵀX_mᵀX_mW for every group, k×k."""
        parts = [weights.T @ part for part in self.gram_times(weights)]
        total = np.sum(parts, axis=0)
        pairs = zip(self.shares, parts, strict=True)
        return [coefficients.overall * share * total + coefficients.local * part for share, part in pairs]


def objective(design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors) -> float:
    """Evaluate ½‖√J∘(Y − VUᵀ)‖² + ½λ‖V − XW‖² + ½ Σ_m tr(Z_mᵀ U A_m Uᵀ Z_m) + ½(λ₃‖V‖² + λ₄‖U‖² + λ₅‖W‖²)."""
    latent, labels, weights, correlations = factors
    value = 2.0 * targets.factored_loss(latent, labels)
    value += coefficients.latent * _square(latent - design.features @ weights)
    for z, mixture in zip(correlations, design.mixtures(weights, coefficients), strict=True):
        projected = labels.T @ z
        value += float(np.vdot(projected, mixture @ projected))
    value += coefficients.latent_ridge * _square(latent) + coefficients.label_ridge * _square(labels)
    return 0.5 * (value + coefficients.feature_ridge * _square(weights))


def _square(matrix: Matrix) -> float:
    return float(np.vdot(matrix, matrix))


def conjugate_gradient(operator: Map, right_side: Matrix, start: Matrix, precondition: Map, tolerance: float) -> Matrix:
    """Solve A(B) = R for a symmetric positive-definite linear map A of matrices, given an approximate inverse of A."""
    shape = right_side.shape

    def flat(image: Map) -> LinearOperator:
        n_entries = right_side.size
        return LinearOperator((n_entries, n_entries), lambda entries: image(entries.reshape(shape)).ravel())

    inverse = flat(precondition)
    found, _ = cg(flat(operator), right_side.ravel(), start.ravel(), rtol=tolerance, maxiter=_MOST_STEPS, M=inverse)
    return np.asarray(found.reshape(shape))


def _outer_sums(listed: Any, factors: Matrix) -> Matrix:
    """Σ f_j f_jᵀ over the columns j that each row of a 0/1 matrix lists, shape (n_rows, k, k)."""
    outer = (factors[:, :, None] * factors[:, None, :]).reshape(len(factors), -1)
    return np.asarray(listed @ outer).reshape(-1, factors.shape[1], factors.shape[1])


def latent_step(design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors) -> Matrix:
    """V: every row v_i solves (Uᵀ diag(J_i) U + (λ + λ₃) I) v_i = Uᵀ(J_i∘y_i) + λ Wᵀx_i."""
    labels = factors.labels
    shared = targets.weight * (labels.T @ labels)
    shared += (coefficients.latent + coefficients.latent_ridge) * np.eye(labels.shape[1])
    right = targets.times(labels) + coefficients.latent * np.asarray(design.features @ factors.weights)
    if targets.weight == 1.0:
        return np.ascontiguousarray(np.linalg.solve(shared, right.T).T)
    listed, latent = targets.listed, np.empty_like(right)
    for start in range(0, len(latent), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        systems = shared + (1.0 - targets.weight) * _outer_sums(listed[part], labels)
        latent[part] = np.linalg.solve(systems, right[part, :, None])[:, :, 0]
    return latent


def label_step(
    design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors, tolerance: float
) -> Matrix:
    """U: (J∘(UVᵀ))V + λ₄U + Σ_m Z_m Z_mᵀ U A_m = (J∘Y)ᵀV; the preconditioner inverts the diagonal blocks."""
    latent, labels, weights, correlations = factors
    mixtures = design.mixtures(weights, coefficients)
    shared = targets.weight * (latent.T @ latent) + coefficients.label_ridge * np.eye(labels.shape[1])
    hessians = np.tile(shared, (len(labels), 1, 1))
    if targets.weight < 1.0:
        listed = targets.listed
        for start in range(0, len(latent), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            hessians += (1.0 - targets.weight) * _outer_sums(listed[part].T, latent[part])
    inverses = np.linalg.inv(hessians + np.sum(mixtures, axis=0))

    def operator(candidate: Matrix) -> Matrix:
        image: Matrix = np.einsum("jk,jkl->jl", candidate, hessians)
        for z, mixture in zip(correlations, mixtures, strict=True):
            image += z @ ((z.T @ candidate) @ mixture)
        return image

    def precondition(residual: Matrix) -> Matrix:
        return np.asarray(np.einsum("jk,jkl->jl", residual, inverses))

    return conjugate_gradient(operator, targets.transposed_times(latent), labels, precondition, tolerance)


def weight_step(design: Design, coefficients: Coefficients, factors: Factors, tolerance: float) -> Matrix:
    """W: λXᵀXW + λ₅W + Σ_m (λ₂β_m XᵀX + λ₁X_mᵀX_m) W B_m = λXᵀV with B_m = UᵀZ_mZ_mᵀU, by conjugate gradients.

    The preconditioner solves it with X_mᵀX_m ≈ β_m XᵀX in eigenbases.
    """
    latent, labels, weights, correlations = factors
    inner = [labels.T @ z @ z.T @ labels for z in correlations]  # B_m
    mean = np.tensordot(design.shares, inner, axes=1)
    everywhere = coefficients.latent * np.eye(weights.shape[1]) + coefficients.overall * mean

    def operator(candidate: Matrix) -> Matrix:
        parts = design.gram_times(candidate)
        image = np.sum(parts, axis=0) @ everywhere + coefficients.feature_ridge * candidate
        for part, b in zip(parts, inner, strict=True):
            image += coefficients.local * (part @ b)
        return np.asarray(image)

    def precondition(residual: Matrix) -> Matrix:
        return np.asarray(vectors @ ((vectors.T @ residual @ right_vectors) / scale) @ right_vectors.T)

    values, vectors = design.spectrum
    right_values, right_vectors = np.linalg.eigh(everywhere + coefficients.local * mean)
    scale = values[:, None] * right_values[None, :] + coefficients.feature_ridge
    scale = np.maximum(scale, 1e-12 * scale.max())
    right = coefficients.latent * np.asarray(design.features.T @ latent)
    return conjugate_gradient(operator, right, weights, precondition, tolerance)


def correlation_step(mixture: Matrix, labels: Matrix, correlation: Matrix, max_iter: int, tolerance: float) -> Matrix:
    """Z_m: lower ½ tr(ZᵀNZ), N = U A_m Uᵀ, over rows of unit length.

    With L ≥ ‖N‖, ½ tr(Zᵀ(N − L I)Z) is concave; its tangent has the minimiser LZ − NZ with rows normalised.
    """
    values, vectors = np.linalg.eigh((mixture + mixture.T) / 2)
    root = labels @ (vectors * np.sqrt(np.maximum(values, 0.0)))  # N = root rootᵀ
    largest = float(np.linalg.eigvalsh(root.T @ root)[-1])
    if largest <= 0.0:
        return correlation
    previous = np.inf
    for _ in range(max_iter):
        projected = root.T @ correlation
        value = 0.5 * _square(projected)
        if np.isfinite(previous) and previous - value <= tolerance * abs(previous):
            break
        previous = value
        correlation = unit_rows(largest * correlation - root @ projected, correlation)
    return correlation


def unit_rows(matrix: Matrix, fallback: Matrix) -> Matrix:
    """Rows divided by their length; a row of zeros, for which every direction is as good, keeps ``fallback``'s."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.where(lengths > 0, matrix / np.where(lengths > 0, lengths, 1.0), fallback)


class Limits(NamedTuple):
    """Limits: iterations without correlations, with them, of each Z_m step, and the relative change to stop at."""

    warm_up_iter: int
    max_iter: int
    correlation_iter: int
    tolerance: float


def fit_glocal(
    features: Any,
    targets: WeightedLabels,
    raw: Coefficients,
    *,
    rank: int,
    groups: list[NDArray[np.intp]],
    limits: Limits,
    generator: np.random.Generator,
) -> tuple[Factors, History]:
    """Minimise GLOCAL's objective from U, V, Z ~ U(0, 1) and W = 0; ``raw`` are λ … λ₅ before normalisation."""
    design = Design(features, groups)
    coefficients = raw.normalised(targets, design.n_features, rank, len(groups))
    n_labels = targets.shape[1]
    labels, latent = generator.random((n_labels, rank)), generator.random((design.n_samples, rank))
    z = tuple(generator.random((n_labels, rank)) for _ in groups)
    factors = Factors(latent, labels, np.zeros((design.n_features, rank)), tuple(unit_rows(m, m) for m in z))
    history = History()
    bare = coefficients._replace(local=0.0, overall=0.0)
    for phase, (current, limit) in enumerate([(bare, limits.warm_up_iter), (coefficients, limits.max_iter)]):
        reached: list[float] = []
        converged = False
        while len(reached) < limit and not converged:
            if current != bare:
                pairs = zip(design.mixtures(factors.weights, current), factors.correlations, strict=True)
                moved = [correlation_step(a, factors.labels, z, limits.correlation_iter, 1e-6) for a, z in pairs]
                factors = factors._replace(correlations=tuple(moved))
            factors = factors._replace(latent=latent_step(design, targets, current, factors))
            factors = factors._replace(labels=label_step(design, targets, current, factors, _INNER_TOLERANCE))
            factors = factors._replace(weights=weight_step(design, current, factors, _INNER_TOLERANCE))
            reached.append(objective(design, targets, current, factors))
            history.append({"objective": reached[-1], "warm_up": float(phase == 0)})
            change = abs(reached[-1 - _STALL] - reached[-1]) if len(reached) > _STALL else np.inf
            converged = change <= limits.tolerance * abs(reached[-1])
        if converged and current == coefficients:
            break
    history.facts["stopped"] = "converged" if converged else "max_iter"
    return factors, history


def group_rows(features: Any, n_groups: int, generator: np.random.Generator) -> list[NDArray[np.intp]]:
    """Split rows into groups by k-means; fewer groups where the data have fewer distinct rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    n_groups = min(n_groups, features.shape[0])
    if n_groups == 1:
        return [np.arange(features.shape[0])]
    if sparse.issparse(features):  # KMeans takes 32-bit indices only
        parts = features.data, features.indices.astype(np.int32), features.indptr.astype(np.int32)
        features = sparse.csr_array(parts, shape=features.shape)
    kmeans = KMeans(n_groups, n_init=1, max_iter=100, random_state=int(generator.integers(2**31 - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assigned = kmeans.fit_predict(features)
    groups = [np.flatnonzero(assigned == m) for m in range(n_groups)]
    return [rows for rows in groups if len(rows)]
