"""D2ML's concave-convex procedure: linearise −‖XW‖_*, lower the convex rest by ADMM, repeat."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from onepos.methods._classical import Matrix, WeightedLabels, products, squared_lengths
from onepos.training import History

#: Below this part of ‖M‖ a threshold needs singular values that the Gram matrix has lost; then the SVD is taken.
_GRAM_ACCURACY = 1e-5


class Blocks(NamedTuple):
    """The rows of every observed label k: block k is ``rows[bounds[k]:bounds[k + 1]]`` of the design's rows.

    With one observed label per row ``rows`` is None: the design is sorted by label and each row is in one block.
    """

    bounds: NDArray[np.intp]
    rows: NDArray[np.intp] | None
    summing: Any = None  # 0/1 CSR matrix that sums the stacked rows back, None when ``rows`` is

    def gather(self, matrix: Matrix) -> Matrix:
        """Stack the X_k (or X_k W); a view when every row is in one block."""
        return matrix if self.rows is None else matrix[self.rows]

    def scatter(self, stacked: Matrix) -> Matrix:
        """Sum stacked rows back into the design's rows, the transpose of ``gather``."""
        return stacked if self.rows is None else np.asarray(self.summing @ stacked)


def make_blocks(observed: NDArray[np.int8]) -> tuple[NDArray[np.intp], Blocks]:
    """Return the order to sort rows into, and the blocks of the sorted rows.

    Rows with several observed labels belong to several blocks; the order is then as it was.
    """
    rows, columns = np.nonzero(observed > 0)
    by_label = np.argsort(columns, kind="stable")
    counts = np.bincount(columns, minlength=observed.shape[1])
    bounds = np.concatenate([[0], np.cumsum(counts[counts > 0])])
    if len(rows) == len(observed):
        return rows[by_label], Blocks(bounds, None)
    rows = rows[by_label]
    places = (rows, np.arange(len(rows)))
    summing = sparse.csr_array((np.ones(len(rows)), places), shape=(len(observed), len(rows)))
    return np.arange(len(observed)), Blocks(bounds, rows, summing)


def threshold_singular_values(matrix: Matrix, threshold: float) -> Matrix:
    """SVT_τ(M) = P (Σ − τ)₊ Qᵀ, which minimises τ‖Z‖_* + ½‖Z − M‖².

    Computed from the eigenvalues of the smaller of MMᵀ and MᵀM, much cheaper than an SVD when a block has a few rows
    and many columns; with a threshold too small for that, from the SVD.
    """
    if threshold <= 0.0:
        return matrix
    if threshold < _GRAM_ACCURACY * float(np.linalg.norm(matrix)):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return np.asarray((left * np.maximum(values - threshold, 0.0)) @ right)
    wide = matrix.shape[0] <= matrix.shape[1]
    squares, vectors = np.linalg.eigh(matrix @ matrix.T if wide else matrix.T @ matrix)
    kept = squares > threshold**2
    if not kept.any():
        return np.zeros_like(matrix)
    basis = vectors[:, kept]
    shrunk = basis * (1.0 - threshold / np.sqrt(squares[kept]))
    return np.asarray(shrunk @ (basis.T @ matrix) if wide else (matrix @ shrunk) @ basis.T)


def nuclear_norm(matrix: Matrix) -> float:
    """‖M‖_*, the sum of singular values, from the smaller Gram matrix; rounding noise in it counts as zero."""
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    squares = np.linalg.eigvalsh(gram)
    noise = len(gram) * np.finfo(np.float64).eps * max(float(squares[-1]), 0.0)
    return float(np.sqrt(squares[squares > noise]).sum())


def threshold_blocks(stacked: Matrix, blocks: Blocks, threshold: float) -> Matrix:
    """SVT of every block: the proximal step of τ Σ_k ‖Z_k‖_*, as blocks share no entry."""
    result = np.empty_like(stacked)
    for start, stop in pairwise(blocks.bounds):
        result[start:stop] = threshold_singular_values(stacked[start:stop], threshold)
    return result


