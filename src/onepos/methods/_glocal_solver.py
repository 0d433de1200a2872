"""GLOCAL's alternating minimisation: warm-up without correlations, then Z_m → V → U → W until nothing changes.

Matrices are in row layout: X (n, q), V (n, k), U (c, k), W (q, k), Z_m (c, k₂). Each step solves, or lowers, the
objective in one unknown with the others fixed.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from onepos.methods._classical import Matrix, WeightedLabels
from onepos.training import History

Map: TypeAlias = Callable[[Matrix], Matrix]

#: Up to this many features the Gram matrices XᵀX and X_mᵀX_m are formed; above, products with X take their place.
GRAM_LIMIT = 4096


class Coefficients(NamedTuple):
    """The weights of the terms, after the published normalisation."""

    latent: float  # λ: V against its prediction XW
    local: float  # λ₁
    overall: float  # λ₂: the global correlations
    latent_ridge: float  # λ₃
    label_ridge: float  # λ₄
    feature_ridge: float  # λ₅


class Factors(NamedTuple):
    """The unknowns: V (n, k), U (c, k), W (q, k) and one Z_m (c, k₂) with unit rows for each group."""

    latent: Matrix
    labels: Matrix
    weights: Matrix
    correlations: tuple[Matrix, ...]


def normalise(raw: Coefficients, targets: WeightedLabels, n_features: int, rank: int, n_groups: int) -> Coefficients:
    """Scale the coefficients as published, with o = Σ J: so that they mean the same for any n, c, q and k.

    λ·o/(kn), λ₁·o/(n/g)², λ₂·o/n², λ₃·o/(nk), λ₄·o/(ck), λ₅·o/(qk).
    """
    n, c = targets.shape
    o = targets.total_weight
    return Coefficients(
        raw.latent * o / (rank * n),
        raw.local * o / (n / n_groups) ** 2,
        raw.overall * o / n**2,
        raw.latent_ridge * o / (n * rank),
        raw.label_ridge * o / (c * rank),
        raw.feature_ridge * o / (n_features * rank),
    )


@dataclass
class Design:
    """The features as the solver sees them: all rows X, the rows X_m of each group, and products with their Grams."""

    features: Any
    groups: list[NDArray[np.intp]]

    def __post_init__(self) -> None:
        self.n_samples, self.n_features = self.features.shape
        self.shares = [len(rows) / self.n_samples for rows in self.groups]  # β_m
        self._grams: list[Matrix] | None = None
        if self.n_features <= GRAM_LIMIT:
            self._grams = [_gram(self.features[rows]) for rows in self.groups]

    @cached_property
    def spectrum(self) -> tuple[Matrix, Matrix] | None:
        """Eigenvalues and eigenvectors of XᵀX; None with too many features to form it."""
        if self._grams is None:
            return None
        values, vectors = np.linalg.eigh(np.sum(self._grams, axis=0))
        return np.maximum(values, 0.0), vectors

    def gram_times(self, weights: Matrix) -> list[Matrix]:
        """X_mᵀX_m W for every group; the groups' sum is XᵀX W."""
        if self._grams is not None:
            return [gram @ weights for gram in self._grams]
        return [np.asarray(part.T @ (part @ weights)) for part in (self.features[rows] for rows in self.groups)]

    def mixtures(self, weights: Matrix, coefficients: Coefficients) -> list[Matrix]:
        """A_m = λ₂β_m WᵀXᵀXW + λ₁ WᵀX_mᵀX_mW for every group, k×k."""
        parts = [weights.T @ part for part in self.gram_times(weights)]
        total = np.sum(parts, axis=0)
        return [
            coefficients.overall * share * total + coefficients.local * part
            for share, part in zip(self.shares, parts, strict=True)
        ]


def _gram(features: Any) -> Matrix:
    gram = features.T @ features
    return np.asarray(gram.toarray() if not isinstance(gram, np.ndarray) else gram)


