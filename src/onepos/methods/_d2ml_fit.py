"""D2ML's concave-convex procedure: linearise −‖XW‖_*, lower the convex rest by ADMM, repeat."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from onepos.methods._d2ml_problem import Bound, Problem, bound_at
from onepos.methods._d2ml_prox import threshold_blocks
from onepos.training import History

_CHECK_EVERY = 5  # ADMM iterations between evaluations of the bound

#: A bound is left for a newer one once five iterations lower it by less than this part of all it was lowered by: exact
#: minima of bounds that are about to be replaced are wasted work.
_EARLY = 0.1


class Splitting:
    """ADMM on Z_k = X_k W for one bound after another; the scaled multipliers Λ carry over as a warm start."""

    def __init__(self, problem: Problem, penalty: float) -> None:
        self.problem, self.penalty = problem, penalty
        self.factor = cho_factor(problem.system(penalty if problem.rank_weight else 0.0))
        self.multipliers: NDArray[np.float64] | None = None

    def minimise(
        self, bound: Bound, weights: NDArray[np.float64], max_iter: int, early: float, enough: float
    ) -> tuple[NDArray[np.float64], int]:
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

    def _iterate(self, bound: Bound, fitted: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
) -> tuple[NDArray[np.float64], History]:
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