def blocks_norm(stacked: Matrix, blocks: Blocks) -> float:
    """Σ_k ‖Z_k‖_*."""
    return sum(nuclear_norm(stacked[start:stop]) for start, stop in pairwise(blocks.bounds))


class Problem:
    """Data of one fit and what is computed once: XᵀX, its root R (RᵀR = XᵀX), Σ_k X_kᵀX_k and Xᵀ(J∘Y).

    ``ridge`` holds ε for each column of X, or one for all: 0 leaves an intercept's weights free. XᵀX + ε must be
    positive definite.
    """

    def __init__(
        self, features: Any, targets: WeightedLabels, blocks: Blocks, rank_weight: float, ridge: float | Matrix
    ) -> None:
        self.features, self.targets, self.blocks = features, targets, blocks
        self.rank_weight = rank_weight
        self.ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), features.shape[1])
        self.gram = gram_of(features)
        # One positive per row: every row is in exactly one block, and the blocks' Gram matrices sum to XᵀX.
        self.block_gram = self.gram if blocks.rows is None else gram_of(features[blocks.rows])
        values, vectors = np.linalg.eigh(self.gram)
        self.root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        self.pulled = targets.transposed_times(features).T

    def objective(self, weights: Matrix, fitted: Matrix | None = None) -> float:
        """Evaluate the whole, concave part included; it is bounded below, as Σ_k ‖X_k W‖_* ≥ ‖XW‖_*."""
        fitted = self.fitted(weights) if fitted is None else fitted
        value = self.targets.loss(fitted) + 0.5 * float(self.ridge @ np.einsum("ij,ij->i", weights, weights))
        if self.rank_weight:
            spread = float(np.linalg.svd(self.root @ weights, compute_uv=False).sum())  # ‖XW‖_* = ‖RW‖_*
            value += self.rank_weight * (blocks_norm(self.blocks.gather(fitted), self.blocks) - spread)
        return value

    def fitted(self, weights: Matrix) -> Matrix:
        """XW."""
        return np.asarray(self.features @ weights)

    def system(self, penalty: float) -> Matrix:
        """XᵀX + ρ Σ_k X_kᵀX_k + diag(ε)."""
        return np.asarray(self.gram + penalty * self.block_gram + np.diag(self.ridge))


class Bound(NamedTuple):
    """The convex bound of the objective that touches it at W_t, up to a constant.

    ½⟨W, XᵀXW⟩ + ½ Σ_j ε_j ‖w_j‖² − ⟨W, T⟩ + λ_d Σ_k ‖X_k W‖_*,  T = XᵀỸ + λ_d G_t.
    """

    problem: Problem
    linear: Matrix

    def value(self, weights: Matrix, fitted: Matrix) -> float:
        """Evaluate the bound at W, given XW."""
        problem = self.problem
        value = 0.5 * float(np.vdot(weights, problem.gram @ weights + problem.ridge[:, None] * weights))
        value -= float(np.vdot(weights, self.linear))
        if problem.rank_weight:
            value += problem.rank_weight * blocks_norm(problem.blocks.gather(fitted), problem.blocks)
        return value


def expansion_gradient(problem: Problem, weights: Matrix) -> Matrix:
    """G_t = XᵀPQᵀ for the SVD XW_t = PΣQᵀ, a subgradient of ‖XW‖_* at W_t.

    XᵀPQᵀ = Rᵀ·(the same of RW), because X = BR with BᵀB = I on the range of R: no n×c SVD is needed.
    """
    left, values, right = np.linalg.svd(problem.root @ weights, full_matrices=False)
    kept = values > 1e-10 * max(float(values[0]), 1e-300)
    return np.asarray(problem.root.T @ (left[:, kept] @ right[kept]))