def objective(design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors) -> float:
    """Evaluate ½‖√J∘(Y − VUᵀ)‖² + ½λ‖V − XW‖² + ½ Σ_m tr(Z_mᵀ U A_m Uᵀ Z_m) + ½(λ₃‖V‖² + λ₄‖U‖² + λ₅‖W‖²)."""
    latent, labels, weights, correlations = factors
    value = targets.factored_loss(latent, labels)
    value += 0.5 * coefficients.latent * _square(latent - design.features @ weights)
    for z, mixture in zip(correlations, design.mixtures(weights, coefficients), strict=True):
        projected = labels.T @ z
        value += 0.5 * float(np.vdot(projected, mixture @ projected))
    value += 0.5 * coefficients.latent_ridge * _square(latent)
    value += 0.5 * coefficients.label_ridge * _square(labels)
    return value + 0.5 * coefficients.feature_ridge * _square(weights)


def _square(matrix: Matrix) -> float:
    return float(np.vdot(matrix, matrix))


def conjugate_gradient(operator: Map, right_side: Matrix, start: Matrix, precondition: Map, tolerance: float) -> Matrix:
    """Solve A(B) = R for a symmetric positive-definite linear map A of matrices, given an approximate inverse of A.

    Each iteration lowers ½⟨B, A(B)⟩ − ⟨B, R⟩. Stops when the residual is at most ``tolerance`` · ‖R‖.
    """
    solution = start.copy()
    residual = right_side - operator(solution)
    limit = tolerance**2 * _square(right_side)
    direction = precondition(residual)
    slope = float(np.vdot(residual, direction))
    for _ in range(_MOST_STEPS):
        if np.sum(residual * residual) <= limit:
            break
        image = operator(direction)
        curvature = float(np.vdot(direction, image))
        step = slope / curvature if curvature > 0 else 0.0
        solution += step * direction
        residual -= step * image
        improved = precondition(residual)
        new_slope = float(np.vdot(residual, improved))
        direction = improved + (new_slope / slope if slope > 0 else 0.0) * direction
        slope = new_slope
    return solution


def label_step(
    design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors, tolerance: float
) -> Matrix:
    """U: (J∘(UVᵀ))V + λ₄U + Σ_m Z_m Z_mᵀ U A_m = (J∘Y)ᵀV, by conjugate gradients.

    The preconditioner inverts the diagonal blocks, which are exact because diag(Z_m Z_mᵀ) = 1; without
    correlations it is the solution.
    """
    latent, labels, weights, correlations = factors
    mixtures = design.mixtures(weights, coefficients)
    rank = labels.shape[1]
    hessians = np.broadcast_to(
        targets.weight * (latent.T @ latent) + coefficients.label_ridge * np.eye(rank), (len(labels), rank, rank)
    )
    if targets.weight < 1.0:
        hessians = hessians + (1.0 - targets.weight) * _label_outers(targets, latent)
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

    With X_mᵀX_m ≈ β_m XᵀX the equation is XᵀX W S + λ₅W = R for a k×k matrix S, solved exactly in the eigenbases of
    XᵀX and S: that is the preconditioner, and the solution itself when there is one group or λ₁ = 0.
    """
    latent, labels, weights, correlations = factors
    projections = [labels.T @ z for z in correlations]
    inner = [p @ p.T for p in projections]  # B_m
    share_weighted = np.zeros((weights.shape[1],) * 2)
    for share, b in zip(design.shares, inner, strict=True):
        share_weighted += share * b
    everywhere = coefficients.latent * np.eye(weights.shape[1]) + coefficients.overall * share_weighted

    def operator(candidate: Matrix) -> Matrix:
        parts = design.gram_times(candidate)
        image = np.sum(parts, axis=0) @ everywhere + coefficients.feature_ridge * candidate
        if coefficients.local:
            for part, b in zip(parts, inner, strict=True):
                image += coefficients.local * (part @ b)
        return np.asarray(image)

    precondition = _two_sided(design.spectrum, everywhere + coefficients.local * share_weighted, coefficients)
    right = coefficients.latent * np.asarray(design.features.T @ latent)
    return conjugate_gradient(operator, right, weights, precondition, tolerance)


def correlation_step(mixture: Matrix, labels: Matrix, correlation: Matrix, max_iter: int, tolerance: float) -> Matrix:
    """Z_m: lower ½ tr(ZᵀNZ), N = U A_m Uᵀ, over rows of unit length.

    With L ≥ ‖N‖ and ‖Z‖² = c fixed, the objective is ½ tr(Zᵀ(N − L I)Z) plus a constant, concave, so its tangent is
    an upper bound, whose minimiser is Z ← (LZ − NZ) with rows normalised: a gradient step retracted, which never
    raises the objective. N is never formed.
    """
    values, vectors = np.linalg.eigh((mixture + mixture.T) / 2)
    root = labels @ (vectors * np.sqrt(np.maximum(values, 0.0)))  # N = root rootᵀ
    largest = float(np.linalg.eigvalsh(root.T @ root)[-1])
    if largest <= 0.0:
        return correlation
    previous = np.inf
    for _ in range(max_iter):
        projected = root.T @ correlation
        value = 0.5 * float(np.vdot(projected, projected))
        if previous - value <= tolerance * abs(previous) and np.isfinite(previous):
            break
        previous = value
        correlation = unit_rows(largest * correlation - root @ projected, correlation)
    return correlation


def unit_rows(matrix: Matrix, fallback: Matrix) -> Matrix:
    """Rows divided by their length; a row of zeros, for which every direction is as good, keeps ``fallback``'s."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, None]
    if lengths.all():
        return np.asarray(matrix / lengths)
    return np.where(lengths > 0, matrix / np.where(lengths > 0, lengths, 1.0), fallback)


