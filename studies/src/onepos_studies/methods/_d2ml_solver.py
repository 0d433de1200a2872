"""D2ML's concave-convex procedure: linearise −‖XW‖_*, lower the convex rest by ADMM, repeat."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import rbf_kernel

from onepos._utils.validation import to_dense
from onepos.training import History
from onepos_studies.methods._classical import Matrix, WeightedLabels

#: Below this part of ‖M‖ a threshold needs singular values that the Gram matrix has lost; then the SVD is taken.
_GRAM_ACCURACY = 1e-5
_PENALTY = 1.0  # ρ of ADMM
_CHECK_EVERY = 5  # ADMM iterations between evaluations of the bound
#: A bound is left for a newer one once five iterations lower it by less than this part of all it was lowered by: exact
#: minima of bounds that are about to be replaced are wasted work.
_EARLY = 0.1
#: ε is sought between these parts of the centred features' mean squared column length, four values per decade.
_LOWEST, _HIGHEST, _PER_DECADE = 1e-4, 1e3, 4
#: Rows of a kernel that are computed at once.
_CHUNK = 4096


def threshold_singular_values(matrix: Matrix, threshold: float) -> Matrix:
    """SVT_τ(M) = P (Σ − τ)₊ Qᵀ, from eigenvalues of the smaller of MMᵀ and MᵀM: half the time of an SVD."""
    if threshold < _GRAM_ACCURACY * float(np.linalg.norm(matrix)):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return np.asarray((left * np.maximum(values - threshold, 0.0)) @ right)
    wide = matrix.shape[0] <= matrix.shape[1]
    squares, vectors = np.linalg.eigh(matrix @ matrix.T if wide else matrix.T @ matrix)
    kept = squares > threshold**2
    basis = vectors[:, kept]
    shrunk = basis * (1.0 - threshold / np.sqrt(squares[kept]))
    return np.asarray(shrunk @ (basis.T @ matrix) if wide else (matrix @ shrunk) @ basis.T)


class Problem:
    """The data of one fit, and what is computed once: XᵀX, its root R (RᵀR = XᵀX), Σ_k X_kᵀX_k and XᵀY.

    ``ridge`` is ε of all columns of X, or of each; XᵀX + ε must be positive definite. Stacked rows are those of block
    after block; block k has the rows with observed label k.
    """

    def __init__(self, features: Any, observed: NDArray[np.int8], rank_weight: float, ridge: Any) -> None:
        self.features, self.rank_weight = features, rank_weight
        self.targets = WeightedLabels.from_observed(observed, 1.0)
        self.ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), features.shape[1])
        labels, self.rows = np.nonzero(observed.T > 0)
        self.bounds = [*np.flatnonzero(np.diff(labels, prepend=-1)), len(labels)]
        places = (self.rows, np.arange(len(labels)))
        self._summing = sparse.csr_array((np.ones(len(labels)), places), shape=(len(observed), len(labels)))
        self.gram, self.block_gram = gram_of(features), gram_of(features[self.rows])
        values, vectors = np.linalg.eigh(self.gram)
        self.root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        self.pulled = self.targets.transposed_times(features).T

    def scatter(self, stacked: Matrix) -> Matrix:
        """Sum stacked rows back into rows, the transpose of ``matrix[rows]``."""
        return np.asarray(self._summing @ stacked)

    def blocks_norm(self, fitted: Matrix) -> float:
        """Σ_k ‖X_k W‖_*, given XW."""
        stacked = fitted[self.rows]
        return sum(float(np.linalg.norm(stacked[start:stop], "nuc")) for start, stop in pairwise(self.bounds))

    def threshold_blocks(self, stacked: Matrix, threshold: float) -> Matrix:
        """SVT of every block: the proximal step of τ Σ_k ‖Z_k‖_*."""
        parts = [stacked[start:stop] for start, stop in pairwise(self.bounds)]
        return np.concatenate([threshold_singular_values(part, threshold) for part in parts])

    def objective(self, weights: Matrix) -> float:
        """Evaluate the whole, concave part included; it is bounded below, as Σ_k ‖X_k W‖_* ≥ ‖XW‖_*."""
        fitted = np.asarray(self.features @ weights)
        value = self.targets.loss(fitted) + 0.5 * float(self.ridge @ np.einsum("ij,ij->i", weights, weights))
        if self.rank_weight:
            spread = float(np.linalg.norm(self.root @ weights, "nuc"))  # ‖XW‖_* = ‖RW‖_*
            value += self.rank_weight * (self.blocks_norm(fitted) - spread)
        return value

    def system(self, penalty: float) -> Matrix:
        """XᵀX + ρ Σ_k X_kᵀX_k + diag(ε)."""
        return np.asarray(self.gram + penalty * self.block_gram + np.diag(self.ridge))

    def expansion_gradient(self, weights: Matrix) -> Matrix:
        """G_t = XᵀPQᵀ for the SVD XW_t = PΣQᵀ, a subgradient of ‖XW‖_* at W_t.

        XᵀPQᵀ = Rᵀ·(the same of RW), because X = BR with BᵀB = I on the range of R: no n×c SVD is needed.
        """
        left, values, right = np.linalg.svd(self.root @ weights, full_matrices=False)
        kept = values > 1e-10 * max(float(values[0]), 1e-300)
        return np.asarray(self.root.T @ (left[:, kept] @ right[kept]))

    def bound_at(self, weights: Matrix) -> Matrix:
        """Return T = XᵀY + λ_d G_t, the linear part of the convex bound that touches the objective at W_t.

        The bound replaces −‖XW‖_* by its tangent.
        """
        if not self.rank_weight:
            return self.pulled
        return self.pulled + self.rank_weight * self.expansion_gradient(weights)

    def bound(self, linear: Matrix, weights: Matrix, fitted: Matrix) -> float:
        """½⟨W, XᵀXW⟩ + ½ Σ_j ε_j ‖w_j‖² − ⟨W, T⟩ + λ_d Σ_k ‖X_k W‖_*, given T and XW."""
        value = 0.5 * float(np.vdot(weights, self.gram @ weights + self.ridge[:, None] * weights))
        return value - float(np.vdot(weights, linear)) + self.rank_weight * self.blocks_norm(fitted)


def gram_of(features: Any) -> Matrix:
    """XᵀX of dense or CSR features."""
    return to_dense(features.T @ features)


class Splitting:
    """ADMM on Z_k = X_k W for one bound after another; the scaled multipliers Λ carry over as a warm start."""

    def __init__(self, problem: Problem, penalty: float) -> None:
        self.problem, self.penalty = problem, penalty
        self.factor = cho_factor(problem.system(penalty if problem.rank_weight else 0.0))
        self.multipliers = np.zeros((len(problem.rows), problem.targets.shape[1]))

    def minimise(
        self, linear: Matrix, weights: Matrix, max_iter: int, early: float, enough: float
    ) -> tuple[Matrix, int]:
        """Lower the bound with T = ``linear`` from W until 5 iterations gain at most ``enough`` + ``early`` · gain."""
        problem = self.problem
        if not problem.rank_weight:
            return np.asarray(cho_solve(self.factor, linear)), 1
        fitted = np.asarray(problem.features @ weights)
        start = last = best_value = problem.bound(linear, weights, fitted)
        best = weights
        for iteration in range(1, max_iter + 1):
            self.multipliers += fitted[problem.rows]
            split = problem.threshold_blocks(self.multipliers, problem.rank_weight / self.penalty)
            self.multipliers -= split  # Λ of this iteration: the last one's plus X_kW − Z_k
            back = np.asarray(problem.features.T @ problem.scatter(split - self.multipliers))
            weights = np.asarray(cho_solve(self.factor, linear + self.penalty * back))
            fitted = np.asarray(problem.features @ weights)
            if iteration % _CHECK_EVERY and iteration < max_iter:
                continue
            value = problem.bound(linear, weights, fitted)
            if value < best_value:
                best, best_value = weights, value
            if abs(last - value) <= enough + early * (start - best_value):
                break
            last = value
        return best, iteration


def fit_d2ml(problem: Problem, *, max_iter: int, inner_iter: int, tolerance: float) -> tuple[Matrix, History]:
    """Run the procedure from ridge regression until a step gains at most ``tolerance`` times all that was gained."""
    history = History()
    splitting = Splitting(problem, _PENALTY)
    weights = np.asarray(cho_solve(cho_factor(problem.system(0.0)), problem.pulled))
    first = value = problem.objective(weights)
    history.append({"objective": value, "inner_iterations": 0.0})
    history.facts["stopped"] = "max_iter"
    for _ in range(max_iter):
        enough = tolerance * (first - value)
        moved, inner = splitting.minimise(problem.bound_at(weights), weights, inner_iter, _EARLY, enough)
        new_value = problem.objective(moved)
        change = value - new_value
        if change > 0.0:
            weights, value = moved, new_value
        history.append({"objective": value, "inner_iterations": float(inner)})
        if change <= tolerance * (first - value):
            history.facts["stopped"] = "converged"
            break
    return weights, history


def cross_validated_ridge(features: Any, positive: NDArray[np.bool_]) -> float:
    """Return the ε that minimises GCV(ε) = RSS(ε) / (1 − df(ε)/n)² for targets ±1 and free intercepts.

    df is the trace of the smoother of ridge regression (Golub, Heath, Wahba 1979). All ε share one eigendecomposition.
    """
    n = features.shape[0]
    mean = np.asarray(features.mean(axis=0)).ravel()
    rate = positive.mean(axis=0)
    gram = gram_of(features)
    values, vectors = np.linalg.eigh(gram - n * np.outer(mean, mean))
    values = np.maximum(values, 0.0)
    pulled = to_dense(features.T @ sparse.csr_array(positive, dtype=np.float64)) - n * np.outer(mean, rate)
    power = 4.0 * ((vectors.T @ pulled) ** 2).sum(axis=1)  # Σ over labels of (v_jᵀXᵀY)², Y = ±1 centred
    total = 4.0 * n * float((rate * (1.0 - rate)).sum())
    unit = float(values.mean())
    if unit <= 1e-12 * np.trace(gram):  # constant features, up to rounding: nothing to shrink
        return 1.0
    decades = np.log10(_HIGHEST / _LOWEST)
    candidates = unit * _LOWEST * 10.0 ** np.linspace(0.0, decades, round(decades * _PER_DECADE) + 1)
    scores = []
    for ridge in candidates:
        residual = total - float((power * (values + 2.0 * ridge) / (values + ridge) ** 2).sum())
        freedom = 1.0 + float((values / (values + ridge)).sum())  # the intercept is one degree of freedom
        scores.append(residual / max(1.0 - freedom / n, 1e-12) ** 2)
    return float(candidates[int(np.argmin(scores))])


def kernel_product(features: Any, landmarks: Any, gamma: float, matrix: Matrix) -> Matrix:
    """k(features, landmarks) · matrix with k(x, x') = exp(−γ‖x − x'‖²), some rows at a time."""
    wide = landmarks.astype(np.float64)
    parts = (features[start : start + _CHUNK].astype(np.float64) for start in range(0, features.shape[0], _CHUNK))
    return np.concatenate([rbf_kernel(part, wide, gamma) @ matrix for part in parts])


def choose_landmarks(features: Any, gamma: float, most: int, generator: np.random.Generator) -> tuple[Any, Matrix]:
    """Return landmarks, all rows or ``most`` random ones, and P = EΓ^{-1/2} of k(landmarks, landmarks) = EΓEᵀ."""
    n = features.shape[0]
    chosen = np.arange(n) if n <= most else np.sort(generator.choice(n, most, replace=False))
    landmarks = features[chosen]
    values, vectors = np.linalg.eigh(rbf_kernel(landmarks.astype(np.float64), gamma=gamma))
    kept = values > 1e-10 * values[-1]
    return landmarks, vectors[:, kept] / np.sqrt(values[kept])


def default_gamma(features: Any) -> float:
    """Return 1 / (q · variance of all entries), scikit-learn's "scale"."""
    n_entries = features.shape[0] * features.shape[1]
    stored = (features.data if sparse.issparse(features) else features).astype(np.float64)
    variance = float((stored * stored).sum() / n_entries - (stored.sum() / n_entries) ** 2)
    return 1.0 / (features.shape[1] * variance) if variance > 0 else 1.0
