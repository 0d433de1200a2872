"""D2ML's objective and the convex bound of it that the concave-convex procedure lowers.

Objective ½ Σ J∘(XW − Y)² + λ_d (Σ_k ‖X_k W‖_* − ‖XW‖_*) + ½ Σ_j ε_j ‖w_j‖², w_j the rows of W.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos.methods._d2ml_prox import Blocks, blocks_norm
from onepos.methods._weighted_labels import WeightedLabels


class Problem:
    """Data of one fit and what is computed once: XᵀX, its root R (RᵀR = XᵀX), Σ_k X_kᵀX_k and Xᵀ(J∘Y).

    ``ridge`` holds ε for each column of X, or one for all: 0 leaves an intercept's weights free. XᵀX + ε must be
    positive definite.
    """

    def __init__(
        self,
        features: Any,
        targets: WeightedLabels,
        blocks: Blocks,
        rank_weight: float,
        ridge: float | NDArray[np.float64],
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

    def objective(self, weights: NDArray[np.float64], fitted: NDArray[np.float64] | None = None) -> float:
        """Evaluate the whole, concave part included; it is bounded below, as Σ_k ‖X_k W‖_* ≥ ‖XW‖_*."""
        fitted = self.fitted(weights) if fitted is None else fitted
        value = self.targets.loss(fitted) + 0.5 * float(self.ridge @ np.einsum("ij,ij->i", weights, weights))
        if self.rank_weight:
            spread = float(np.linalg.svd(self.root @ weights, compute_uv=False).sum())  # ‖XW‖_* = ‖RW‖_*
            value += self.rank_weight * (blocks_norm(self.blocks.gather(fitted), self.blocks) - spread)
        return value

    def fitted(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """XW."""
        return np.asarray(self.features @ weights)

    def system(self, penalty: float) -> NDArray[np.float64]:
        """XᵀX + ρ Σ_k X_kᵀX_k + diag(ε)."""
        return np.asarray(self.gram + penalty * self.block_gram + np.diag(self.ridge))


class Bound(NamedTuple):
    """The convex bound of the objective that touches it at W_t, up to a constant.

    ½⟨W, XᵀXW⟩ + ½ Σ_j ε_j ‖w_j‖² − ⟨W, T⟩ + λ_d Σ_k ‖X_k W‖_*,  T = XᵀỸ + λ_d G_t.
    """

    problem: Problem
    linear: NDArray[np.float64]

    def value(self, weights: NDArray[np.float64], fitted: NDArray[np.float64]) -> float:
        """Evaluate the bound at W, given XW."""
        problem = self.problem
        value = 0.5 * float(np.vdot(weights, problem.gram @ weights + problem.ridge[:, None] * weights))
        value -= float(np.vdot(weights, self.linear))
        if problem.rank_weight:
            value += problem.rank_weight * blocks_norm(problem.blocks.gather(fitted), problem.blocks)
        return value


def expansion_gradient(problem: Problem, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """G_t = XᵀPQᵀ for the SVD XW_t = PΣQᵀ, a subgradient of ‖XW‖_* at W_t.

    XᵀPQᵀ = Rᵀ·(the same of RW), because X = BR with BᵀB = I on the range of R: no n×c SVD is needed.
    """
    left, values, right = np.linalg.svd(problem.root @ weights, full_matrices=False)
    kept = values > 1e-10 * max(float(values[0]), 1e-300)
    return np.asarray(problem.root.T @ (left[:, kept] @ right[kept]))


def bound_at(problem: Problem, weights: NDArray[np.float64]) -> Bound:
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


def gram_of(features: Any) -> NDArray[np.float64]:
    """XᵀX of dense or CSR features."""
    return as_dense(features.T @ features)


def as_dense(matrix: Any) -> NDArray[np.float64]:
    """Return a product, which is sparse if both factors were, as an array."""
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