def _label_outers(targets: WeightedLabels, latent: Matrix) -> Matrix:
    """Σ v_i v_iᵀ over the rows i that list label j, for every j, shape (c, k, k)."""
    n_labels, rank = targets.shape[1], latent.shape[1]
    order = np.argsort(targets.columns, kind="stable")
    bounds = np.searchsorted(targets.columns[order], np.arange(n_labels + 1))
    total = np.empty((n_labels, rank, rank))
    for label in range(n_labels):
        part = latent[targets.rows[order[bounds[label] : bounds[label + 1]]]]
        total[label] = part.T @ part
    return total


def _two_sided(spectrum: tuple[Matrix, Matrix] | None, right: Matrix, coefficients: Coefficients) -> Map:
    """Return the inverse of W ↦ XᵀX W S + λ₅W; with too many features for XᵀX, the identity over its scale."""
    if spectrum is None:
        return lambda residual: residual
    gram_values, gram_vectors = spectrum
    right_values, right_vectors = np.linalg.eigh((right + right.T) / 2)
    scale = gram_values[:, None] * right_values[None, :] + coefficients.feature_ridge
    scale = np.maximum(scale, 1e-12 * scale.max())

    def apply(residual: Matrix) -> Matrix:
        return np.asarray(gram_vectors @ ((gram_vectors.T @ residual @ right_vectors) / scale) @ right_vectors.T)

    return apply


_ROWS_AT_ONCE = 4096


