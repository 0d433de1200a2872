"""The solver of ``logistic``: penalised softmax regression by L-BFGS, along a path of penalties from strong to weak.

The inverse of the diagonal of the Hessian at the constant model is L-BFGS's first guess of the inverse Hessian. Columns
of different spread and labels of different frequency are then no harder than equal ones, and a penalty that is a third
of the one before takes a few iterations. The logits of a point on the search line are those of its ends, interpolated,
so that an iteration takes two products with the features however many steps its line search tries. scipy's L-BFGS-B,
which cannot use either, takes 1.5 to 4 times as long.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_softmax, logsumexp

from onepos._utils.context import time_left
from onepos._utils.validation import csr

#: What a step promises per row when a strength is solved: well enough to choose between strengths, and to keep.
PATH_TOLERANCE, _FINAL_TOLERANCE = 3e-4, 3e-6
#: Pairs of steps and changes of the gradient that L-BFGS remembers.
_MEMORY = 8
#: What a step must gain, as a part of what the slope promises, and what rounding of a sum of logits may hide.
_SUFFICIENT, _ROUNDING = 1e-4, 1e-8


class PathPoint(NamedTuple):
    """Weights (q+1, c) with the intercept last, their strength, iterations it took."""

    weights: NDArray[Any]
    l2: float
    n_iter: int


class SoftmaxProblem:
    """min over W, b of Σ_i CE(softmax(x_i W + b), t_i) + ½·l2·‖W‖², for a series of ``l2``.

    The targets of a row sum to one. Labels that no row has take no part; ``complete`` adds them. Weights have the
    precision of the features.
    """

    def __init__(self, features: Any, targets: Any) -> None:
        self.features, targets = features, csr(targets)
        counts = np.asarray(targets.sum(axis=0))
        #: Labels that some row has, (c,).
        self.seen: NDArray[np.bool_] = counts > 0
        seen = targets[:, self.seen].tocoo()
        self._places = seen.row.astype(np.intp) * seen.shape[1] + seen.col
        self._shares = seen.data
        rate = (counts[self.seen] + 0.5) / (targets.shape[0] + 1.0)
        self._intercepts = np.log(rate / rate.sum())
        #: Second derivative by each label's logit at the constant model, mean over rows, shape (c,).
        self.curvature: NDArray[np.float64] = rate * (1.0 - rate)
        # Rows of the transpose are what its products run along.
        self._turned = sparse.csr_array(features.T) if sparse.issparse(features) else features.T
        squares = features.multiply(features) if sparse.issparse(features) else np.square(features)
        self.squares = np.asarray(squares.sum(axis=0, dtype=np.float64)).ravel()

    def constant_model(self) -> NDArray[Any]:
        """Weights (q+1, c) of the model without features."""
        weights = np.zeros((self.features.shape[1] + 1, len(self._intercepts)), dtype=self.features.dtype)
        weights[-1] = self._intercepts
        return weights

    def solve(self, l2: float, start: NDArray[Any], max_iter: int, tolerance: float = _FINAL_TOLERANCE) -> PathPoint:
        """Weights from ``start`` until a step promises less than ``tolerance`` per row, or the time is up."""
        n_rows = self.features.shape[0]
        diagonal = np.vstack([np.outer(self.squares, self.curvature) + l2, n_rows * self.curvature])
        memory = _Memory((1.0 / np.maximum(diagonal, 1e-12)).astype(start.dtype))
        weights, logits = start, linear_logits(self.features, start)
        value, probabilities = self._value(weights, logits, l2)
        gradient = self._gradient(weights, probabilities, l2)
        for n_iter in range(max_iter):
            direction = memory.direction(gradient)
            slope = float(np.vdot(gradient, direction))
            if -slope <= tolerance * n_rows or time_left() <= 0:
                return PathPoint(weights, l2, n_iter)
            along = linear_logits(self.features, direction)
            step = 1.0
            while True:
                new = weights + weights.dtype.type(step) * direction
                new_logits = along * logits.dtype.type(step) + logits
                new_value, probabilities = self._value(new, new_logits, l2)
                if new_value <= value + _SUFFICIENT * step * slope + _ROUNDING * abs(value):
                    break
                step *= 0.5
                if step < 1e-10:  # rounding is all that is left to gain
                    return PathPoint(weights, l2, n_iter)
            new_gradient = self._gradient(new, probabilities, l2)
            memory.add(new - weights, new_gradient - gradient)
            weights, logits, value, gradient = new, new_logits, new_value, new_gradient
        return PathPoint(weights, l2, max_iter)

    def loss(self, logits: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        """Sum of the cross-entropies of all rows, and the probabilities."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        likely = float(shifted.reshape(-1)[self._places].astype(np.float64) @ self._shares)
        probabilities = np.exp(shifted, out=shifted)
        total = probabilities.sum(axis=1, keepdims=True)
        probabilities /= total
        return float(np.log(total, dtype=np.float64).sum() - likely), probabilities

    def residual(self, probabilities: NDArray[Any]) -> NDArray[Any]:
        """Derivative of the loss by the logits, in place of ``probabilities``."""
        probabilities.reshape(-1)[self._places] -= self._shares.astype(probabilities.dtype)
        return probabilities

    def _value(self, weights: NDArray[Any], logits: NDArray[Any], l2: float) -> tuple[float, NDArray[Any]]:
        loss, probabilities = self.loss(logits)
        return loss + 0.5 * l2 * float(np.vdot(weights[:-1], weights[:-1])), probabilities

    def _gradient(self, weights: NDArray[Any], probabilities: NDArray[Any], l2: float) -> NDArray[Any]:
        residual = self.residual(probabilities)
        gradient = np.empty_like(weights)
        gradient[:-1] = self._turned @ residual
        gradient[:-1] += weights.dtype.type(l2) * weights[:-1]
        gradient[-1] = residual.sum(axis=0)
        return gradient

    def complete(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Weights for all labels: one that was never seen has the same logit everywhere, and half a row's worth."""
        if self.seen.all():
            return weights
        # Mean over rows of exp(b − logsumexp(z_i)), the label's probability as it is small: ½/n.
        normaliser = logsumexp(linear_logits(self.features, weights).astype(np.float64), axis=1)
        whole = np.zeros((len(weights), len(self.seen)), dtype=weights.dtype)
        whole[-1] = np.log(0.5) - logsumexp(-normaliser)
        whole[:, self.seen] = weights
        return whole

    def log_likelihoods(self, weights: NDArray[Any], features: Any, targets: Any) -> NDArray[np.float64]:
        """Log-likelihood of every row of other features and targets."""
        log_p = log_softmax(linear_logits(features, self.complete(weights)).astype(np.float64), axis=1)
        return np.asarray(targets.multiply(log_p).sum(axis=1))


class _Memory:
    """L-BFGS's approximation of the inverse Hessian: a diagonal and the last few steps."""

    def __init__(self, inverse: NDArray[Any]) -> None:
        self._inverse = inverse
        self._pairs: list[tuple[NDArray[Any], NDArray[Any], float]] = []

    def add(self, step: NDArray[Any], change: NDArray[Any]) -> None:
        """Remember a step and the change of the gradient along it."""
        product = float(np.vdot(step, change))
        if product > 0:  # convex: what is not is rounding
            self._pairs = [*self._pairs[1 - _MEMORY :], (step, change, product)]

    def direction(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Minus the approximate inverse Hessian times ``gradient``: the two-loop recursion."""
        result: NDArray[Any] = -gradient
        kind = gradient.dtype.type
        shares = []
        for step, change, product in reversed(self._pairs):
            shares.append(float(np.vdot(step, result)) / product)
            result -= kind(shares[-1]) * change
        result *= self._inverse
        if self._pairs:
            _, change, product = self._pairs[-1]
            result *= kind(product / float(np.vdot(change, self._inverse * change)))
        for step, change, product in self._pairs:
            result += kind(shares.pop() - float(np.vdot(change, result)) / product) * step
        return result


def linear_logits(features: Any, weights: NDArray[Any]) -> NDArray[Any]:
    """XW + b for weights (q+1, c) with the intercept last."""
    logits: NDArray[Any] = np.asarray(features @ weights[:-1])
    logits += weights[-1]
    return logits
