"""D2ML's concave-convex procedure: linearise −‖XW‖_*, solve the convex rest by ADMM, repeat.

Objective ½ Σ J∘(XW − Y)² + λ_d (Σ_k ‖X_k W‖_* − ‖XW‖_*) + ½ε‖W‖².
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from onepos.methods._d2ml_prox import Blocks, blocks_norm, threshold_blocks
from onepos.methods._weighted_labels import WeightedLabels
from onepos.training import History

_CHECK_EVERY = 5  # ADMM iterations between evaluations of the bound


class Problem:
    """Data of one fit and what is computed once: XᵀX, its root R (RᵀR = XᵀX), Σ_k X_kᵀX_k and Xᵀ(J∘Y)."""

    def __init__(
        self, features: Any, targets: WeightedLabels, blocks: Blocks, rank_weight: float, ridge: float
    ) -> None:
        self.features, self.targets, self.blocks = features, targets, blocks
        self.rank_weight, self.ridge = rank_weight, ridge
        self.gram = _gram(features)
        # One positive per row: every row is in exactly one block, and the blocks' Gram matrices sum to XᵀX.
        self.block_gram = self.gram if blocks.rows is None else _gram(features[blocks.rows])
        values, vectors = np.linalg.eigh(self.gram)
        self.root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        self.pulled = targets.transposed_times(features).T

    def objective(self, weights: NDArray[np.float64]) -> float:
        """Evaluate the whole, concave part included; it is bounded below, as Σ_k ‖X_k W‖_* ≥ ‖XW‖_*."""
        fitted = self.fitted(weights)
        value = self.targets.loss(fitted) + 0.5 * self.ridge * float(np.vdot(weights, weights))
        if self.rank_weight:
            spread = float(np.linalg.svd(self.root @ weights, compute_uv=False).sum())  # ‖XW‖_* = ‖RW‖_*
            value += self.rank_weight * (blocks_norm(self.blocks.gather(fitted), self.blocks) - spread)
        return value

    def fitted(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """XW."""
        return np.asarray(self.features @ weights)


class Bound(NamedTuple):
    """The convex bound of the objective that touches it at W_t, up to a constant.

    ½⟨W, XᵀXW⟩ + ½ε‖W‖² − ⟨W, T⟩ + λ_d Σ_k ‖X_k W‖_*,  T = XᵀỸ + λ_d G_t.
    """

    problem: Problem
    linear: NDArray[np.float64]

    def value(self, weights: NDArray[np.float64], fitted: NDArray[np.float64]) -> float:
        """Evaluate the bound at W, given XW."""
        problem = self.problem
        value = 0.5 * float(np.vdot(weights, problem.gram @ weights + problem.ridge * weights))
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
    stays (1 + ρ)XᵀX + εI whatever is observed.
    """
    linear = problem.pulled
    weight = problem.targets.weight
    if weight < 1.0:
        listed = problem.targets.masked(problem.fitted(weights))
        linear = linear + (1.0 - weight) * (problem.gram @ weights - _dense(problem.features.T @ listed))
    if problem.rank_weight:
        linear = linear + problem.rank_weight * expansion_gradient(problem, weights)
    return Bound(problem, linear)


class Splitting:
    """ADMM on Z_k = X_k W for one bound after another; the scaled multipliers Λ carry over as a warm start."""

    def __init__(self, problem: Problem, penalty: float) -> None:
        self.problem, self.penalty = problem, penalty
        n_features = problem.gram.shape[0]
        system = problem.gram + penalty * problem.block_gram + problem.ridge * np.eye(n_features)
        self.factor = cho_factor(system)
        self.multipliers: NDArray[np.float64] | None = None

    def minimise(
        self, bound: Bound, weights: NDArray[np.float64], max_iter: int, tolerance: float
    ) -> tuple[NDArray[np.float64], int]:
        """Lower the bound from W: the best iterate met, which is never worse than the start."""
        problem = self.problem
        if not problem.rank_weight:
            plain = problem.gram + problem.ridge * np.eye(len(problem.gram))
            return np.asarray(cho_solve(cho_factor(plain), bound.linear)), 1
        fitted = problem.fitted(weights)
        best, best_value = weights, bound.value(weights, fitted)
        if self.multipliers is None:
            self.multipliers = np.zeros_like(problem.blocks.gather(fitted))
        last = best_value
        for iteration in range(1, max_iter + 1):
            weights, fitted = self._iterate(bound, fitted)
            if iteration % _CHECK_EVERY and iteration < max_iter:
                continue
            value = bound.value(weights, fitted)
            if value < best_value:
                best, best_value = weights, value
            if abs(last - value) <= tolerance * abs(value):
                break
            last = value
        return best, iteration

    def _iterate(self, bound: Bound, fitted: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Z_k ← SVT(X_kW + Λ_k), W ← solve, Λ_k ← Λ_k + X_kW − Z_k, with ``multipliers`` as Λ."""
        problem, blocks = self.problem, self.problem.blocks
        assert self.multipliers is not None
        self.multipliers += blocks.gather(fitted)
        split = threshold_blocks(self.multipliers, blocks, problem.rank_weight / self.penalty)
        self.multipliers -= split  # Λ of this iteration: the last one's plus X_kW − Z_k
        split -= self.multipliers
        back = np.asarray(problem.features.T @ blocks.scatter(split, problem.features.shape[0]))
        weights = np.asarray(cho_solve(self.factor, bound.linear + self.penalty * back))
        return weights, problem.fitted(weights)


def fit_d2ml(
    problem: Problem, *, max_iter: int, inner_iter: int, penalty: float, tolerance: float
) -> tuple[NDArray[np.float64], History]:
    """Run the procedure from ridge regression; the objective never rises. Weights are (n_features, n_labels)."""
    history = History()
    splitting = Splitting(problem, penalty)
    start = problem.gram + problem.ridge * np.eye(len(problem.gram))
    weights = np.asarray(cho_solve(cho_factor(start), problem.pulled))
    value = problem.objective(weights)
    history.append({"objective": value, "inner_iterations": 0.0})
    stopped = "max_iter"
    for _ in range(max_iter):
        moved, inner = splitting.minimise(bound_at(problem, weights), weights, inner_iter, 0.1 * tolerance)
        new_value = problem.objective(moved)
        if new_value <= value:
            weights, change, value = moved, value - new_value, new_value
        else:  # the bound fell by less than rounding
            change = 0.0
        history.append({"objective": value, "inner_iterations": float(inner)})
        if change <= tolerance * abs(value):
            stopped = "converged"
            break
    history.facts["stopped"] = stopped
    return weights, history


def _gram(features: Any) -> NDArray[np.float64]:
    return _dense(features.T @ features)


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
