"""The honest baseline: linear assume-negative learning with its L2 strength chosen on validation data."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.utils._param_validation import Interval, StrOptions
from torch.nn.functional import softplus

from onepos import metrics
from onepos._random import numpy_generator
from onepos._validation import Labels, check_validation_labels
from onepos.memory import recall
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._holdout import hold_out
from onepos.scaling import SCALE_KINDS, FeatureScaler, fit_scaler


class _FittedLinear(OnePositiveClassifier):
    coef_: NDArray[np.float64]  # (q, c)
    intercept_: NDArray[np.float64]  # (c,)
    l2_: float
    n_iter_: int
    validation_scores_: dict[float, float]
    scaler_: FeatureScaler


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(_FittedLinear):
    """One logistic regression per label, unknown taken for negative, L2 strength chosen on validation. Key: ``linear``.

    Minimises Σ_i Σ_j BCE + ½·l2·‖W‖² (intercepts free) by L-BFGS for each strength, from strong to weak, and keeps the
    one with the best average precision on validation rows.

    Parameters
    ----------
    l2 : sequence of float
        Strengths to try. A single one is used without validation.
    max_iter : int
        L-BFGS iterations for each strength.
    validation_fraction : float
        Share of rows held out when ``fit`` gets no validation set; the winner is then refitted on all rows.
    scale, random_state
        As in ``NeuralClassifier``.

    Examples
    --------
    >>> from onepos import LinearClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = LinearClassifier(random_state=0).fit(data.X, data.observed)
    >>> model.coef_.shape
    (5, 4)
    """

    l2: Any = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
    max_iter: int = 100
    validation_fraction: float = 0.1
    scale: str = "auto"
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "l2": ["array-like", Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "scale": [StrOptions(set(SCALE_KINDS))],
        "random_state": ["random_state", np.random.Generator],
    }

    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; choose the L2 strength on ``validation`` (see ``NeuralClassifier.fit``)."""
        X, labels = self._check_training(X, y)
        if validation_labels not in ("single", "full"):
            raise ValueError(f'validation_labels must be "single" or "full"; got {validation_labels!r}.')
        strengths = sorted({float(v) for v in np.atleast_1d(self.l2)}, reverse=True)
        self.scaler_ = fit_scaler(X, self.scale)
        features = self.scaler_.transform(X)
        targets = (labels.observed > 0).astype(np.float64)
        labelled = np.flatnonzero(labels.labelled)
        self.validation_scores_ = {}
        if len(strengths) == 1:
            self._keep(_fit_path(features[labelled], targets[labelled], strengths, self.max_iter)[0])
        elif validation is not None:
            held = self.scaler_.transform(self._check_features(validation[0]))
            truth = check_validation_labels(validation[1], labels.classes)
            rows, wanted = features[labelled], targets[labelled]
            path = recall(
                lambda: _fit_path(rows, wanted, strengths, self.max_iter),
                "linear path",
                rows,
                wanted,
                strengths,
                self.max_iter,
            )
            self._keep(self._choose(path, held, truth))
        else:
            self._fit_on_holdout(features, targets, labels, labelled, strengths)
        return self

    def _fit_on_holdout(
        self,
        features: Any,
        targets: NDArray[np.float64],
        labels: Labels,
        labelled: NDArray[np.intp],
        strengths: list[float],
    ) -> None:
        train, held = hold_out(labels.observed, labelled, self.validation_fraction, numpy_generator(self.random_state))
        path = _fit_path(features[train], targets[train], strengths, self.max_iter)
        best = self._choose(path, features[held], labels.observed[held])
        self._keep(_fit_path(features[labelled], targets[labelled], [best.l2], self.max_iter)[0])

    def _choose(self, path: "list[_Fit]", held: Any, truth: NDArray[np.int8]) -> "_Fit":
        scores = [metrics.average_precision(truth, _scores(held, fit.weights)) for fit in path]
        self.validation_scores_ = {fit.l2: score for fit, score in zip(path, scores, strict=True)}
        return path[int(np.argmax(scores))]

    def _keep(self, fit: "_Fit") -> None:
        self.coef_, self.intercept_ = fit.weights[:-1], fit.weights[-1]
        self.l2_, self.n_iter_ = fit.l2, fit.n_iter

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(self.scaler_.transform(X).astype(np.float64) @ self.coef_ + self.intercept_)

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {"coef": self.coef_, "intercept": self.intercept_}
        if self.scaler_.shift is not None and self.scaler_.factor is not None:
            arrays |= {"scaler.shift": self.scaler_.shift, "scaler.factor": self.scaler_.factor}
        return arrays, {"scale": self.scaler_.kind, "l2": self.l2_, "n_iter": self.n_iter_}

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self.coef_, self.intercept_, self.l2_ = arrays["coef"], arrays["intercept"], facts["l2"]
        self.n_iter_ = facts["n_iter"]
        self.scaler_ = FeatureScaler(facts["scale"], arrays.get("scaler.shift"), arrays.get("scaler.factor"))
        self.validation_scores_ = {}


class _Fit(NamedTuple):
    """One point of the path: weights (q+1, c) with the intercept last, its strength, iterations it took."""

    weights: NDArray[np.float64]
    l2: float
    n_iter: int


def _scores(features: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(features @ weights[:-1] + weights[-1])


def _fit_path(features: Any, targets: NDArray[np.float64], strengths: Sequence[float], max_iter: int) -> list[_Fit]:
    """Weights (q+1, c), intercept last, for each strength from strong to weak; each starts from the one before."""
    n_features, n_labels = features.shape[1], targets.shape[1]
    weights = np.zeros((n_features + 1, n_labels))
    # The intercept of the constant model: the strongest penalty starts there.
    rate = (targets.sum(axis=0) + 0.5) / (len(targets) + 1.0)
    weights[-1] = np.log(rate) - np.log1p(-rate)
    path: list[_Fit] = []
    positives = torch.from_numpy(np.flatnonzero(targets))
    for l2 in strengths:

        def loss_and_gradient(flat: NDArray[np.float64], l2: float = l2) -> tuple[float, NDArray[np.float64]]:
            w = flat.reshape(n_features + 1, n_labels)
            # Single precision along rows and columns; double for the sum of all rows, which the line search compares.
            logits = torch.from_numpy(np.asarray(features @ w[:-1].astype(features.dtype))).float()
            logits += torch.from_numpy(w[-1].astype(np.float32))
            loss = softplus(logits).sum(dim=1).sum(dtype=torch.float64) - logits.view(-1)[positives].sum(
                dtype=torch.float64
            )
            residual = logits.sigmoid_()
            residual.view(-1)[positives] -= 1.0
            gradient = np.empty_like(w)
            gradient[:-1] = np.asarray(features.T @ residual.numpy().astype(features.dtype, copy=False)) + l2 * w[:-1]
            gradient[-1] = residual.sum(dim=0).numpy()
            return float(loss) + 0.5 * l2 * float((w[:-1] ** 2).sum()), gradient.ravel()

        result = minimize(
            loss_and_gradient, weights.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
        )
        weights = result.x.reshape(weights.shape)
        path.append(_Fit(weights, l2, int(result.nit)))
    return path