def bound_at(problem: Problem, weights: Matrix) -> Bound:
    """Return the bound at W_t: −‖XW‖_* is replaced by its tangent, and a loss with J < 1 by the full square loss.

    As 0 ≤ J ≤ 1, ½ Σ J(F − Y)² ≤ ½‖F − Ỹ‖² + const with Ỹ = F_t + J∘(Y − F_t), equal at F_t. So the system matrix
    stays (1 + ρ)XᵀX + diag(ε) whatever is observed.
    """
    linear = problem.pulled
    weight = problem.targets.weight
    if weight < 1.0:
        listed = problem.targets.masked(problem.fitted(weights))
        linear = linear + (1.0 - weight) * (problem.gram @ weights - as_dense(problem.features.T @ listed))
    if problem.rank_weight:
        linear = linear + problem.rank_weight * expansion_gradient(problem, weights)
    return Bound(problem, linear)


def gram_of(features: Any) -> Matrix:
    """XᵀX of dense or CSR features."""
    return as_dense(features.T @ features)


def as_dense(matrix: Any) -> Matrix:
    """Return a product, which is sparse if both factors were, as an array."""
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


_CHECK_EVERY = 5  # ADMM iterations between evaluations of the bound

#: A bound is left for a newer one once five iterations lower it by less than this part of all it was lowered by: exact
#: minima of bounds that are about to be replaced are wasted work.
_EARLY = 0.1


class Splitting:
    """ADMM on Z_k = X_k W for one bound after another; the scaled multipliers Λ carry over as a warm start."""

    def __init__(self, problem: Problem, penalty: float) -> None:
        self.problem, self.penalty = problem, penalty
        self.factor = cho_factor(problem.system(penalty if problem.rank_weight else 0.0))
        self.multipliers: Matrix | None = None

    def minimise(self, bound: Bound, weights: Matrix, max_iter: int, early: float, enough: float) -> tuple[Matrix, int]:
        """Lower the bound from W: the best iterate met, which is never worse than the start, and the iterations.

        Stops when five iterations lower the bound by no more than ``enough`` + ``early`` · (what was reached so far).
        """
        problem = self.problem
        if not problem.rank_weight:
            return np.asarray(cho_solve(self.factor, bound.linear)), 1
        fitted = problem.fitted(weights)
        start = last = best_value = bound.value(weights, fitted)
        best = weights
        if self.multipliers is None:
            self.multipliers = np.zeros_like(problem.blocks.gather(fitted))
        for iteration in range(1, max_iter + 1):
            weights, fitted = self._iterate(bound, fitted)
            if iteration % _CHECK_EVERY and iteration < max_iter:
                continue
            value = bound.value(weights, fitted)
            if value < best_value:
                best, best_value = weights, value
            if abs(last - value) <= enough + early * (start - best_value):
                break
            last = value
        return best, iteration

    def _iterate(self, bound: Bound, fitted: Matrix) -> tuple[Matrix, Matrix]:
        """Z_k ← SVT(X_kW + Λ_k), W ← solve, Λ_k ← Λ_k + X_kW − Z_k, with ``multipliers`` as Λ."""
        problem, blocks = self.problem, self.problem.blocks
        assert self.multipliers is not None
        self.multipliers += blocks.gather(fitted)
        split = threshold_blocks(self.multipliers, blocks, problem.rank_weight / self.penalty)
        self.multipliers -= split  # Λ of this iteration: the last one's plus X_kW − Z_k
        split -= self.multipliers
        back = np.asarray(problem.features.T @ blocks.scatter(split))
        weights = np.asarray(cho_solve(self.factor, bound.linear + self.penalty * back))
        return weights, problem.fitted(weights)


def fit_d2ml(
    problem: Problem, *, max_iter: int, inner_iter: int, penalty: float, tolerance: float
) -> tuple[Matrix, History]:
    """Run the procedure from ridge regression; the objective never rises. Weights are (n_features, n_labels).

    Stops when a step lowers the objective by no more than ``tolerance`` times all that it was lowered by: the part of
    the objective that no weights can remove says nothing about progress.
    """
    history = History()
    splitting = Splitting(problem, penalty)
    weights = np.asarray(cho_solve(cho_factor(problem.system(0.0)), problem.pulled))
    first = value = problem.objective(weights)
    history.append({"objective": value, "inner_iterations": 0.0})
    stopped = "max_iter"
    for _ in range(max_iter):
        enough = tolerance * (first - value)
        moved, inner = splitting.minimise(bound_at(problem, weights), weights, inner_iter, _EARLY, enough)
        new_value = problem.objective(moved)
        change = value - new_value
        if change > 0.0:
            weights, value = moved, new_value
        history.append({"objective": value, "inner_iterations": float(inner)})
        if change <= tolerance * (first - value):
            stopped = "converged"
            break
    history.facts["stopped"] = stopped
    return weights, history


