"""Penalised linear models by L-BFGS, along a path of penalties from strong to weak: one solver for two losses.

The inverse of the diagonal of the Hessian at the constant model is L-BFGS's first guess of the inverse Hessian. Columns
of different spread and labels of different frequency are then no harder than equal ones, and a penalty that is a third
of the one before takes a few iterations. The logits of a point on the search line are those of its ends, interpolated,
so that an iteration takes two products with the features however many steps its line search tries.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils import storage
from onepos._utils.context import tell, time_left
from onepos.methods._base import OnePositiveClassifier
from onepos.rows.scaling import FeatureScaler

#: What a step promises per row when a strength is solved: well enough to choose between strengths, and to keep.
PATH_TOLERANCE, _FINAL_TOLERANCE = 3e-4, 3e-6
#: Pairs of steps and changes of the gradient that L-BFGS remembers.
_MEMORY = 8
#: What a step must gain, as a part of what the slope promises, and what rounding of a sum of logits may hide.
_SUFFICIENT, _ROUNDING = 1e-4, 1e-8


class Fit(NamedTuple):
    """One point of the path: weights (q+1, c) with the intercept last, its strength, iterations it took."""

    weights: NDArray[Any]
    l2: float
    n_iter: int


class _FittedWeights(OnePositiveClassifier):
    coef_: NDArray[Any]  # (q, c)
    intercept_: NDArray[Any]  # (c,)
    l2_: float


@dataclass(kw_only=True, eq=False, repr=False)
class LinearWeights(_FittedWeights):
    """Base of methods that are linear in the scaled features."""

    _stored: ClassVar[storage.Rules] = {
        "scaler_": storage.Part(FeatureScaler),
        "coef_": storage.Array("features labels"),
        "intercept_": storage.Array("labels"),
        "l2_": storage.NOT_NEGATIVE,
        "n_iter_": storage.COUNT,
    }

    validation_fraction: float = 0.1
    scale: str = "auto"
    random_state: Any = None

    def _keep(self, weights: NDArray[Any], fit: Fit) -> None:
        self.coef_, self.intercept_ = weights[:-1], weights[-1]
        self.l2_, self.n_iter_ = fit.l2, max(1, fit.n_iter)
        tell(1.0)

    def _weights(self) -> NDArray[Any]:
        return np.vstack([self.coef_, self.intercept_])

    def _logits(self, X: Any) -> NDArray[np.float64]:
        features = self.scaler_.transform(X).astype(np.float64)
        return np.asarray(features @ self.coef_.astype(np.float64) + self.intercept_)


class Loss:
    """A loss of logits (n, c), summed over rows, for targets that are the weights of the observed labels."""

    def __init__(self, targets: NDArray[Any]) -> None:
        rows, labels = np.nonzero(targets)
        self._places = rows * targets.shape[1] + labels
        self._shares = np.asarray(targets[rows, labels], dtype=np.float64)
        self._rate: NDArray[np.float64] = (targets.sum(axis=0) + 0.5) / (len(targets) + 1.0)
        #: Second derivative by each label's logit at the constant model, mean over rows, shape (c,).
        self.curvature: NDArray[np.float64] = self._rate * (1.0 - self._rate)

    def intercepts(self) -> NDArray[np.float64]:
        """Intercepts of the constant model, shape (c,)."""
        raise NotImplementedError(f"{type(self).__name__} must say what its constant model is.")

    def __call__(self, logits: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        """Sum over rows, and the probabilities."""
        raise NotImplementedError(f"{type(self).__name__} must say what its loss is.")

    def _at_observed(self, values: NDArray[Any]) -> float:
        """Sum of values (n, c) at the observed labels, weighted."""
        return float(values.reshape(-1)[self._places].astype(np.float64) @ self._shares)

    def residual(self, probabilities: NDArray[Any]) -> NDArray[Any]:
        """Derivative of the sum by the logits, in place of ``probabilities``."""
        probabilities.reshape(-1)[self._places] -= self._shares.astype(probabilities.dtype)
        return probabilities


class SoftmaxLoss(Loss):
    """Σ_i CE(softmax(z_i), t_i); the targets of a row sum to one."""

    def intercepts(self) -> NDArray[np.float64]:
        return np.asarray(np.log(self._rate / self._rate.sum()))

    def __call__(self, logits: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        shifted = logits - logits.max(axis=1, keepdims=True)
        likely = self._at_observed(shifted)
        probabilities = np.exp(shifted, out=shifted)
        total = probabilities.sum(axis=1, keepdims=True)
        probabilities /= total
        return float(np.log(total, dtype=np.float64).sum() - likely), probabilities


class BernoulliLoss(Loss):
    """Σ_i Σ_j BCE(σ(z_ij), t_ij) for targets of 0 and 1."""

    def intercepts(self) -> NDArray[np.float64]:
        return np.asarray(np.log(self._rate) - np.log1p(-self._rate))

    def __call__(self, logits: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        tail = np.exp(-np.abs(logits))
        softplus = np.log1p(tail)
        softplus += np.maximum(logits, 0)
        # σ(z) is 1/(1 + e) or e/(1 + e), e = exp(−|z|): no overflow, and nothing lost near 0.
        probabilities = np.where(logits >= 0, 1, tail).astype(logits.dtype, copy=False)
        probabilities /= tail + 1
        return float(softplus.sum(axis=1).sum(dtype=np.float64)) - self._at_observed(logits), probabilities


class LinearProblem:
    """min over W, b of loss(XW + b) + ½·l2·‖W‖², for a series of ``l2``, in the precision of the features."""

    def __init__(self, features: Any, loss: Loss) -> None:
        self.features, self._loss = features, loss
        # Rows of the transpose are what its products run along.
        self._turned = sparse.csr_array(features.T) if sparse.issparse(features) else features.T
        squares = features.multiply(features) if sparse.issparse(features) else np.square(features)
        self.squares = np.asarray(squares.sum(axis=0, dtype=np.float64)).ravel()
        self.curvature = loss.curvature

    def constant_model(self) -> NDArray[Any]:
        """Weights (q+1, c) of the model without features."""
        bias = self._loss.intercepts()
        weights = np.zeros((self.features.shape[1] + 1, len(bias)), dtype=self.features.dtype)
        weights[-1] = bias
        return weights

    def solve(self, l2: float, start: NDArray[Any], max_iter: int, tolerance: float = _FINAL_TOLERANCE) -> Fit:
        """Weights from ``start`` until a step promises less than ``tolerance`` per row, or the time is up."""
        n_rows = self.features.shape[0]
        diagonal = np.vstack([np.outer(self.squares, self.curvature) + l2, n_rows * self.curvature])
        inverse = (1.0 / np.maximum(diagonal, 1e-12)).astype(start.dtype)
        weights, logits = start, linear_logits(self.features, start)
        value, probabilities = self._value(weights, logits, l2)
        gradient = self._gradient(weights, probabilities, l2)
        memory = _Memory(inverse)
        for n_iter in range(max_iter):
            direction = memory.direction(gradient)
            slope = float(np.vdot(gradient, direction))
            if -slope <= tolerance * n_rows or time_left() <= 0:
                return Fit(weights, l2, n_iter)
            along = linear_logits(self.features, direction)
            step = 1.0
            while True:
                new = weights + weights.dtype.type(step) * direction
                trial = along * logits.dtype.type(step) + logits
                new_value, probabilities = self._value(new, trial, l2)
                if new_value <= value + _SUFFICIENT * step * slope + _ROUNDING * abs(value):
                    break
                step *= 0.5
                if step < 1e-10:  # rounding is all that is left to gain
                    return Fit(weights, l2, n_iter)
            new_gradient = self._gradient(new, probabilities, l2)
            memory.add(new - weights, new_gradient - gradient)
            weights, logits, value, gradient = new, trial, new_value, new_gradient
        return Fit(weights, l2, max_iter)

    def _value(self, weights: NDArray[Any], logits: NDArray[Any], l2: float) -> tuple[float, NDArray[Any]]:
        loss, probabilities = self._loss(logits)
        return loss + 0.5 * l2 * float(np.vdot(weights[:-1], weights[:-1])), probabilities

    def _gradient(self, weights: NDArray[Any], probabilities: NDArray[Any], l2: float) -> NDArray[Any]:
        residual = self._loss.residual(probabilities)
        gradient = np.empty_like(weights)
        gradient[:-1] = self._turned @ residual
        gradient[:-1] += weights.dtype.type(l2) * weights[:-1]
        gradient[-1] = residual.sum(axis=0)
        return gradient


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
        found: NDArray[Any] = -gradient
        kind = gradient.dtype.type
        shares = []
        for step, change, product in reversed(self._pairs):
            shares.append(float(np.vdot(step, found)) / product)
            found -= kind(shares[-1]) * change
        found *= self._inverse
        if self._pairs:
            _, change, product = self._pairs[-1]
            found *= kind(product / float(np.vdot(change, self._inverse * change)))
        for step, change, product in self._pairs:
            found += kind(shares.pop() - float(np.vdot(change, found)) / product) * step
        return found


def linear_logits(features: Any, weights: NDArray[Any]) -> NDArray[Any]:
    """XW + b for weights (q+1, c) with the intercept last."""
    logits: NDArray[Any] = np.asarray(features @ weights[:-1])
    logits += weights[-1]
    return logits
