"""GLOCAL's alternating minimisation: warm-up without correlations, then Z_m → V → U → W until nothing changes."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from onepos.methods._classical import WeightedLabels
from onepos.training import History

# GLOCAL's objective and gradients, in row layout: X (n, q), V (n, k), U (c, k), W (q, k), Z_m (c, k₂).


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

    latent: NDArray[np.float64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    correlations: tuple[NDArray[np.float64], ...]


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
        self._grams: list[NDArray[np.float64]] | None = None
        if self.n_features <= GRAM_LIMIT:
            self._grams = [_gram(self.features[rows]) for rows in self.groups]

    @property
    def gram(self) -> NDArray[np.float64] | None:
        """XᵀX, or None when there are too many features to form it."""
        return None if self._grams is None else np.sum(self._grams, axis=0)

    def gram_times(self, weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """X_mᵀX_m W for every group; the groups' sum is XᵀX W."""
        if self._grams is not None:
            return [gram @ weights for gram in self._grams]
        return [np.asarray(part.T @ (part @ weights)) for part in (self.features[rows] for rows in self.groups)]

    def mixtures(self, weights: NDArray[np.float64], coefficients: Coefficients) -> list[NDArray[np.float64]]:
        """A_m = λ₂β_m WᵀXᵀXW + λ₁ WᵀX_mᵀX_mW for every group, k×k."""
        parts = [weights.T @ part for part in self.gram_times(weights)]
        total = np.sum(parts, axis=0)
        return [
            coefficients.overall * share * total + coefficients.local * part
            for share, part in zip(self.shares, parts, strict=True)
        ]


def _gram(features: Any) -> NDArray[np.float64]:
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


def gradients(design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors) -> Factors:
    """Return the Euclidean gradients of ``objective`` in V, U, W and Z_m.

    The solver uses closed forms; these are what its steps must make zero. Forms n×c arrays.
    """
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


def _square(matrix: NDArray[np.float64]) -> float:
    return float(np.vdot(matrix, matrix))


# Preconditioned conjugate gradients on a matrix unknown: one system, or one per column, all at once.


Matrix: TypeAlias = NDArray[np.float64]
Map: TypeAlias = Callable[[Matrix], Matrix]