def latent_step(design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors) -> Matrix:
    """V: every row v_i solves (Uᵀ diag(J_i) U + (λ + λ₃) I) v_i = Uᵀ(J_i∘y_i) + λ Wᵀx_i.

    The matrix is A + (1 − w) Σ_j u_j u_jᵀ over the row's listed labels j, with A = wUᵀU + (λ + λ₃)I the same for all
    rows. One factor of A serves the rows with no listed label and, by the Sherman–Morrison formula, those with one;
    rows with several are solved each on its own.
    """
    labels = factors.labels
    extra = 1.0 - targets.weight
    shared = targets.weight * (labels.T @ labels)
    shared += (coefficients.latent + coefficients.latent_ridge) * np.eye(labels.shape[1])
    right = targets.times(labels) + coefficients.latent * np.asarray(design.features @ factors.weights)
    factor = cho_factor(shared)
    latent = np.ascontiguousarray(cho_solve(factor, right.T).T)
    if extra == 0.0:
        return latent
    counts = np.bincount(targets.rows, minlength=len(right))
    single = counts[targets.rows] == 1
    rows, columns = targets.rows[single], targets.columns[single]
    solved = cho_solve(factor, labels.T).T  # A⁻¹u_j
    scale = extra / (1.0 + extra * np.einsum("jk,jk->j", labels, solved))
    along = np.einsum("ik,ik->i", labels[columns], latent[rows])
    latent[rows] -= (scale[columns] * along)[:, None] * solved[columns]
    several = np.flatnonzero(counts > 1)
    outer = (labels[:, :, None] * labels[:, None, :]).reshape(len(labels), -1)
    for start in range(0, len(several), _ROWS_AT_ONCE):
        part = several[start : start + _ROWS_AT_ONCE]
        systems = shared + extra * (targets.listed[part] @ outer).reshape(-1, *shared.shape)
        latent[part] = np.linalg.solve(systems, right[part, :, None])[:, :, 0]
    return latent


_MOST_STEPS = 500  # of conjugate gradients
_STALL = 3  # iterations over which the objective has to change
_INNER_TOLERANCE = 1e-9


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
    correlation_rank: int,
    groups: list[NDArray[np.intp]],
    limits: Limits,
    generator: np.random.Generator,
) -> tuple[Factors, History]:
    """Minimise GLOCAL's objective from U, V, Z ~ U(0, 1) and W = 0.

    ``features`` is X, with a constant column if an intercept is wanted, ``raw`` has λ … λ₅ before normalisation, and
    ``groups`` the rows of each group.
    """
    design = Design(features, groups)
    coefficients = normalise(raw, targets, design.n_features, rank, len(groups))
    n_labels = targets.shape[1]
    labels, latent = generator.random((n_labels, rank)), generator.random((design.n_samples, rank))
    z = tuple(generator.random((n_labels, correlation_rank)) for _ in groups)
    factors = Factors(latent, labels, np.zeros((design.n_features, rank)), tuple(unit_rows(m, m) for m in z))
    history = History()
    correlated = bool(coefficients.local or coefficients.overall)
    bare = coefficients._replace(local=0.0, overall=0.0)
    phases = [(bare, limits.warm_up_iter), (coefficients if correlated else bare, limits.max_iter)]
    for phase, (current, limit) in enumerate(phases):
        reached: list[float] = []
        for _ in range(limit):
            if current.local or current.overall:
                mixtures = design.mixtures(factors.weights, current)
                pairs = zip(mixtures, factors.correlations, strict=True)
                n_steps = limits.correlation_iter
                moved = tuple(correlation_step(mixture, factors.labels, z, n_steps, 1e-6) for mixture, z in pairs)
                factors = factors._replace(correlations=moved)
            factors = factors._replace(latent=latent_step(design, targets, current, factors))
            factors = factors._replace(labels=label_step(design, targets, current, factors, _INNER_TOLERANCE))
            factors = factors._replace(weights=weight_step(design, current, factors, _INNER_TOLERANCE))
            reached.append(objective(design, targets, current, factors))
            history.append({"objective": reached[-1], "warm_up": float(phase == 0)})
            if _stalled(reached, limits.tolerance):
                break
        converged = _stalled(reached, limits.tolerance)
        if converged and phase == 0 and not correlated:
            break
    history.facts["stopped"] = "converged" if converged else "max_iter"
    return factors, history


def _stalled(values: list[float], tolerance: float) -> bool:
    return len(values) > _STALL and abs(values[-1 - _STALL] - values[-1]) <= tolerance * abs(values[-1])


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
