"""The honest baseline: linear assume-negative learning with its L2 strength chosen on validation data."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onepos import metrics
from onepos._utils.deadline import tell
from onepos._utils.private_names import Interval, StrOptions
from onepos._utils.random import numpy_generator
from onepos._utils.result_cache import recall
from onepos._utils.validation import check_validation_labels
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._linear_path import FINAL_TOLERANCE, BernoulliLoss, Fit, LinearProblem, linear_logits
from onepos.methods._rows import splits
from onepos.rows.scaling import SCALE_KINDS, FeatureScaler, fit_scaler


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
    one with the lowest loss on held-out rows, or the best average precision on fully labelled validation rows.

    Parameters
    ----------
    l2 : sequence of float
        Strengths to try. A single one is used without validation.
    max_iter : int
        L-BFGS iterations for each strength.
    validation_fraction : float
        Share of rows held out when ``fit`` gets no validation set; the winner is then refitted on all rows. With fewer
        than 2,000 rows there are five folds instead.
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
        labelled = np.flatnonzero(labels.labelled)
        rows, wanted = features[labelled], labels.observed[labelled] > 0
        self.validation_scores_ = {}
        if len(strengths) == 1:
            self._keep(_fit_path(LinearProblem(rows, BernoulliLoss(wanted)), strengths, self.max_iter)[0])
            self._cut_at(linear_logits(rows, self._weights()), rows="training rows")
        elif validation is not None:
            held = self.scaler_.transform(self._check_features(validation[0]))
            truth = check_validation_labels(validation[1], labels.classes)
            path = recall(
                lambda: _fit_path(LinearProblem(rows, BernoulliLoss(wanted)), strengths, self.max_iter),
                "linear path",
                rows,
                wanted,
                strengths,
                self.max_iter,
            )
            full = validation_labels == "full"
            self._keep(self._choose([path], [(held, truth)], complete=full))
            told = linear_logits(held, self._weights())
            self._cut_at(told, complete=truth if full else None, rows="validation rows")
        else:
            self._fit_on_holdout(rows, wanted, strengths)
        return self

    def _fit_on_holdout(self, features: Any, wanted: NDArray[np.bool_], strengths: list[float]) -> None:
        parts = splits(wanted.astype(np.int8), self.validation_fraction, numpy_generator(self.random_state))
        paths = [
            _fit_path(LinearProblem(features[train], BernoulliLoss(wanted[train])), strengths, self.max_iter)
            for train, _ in parts
        ]
        held = [(features[out], wanted[out].astype(np.int8)) for _, out in parts]
        best = self._choose(paths, held, complete=False)
        self._cut_at(linear_logits(held[0][0], best.weights), rows="held-out rows")
        whole = LinearProblem(features, BernoulliLoss(wanted))
        self._keep(_fit_path(whole, [best.l2], self.max_iter, best.weights)[0])

    def _choose(self, paths: list[list[Fit]], held: list[tuple[Any, NDArray[np.int8]]], *, complete: bool) -> Fit:
        """Return the first path's fit of the strength that is best on all held-out rows."""
        truth = np.concatenate([labels for _, labels in held])
        for fits in zip(*paths, strict=True):
            logits = np.concatenate(
                [linear_logits(rows, fit.weights) for fit, (rows, _) in zip(fits, held, strict=True)]
            )
            score = metrics.average_precision(truth, logits) if complete else -BernoulliLoss(truth > 0)(logits)[0]
            self.validation_scores_[fits[0].l2] = score
        return max(paths[0], key=lambda fit: self.validation_scores_[fit.l2])

    def _weights(self) -> NDArray[np.float64]:
        return np.vstack([self.coef_, self.intercept_])

    def _keep(self, fit: Fit) -> None:
        self.coef_, self.intercept_ = fit.weights[:-1].astype(np.float64), fit.weights[-1].astype(np.float64)
        self.l2_, self.n_iter_ = fit.l2, max(1, fit.n_iter)
        tell(1.0)

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


def _fit_path(
    problem: LinearProblem, strengths: Sequence[float], max_iter: int, start: NDArray[Any] | None = None
) -> list[Fit]:
    """Weights (q+1, c) for each strength from strong to weak; each starts from the one before."""
    weights = problem.constant_model() if start is None else start
    path: list[Fit] = []
    for place, l2 in enumerate(strengths):
        path.append(problem.solve(l2, weights, max_iter=max_iter, tolerance=FINAL_TOLERANCE))
        weights = path[-1].weights
        tell((place + 1) / (len(strengths) + 1))
    return path