def conjugate_gradient(
    operator: Map,
    right_side: Matrix,
    start: Matrix,
    precondition: Map,
    *,
    by_column: bool = False,
    tolerance: float = 1e-10,
    max_iter: int = 500,
) -> tuple[Matrix, int]:
    """Solve A(B) = R for a symmetric positive-definite linear map A of matrices.

    Parameters
    ----------
    operator, precondition : callable
        A and an approximation of its inverse, symmetric positive definite too.
    right_side, start : arrays of one shape
        R and the first guess. Each iteration lowers ½⟨B, A(B)⟩ − ⟨B, R⟩ from there.
    by_column : bool
        Whether A acts on every column by itself: each column then has its own step lengths.
    tolerance : float
        Stop when every residual is at most this part of its right-hand side (Frobenius).

    Returns
    -------
    solution, number of iterations

    Examples
    --------
    >>> import numpy as np
    >>> solution, _ = conjugate_gradient(
    ...     lambda b: 2 * b, np.ones((2, 1)), np.zeros((2, 1)), lambda r: r
    ... )
    >>> solution.ravel().tolist()
    [0.5, 0.5]
    """
    axis = 0 if by_column else None

    def inner(left: Matrix, right: Matrix) -> Matrix:
        return np.asarray(np.einsum("ij,ij->j", left, right) if by_column else np.vdot(left, right))

    solution = start.copy()
    residual = right_side - operator(solution)
    limit = tolerance**2 * inner(right_side, right_side)
    direction = precondition(residual)
    slope = inner(residual, direction)
    for iteration in range(max_iter):
        if np.all(np.sum(residual * residual, axis=axis) <= limit):
            return solution, iteration
        image = operator(direction)
        curvature = inner(direction, image)
        # A column that is solved has direction zero; it stays where it is.
        step = np.divide(slope, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        solution += step * direction
        residual -= step * image
        improved = precondition(residual)
        new_slope = inner(residual, improved)
        ratio = np.divide(new_slope, slope, out=np.zeros_like(slope), where=slope > 0)
        direction = improved + ratio * direction
        slope = new_slope
    return solution, max_iter


# GLOCAL's steps for U, W and Z_m: each solves, or lowers, the objective in one unknown with the others fixed.


def label_step(
    design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors, tolerance: float
) -> NDArray[np.float64]:
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

    def operator(candidate: NDArray[np.float64]) -> NDArray[np.float64]:
        image: NDArray[np.float64] = np.einsum("jk,jkl->jl", candidate, hessians)
        for z, mixture in zip(correlations, mixtures, strict=True):
            image += z @ ((z.T @ candidate) @ mixture)
        return image

    def precondition(residual: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.einsum("jk,jkl->jl", residual, inverses))

    solution, _ = conjugate_gradient(
        operator, targets.transposed_times(latent), labels, precondition, tolerance=tolerance
    )
    return solution


def weight_step(
    design: Design,
    coefficients: Coefficients,
    factors: Factors,
    spectrum: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    tolerance: float,
) -> NDArray[np.float64]:
    """W: λXᵀXW + λ₅W + Σ_m (λ₂β_m XᵀX + λ₁X_mᵀX_m) W B_m = λXᵀV with B_m = UᵀZ_mZ_mᵀU, by conjugate gradients.

    With X_mᵀX_m ≈ β_m XᵀX the equation is XᵀX W S + λ₅W = R for a k×k matrix S, solved exactly in the eigenbases of
    XᵀX and S: that is the preconditioner, and the solution itself when there is one group or λ₁ = 0.
    """
    latent, labels, weights, correlations = factors
    projections = [labels.T @ z for z in correlations]
    inner = [p @ p.T for p in projections]  # B_m
    share_weighted = _weighted_sum(inner, design.shares, weights.shape[1])
    everywhere = coefficients.latent * np.eye(weights.shape[1]) + coefficients.overall * share_weighted

    def operator(candidate: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = design.gram_times(candidate)
        image = np.sum(parts, axis=0) @ everywhere + coefficients.feature_ridge * candidate
        if coefficients.local:
            for part, b in zip(parts, inner, strict=True):
                image += coefficients.local * (part @ b)
        return np.asarray(image)

    precondition = _two_sided(design, everywhere + coefficients.local * share_weighted, coefficients, spectrum)
    right = coefficients.latent * np.asarray(design.features.T @ latent)
    solution, _ = conjugate_gradient(operator, right, weights, precondition, tolerance=tolerance)
    return solution


def correlation_step(
    mixture: NDArray[np.float64],
    labels: NDArray[np.float64],
    correlation: NDArray[np.float64],
    max_iter: int,
    tolerance: float,
) -> NDArray[np.float64]:
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


def unit_rows(matrix: NDArray[np.float64], fallback: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by their length; a row of zeros, for which every direction is as good, keeps ``fallback``'s."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, None]
    if lengths.all():
        return np.asarray(matrix / lengths)
    return np.where(lengths > 0, matrix / np.where(lengths > 0, lengths, 1.0), fallback)


def _label_outers(targets: WeightedLabels, latent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ v_i v_iᵀ over the rows i that list label j, for every j, shape (c, k, k)."""
    n_labels, rank = targets.shape[1], latent.shape[1]
    order = np.argsort(targets.columns, kind="stable")
    bounds = np.searchsorted(targets.columns[order], np.arange(n_labels + 1))
    total = np.empty((n_labels, rank, rank))
    for label in range(n_labels):
        part = latent[targets.rows[order[bounds[label] : bounds[label + 1]]]]
        total[label] = part.T @ part
    return total


def _weighted_sum(matrices: Sequence[NDArray[np.float64]], weights: Sequence[float], size: int) -> NDArray[np.float64]:
    total = np.zeros((size, size))
    for matrix, weight in zip(matrices, weights, strict=True):
        total += weight * matrix
    return total


def _two_sided(
    design: Design,
    right: NDArray[np.float64],
    coefficients: Coefficients,
    spectrum: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
) -> Map:
    """Return the inverse of W ↦ XᵀX W S + λ₅W; with too many features for XᵀX, the identity over its scale."""
    if spectrum is None:
        return lambda residual: residual
    gram_values, gram_vectors = spectrum
    right_values, right_vectors = np.linalg.eigh((right + right.T) / 2)
    scale = gram_values[:, None] * right_values[None, :] + coefficients.feature_ridge
    scale = np.maximum(scale, 1e-12 * scale.max())

    def apply(residual: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(gram_vectors @ ((gram_vectors.T @ residual @ right_vectors) / scale) @ right_vectors.T)

    return apply


# GLOCAL's step for the latent labels V: a k×k ridge system for every row.


_ROWS_AT_ONCE = 4096


def latent_step(
    design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors
) -> NDArray[np.float64]:
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
    _solve_several(latent, right, shared, targets, labels, np.flatnonzero(counts > 1))
    return latent


def _solve_several(
    latent: NDArray[np.float64],
    right: NDArray[np.float64],
    shared: NDArray[np.float64],
    targets: WeightedLabels,
    labels: NDArray[np.float64],
    rows: NDArray[np.intp],
) -> None:
    """Overwrite the rows given, a batch of k×k systems at a time."""
    if not len(rows):
        return
    outer = (labels[:, :, None] * labels[:, None, :]).reshape(len(labels), -1)
    listed = targets.listed[rows]
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        own = (listed[part] @ outer).reshape(-1, *shared.shape)
        systems = shared + (1.0 - targets.weight) * own
        latent[rows[part]] = np.linalg.solve(systems, right[rows[part], :, None])[:, :, 0]


_STALL = 3  # iterations over which the objective has to change
_INNER_TOLERANCE = 1e-9


class Schedule(NamedTuple):
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
    schedule: Schedule,
    generator: np.random.Generator,
) -> tuple[Factors, History]:
    """Minimise GLOCAL's objective from U, V, Z ~ U(0, 1) and W = 0.

    Parameters
    ----------
    features : float64 array or CSR of shape (n_samples, n_features)
        X, with its column of ones if an intercept is wanted.
    targets : WeightedLabels
        Y and J.
    raw : Coefficients
        λ … λ₅ before normalisation.
    rank, correlation_rank : int
        k and k₂.
    groups : list of int arrays
        Rows of each group, disjoint and together all rows.
    """
    design = Design(features, groups)
    coefficients = normalise(raw, targets, design.n_features, rank, len(groups))
    n_labels = targets.shape[1]
    start = generator.random((n_labels, rank)), generator.random((design.n_samples, rank))
    z = tuple(generator.random((n_labels, correlation_rank)) for _ in groups)
    factors = Factors(start[1], start[0], np.zeros((design.n_features, rank)), tuple(unit_rows(m, m) for m in z))
    spectrum = None if design.gram is None else _spectrum(design.gram)
    history = History()
    correlated = bool(coefficients.local or coefficients.overall)
    bare = coefficients._replace(local=0.0, overall=0.0)
    phases = [(bare, schedule.warm_up_iter)]
    phases += [(coefficients, schedule.max_iter)] if correlated else [(bare, schedule.max_iter)]
    for phase, (current, limit) in enumerate(phases):
        values: list[float] = []
        for _ in range(limit):
            factors = _sweep(design, targets, current, factors, spectrum, schedule.correlation_iter)
            values.append(objective(design, targets, current, factors))
            history.append({"objective": values[-1], "warm_up": float(phase == 0)})
            if _stalled(values, schedule.tolerance):
                break
        converged = _stalled(values, schedule.tolerance)
        if converged and phase == 0 and not correlated:
            break
    history.facts["stopped"] = "converged" if converged else "max_iter"
    return factors, history


def _sweep(
    design: Design,
    targets: WeightedLabels,
    coefficients: Coefficients,
    factors: Factors,
    spectrum: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    correlation_iter: int,
) -> Factors:
    if coefficients.local or coefficients.overall:
        mixtures = design.mixtures(factors.weights, coefficients)
        moved = tuple(
            correlation_step(mixture, factors.labels, z, correlation_iter, 1e-6)
            for mixture, z in zip(mixtures, factors.correlations, strict=True)
        )
        factors = factors._replace(correlations=moved)
    factors = factors._replace(latent=latent_step(design, targets, coefficients, factors))
    factors = factors._replace(labels=label_step(design, targets, coefficients, factors, _INNER_TOLERANCE))
    return factors._replace(weights=weight_step(design, coefficients, factors, spectrum, _INNER_TOLERANCE))


def _stalled(values: list[float], tolerance: float) -> bool:
    return len(values) > _STALL and abs(values[-1 - _STALL] - values[-1]) <= tolerance * abs(values[-1])


def _spectrum(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values, vectors = np.linalg.eigh(gram)
    return np.maximum(values, 0.0), vectors


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
