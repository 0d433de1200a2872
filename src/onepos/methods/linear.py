"""Linear assume-negative learning, its L2 strength chosen on validation rows: the baseline to beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onepos import metrics
from onepos._utils.context import recall, stage, tell
from onepos._utils.parameters import COUNT, POSITIVE_OR_ZERO, Constraints
from onepos._utils.validation import all_or_nothing, numpy_generator
from onepos.methods._linear_path import BernoulliLoss, Fit, LinearProblem, LinearWeights, linear_logits
from onepos.rows.scaling import fit_scaler
from onepos.rows.splits import splits


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(LinearWeights):
    """One logistic regression per label; unknown counts as negative. Key: ``linear``.

    Minimises Σ_i Σ_j BCE + ½·l2·‖W‖² (intercepts free) by L-BFGS for each strength, from strong to weak, and keeps the
    one with the lowest loss on held-out rows, or the best average precision on fully labelled validation rows.

    Parameters
    ----------
    l2 : sequence of float
        Strengths to try. A single one is used without validation.
    max_iter : int
        L-BFGS iterations for each strength.
    validation_fraction, scale, random_state
        As in ``NeuralClassifier``. With fewer than 2,000 rows there are five folds instead of rows held out.

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

    _parameter_constraints: ClassVar[Constraints] = {
        **LinearWeights._parameter_constraints,
        "l2": ["array-like", POSITIVE_OR_ZERO],
        "max_iter": [COUNT],
    }

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; choose the L2 strength on ``validation`` (see ``NeuralClassifier.fit``)."""
        X, labels, given, complete = self._check_fit(X, y, validation, validation_labels)
        strengths = sorted({float(v) for v in np.atleast_1d(self.l2)}, reverse=True)
        self.scaler_ = fit_scaler(X, self.scale)
        labelled = np.flatnonzero(labels.labelled)
        rows, wanted = self.scaler_.transform(X)[labelled], labels.observed[labelled] > 0
        self.validation_scores_ = {}
        if len(strengths) == 1:
            best = self._path(rows, wanted, strengths)[0]
            told, where = linear_logits(rows, best.weights.astype(np.float64)), "training rows"
        elif given is not None:
            held = self.scaler_.transform(given[0])
            inputs = ("linear path", rows, wanted, strengths, self.max_iter)
            path = recall(lambda: self._path(rows, wanted, strengths), *inputs)
            best = self._choose([path], [(held, given[1])], complete=complete is not None)
            told, where = linear_logits(held, best.weights.astype(np.float64)), "validation rows"
        else:
            parts = splits(
                wanted.astype(np.int8), self.validation_fraction, numpy_generator(self.random_state), keep_labels=False
            )
            paths = []
            for place, (train, _) in enumerate(parts):
                with stage(place / (len(parts) + 1), (place + 1) / (len(parts) + 1)):
                    paths.append(self._path(rows[train], wanted[train], strengths))
            folds = [(rows[out], wanted[out].astype(np.int8)) for _, out in parts]
            chosen = self._choose(paths, folds, complete=False)
            told, where = linear_logits(folds[0][0], chosen.weights), "held-out rows"
            with stage(len(parts) / (len(parts) + 1), 1.0):
                best = self._path(rows, wanted, [chosen.l2], chosen.weights)[0]
        self._keep(best.weights.astype(np.float64), best)
        self._cut_at(told, complete=complete, rows=where)
        return self

    def _path(
        self, rows: Any, wanted: NDArray[np.bool_], strengths: Sequence[float], start: NDArray[Any] | None = None
    ) -> list[Fit]:
        """Fit each strength from strong to weak; each starts from the one before."""
        problem = LinearProblem(rows, BernoulliLoss(wanted))
        weights = problem.constant_model() if start is None else start
        path: list[Fit] = []
        for place, l2 in enumerate(strengths):
            path.append(problem.solve(l2, weights, self.max_iter))
            weights = path[-1].weights
            tell((place + 1) / (len(strengths) + 1))
        return path

    def _choose(self, paths: list[list[Fit]], held: list[tuple[Any, NDArray[np.int8]]], *, complete: bool) -> Fit:
        """Return the first path's fit of the strength that is best on all held-out rows."""
        truth = np.concatenate([labels for _, labels in held])
        for fits in zip(*paths, strict=True):
            pairs = zip(fits, held, strict=True)
            logits = np.concatenate([linear_logits(rows, fit.weights) for fit, (rows, _) in pairs])
            score = metrics.average_precision(truth, logits) if complete else -BernoulliLoss(truth > 0)(logits)[0]
            self.validation_scores_[fits[0].l2] = score
        return max(paths[0], key=lambda fit: self.validation_scores_[fit.l2])