#: ε is sought between these parts of the centred features' mean squared column length, four values per decade.
_LOWEST, _HIGHEST, _PER_DECADE = 1e-4, 1e3, 4


def cross_validated_ridge(features: Any, positive: NDArray[np.bool_]) -> float:
    """Return the ε that minimises GCV(ε) = RSS(ε) / (1 − df(ε)/n)² for targets ±1 and free intercepts.

    With H the smoother of ridge regression, df = tr H; GCV is the mean squared leave-one-out error with all leverages
    set to their mean (Golub, Heath, Wahba 1979). Everything comes from the eigenvalues of the centred XᵀX, so all ε
    together cost no more than one. No row needs to be held out, which matters where a row shows one label.
    """
    n = features.shape[0]
    mean = np.asarray(features.mean(axis=0)).ravel()
    rate = positive.mean(axis=0)
    gram = gram_of(features)
    values, vectors = np.linalg.eigh(gram - n * np.outer(mean, mean))
    values = np.maximum(values, 0.0)
    pulled = as_dense(features.T @ sparse.csr_array(positive, dtype=np.float64)) - n * np.outer(mean, rate)
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


#: Rows of a kernel that are computed at once.
CHUNK = 4096


class FeatureMap(NamedTuple):
    """φ(x) = k(x, landmarks) · projection, so that φ(x)·φ(x') = k(x, x') on the landmarks' span.

    K = k(landmarks, landmarks) = EΓEᵀ and projection = EΓ^{-1/2}.
    """

    landmarks: Any
    projection: Matrix
    gamma: float

    def __call__(self, features: Any) -> Matrix:
        """φ of every row, shape (n_samples, rank)."""
        return kernel_product(features, self.landmarks, self.gamma, self.projection)


def rbf(left: Any, right: Any, gamma: float) -> Matrix:
    """k(x, x') = exp(−γ‖x − x'‖²), shape (n_left, n_right)."""
    squared = squared_lengths(left)[:, None] + squared_lengths(right)[None, :] - 2.0 * products(left, right)
    return np.asarray(np.exp(-gamma * np.maximum(squared, 0.0)))


def kernel_product(features: Any, landmarks: Any, gamma: float, matrix: Matrix) -> Matrix:
    """k(features, landmarks) · matrix, a part of the rows at a time."""
    product = np.empty((features.shape[0], matrix.shape[1]))
    for start in range(0, len(product), CHUNK):
        part = slice(start, start + CHUNK)
        product[part] = rbf(features[part], landmarks, gamma) @ matrix
    return product


def make_feature_map(features: Any, gamma: float, n_landmarks: int, generator: np.random.Generator) -> FeatureMap:
    """Choose landmarks, all rows if there are no more than ``n_landmarks``, else that many at random."""
    n = features.shape[0]
    chosen = np.arange(n) if n <= n_landmarks else np.sort(generator.choice(n, n_landmarks, replace=False))
    landmarks = features[chosen]
    values, vectors = np.linalg.eigh(rbf(landmarks, landmarks, gamma))
    kept = values > 1e-10 * values[-1]
    return FeatureMap(landmarks, vectors[:, kept] / np.sqrt(values[kept]), gamma)


def default_gamma(features: Any) -> float:
    """Return 1 / (q · variance of all entries), scikit-learn's "scale"."""
    n_entries = features.shape[0] * features.shape[1]
    mean = float(features.sum(dtype=np.float64)) / n_entries
    variance = float(squared_lengths(features).sum()) / n_entries - mean**2
    return 1.0 / (features.shape[1] * variance) if variance > 0 else 1.0
