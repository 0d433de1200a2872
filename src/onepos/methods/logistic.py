"""Multinomial logistic regression of the observed label, its L2 strength chosen by held-out likelihood."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from onepos._utils import storage
from onepos._utils.context import tell, time_left, warn
from onepos._utils.parameters import COUNT, POSITIVE_OR_ZERO, Constraints, one_of
from onepos._utils.validation import all_or_nothing, numpy_generator
from onepos.exceptions import TrainingWarning
from onepos.methods._base import SharesClassifier, tag_weights
from onepos.methods._softmax_path import PATH_TOLERANCE, PathPoint, SoftmaxProblem, linear_logits
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.rows.splits import first_alike, splits

#: The path of l2="auto": so many strengths, each a third of the one before. At the first, the model is almost constant.
N_STRENGTHS, STEP, STRONGEST = 13, 3.0, 9.0
#: The path ends after so many strengths in a row that are worse than the best.
PATIENCE = 2


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(SharesClassifier):
    """Multinomial logistic regression of the observed label, L2 strength chosen along a path. Key: ``logistic``.

    Minimises Σ_i CE(softmax(x_i W + b), t_i) + ½·l2·‖W‖², where t_i shares a row's weight among its observed labels
    (mostly one). With a strong penalty the model is the ranking by frequency; the path goes from there to weak ones and
    keeps the strength that makes held-out observed labels most likely.

    Parameters
    ----------
    l2 : "auto", float or sequence of float
        Strengths to try, from strong to weak. A single one is used without validation. "auto": up to 13 strengths from
        9·‖X‖²·max_j f_j(1 − f_j) down, each a third of the one before; f are the observed frequencies.
    max_iter : int
        L-BFGS iterations for each strength.
    n_positives, at_least_one, validation_fraction, scale, random_state
        As in ``NeuralClassifier``. With fewer than 2,000 rows there are five folds instead of rows held out.
        ``n_positives`` also sets the level of the probabilities, not the ranking.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_features, n_labels) and (n_labels,)
        Of the scaled features.
    l2_, n_iter_ : float and int
        The strength that was chosen, and L-BFGS iterations of the last fit.
    validation_scores_ : dict of float to float
        Mean log-likelihood of a held-out row by strength; empty if there was nothing to choose.
    n_positives_ : float
        The number of positives that probabilities of a row add up to.

    Examples
    --------
    >>> from onepos import LogisticClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = LogisticClassifier(random_state=0).fit(data.X, data.observed)
    >>> model.coef_.shape, bool(abs(model.predict_proba(data.X).sum(axis=1) - 2).max() < 1e-9)
    ((5, 4), True)
    """

    _stored: ClassVar[storage.Rules] = {
        "scaler_": storage.Part(FeatureScaler),
        "coef_": storage.Array("features labels"),
        "intercept_": storage.Array("labels"),
        "l2_": storage.NOT_NEGATIVE,
        "n_iter_": storage.COUNT,
    }

    l2: Any = "auto"
    max_iter: int = 200
    validation_fraction: float = 0.1
    scale: str = "auto"
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {
        **SharesClassifier._parameter_constraints,
        "l2": [one_of("auto"), "array-like", POSITIVE_OR_ZERO],
        "max_iter": [COUNT],
    }

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; choose the L2 strength on ``validation`` (see ``NeuralClassifier.fit``)."""
        X, labels, given = self._begin(X, y, validation, validation_labels)
        self.scaler_ = fit_scaler(X, self.scale)
        labelled = np.flatnonzero(labels.labelled)
        features, observed = self.scaler_.transform(X)[labelled], labels.observed[labelled]
        targets = tag_weights(observed)
        whole = SoftmaxProblem(features, targets)
        strengths = self._strengths(whole)
        self.validation_scores_ = {}
        best, cut_on, rows = PathPoint(whole.constant_model(), strengths[0], 0), features, "training rows"
        logits: Any = None  # of held-out rows, from the model that did not see them
        if given is not None:
            truth = tag_weights(given[1])
            cut_on, rows, seen = self.scaler_.transform(given[0]), "validation rows", truth.any(axis=1)
            if len(strengths) > 1:
                best = self._choose([whole], [(cut_on[seen], truth[seen])], strengths)
        elif len(strengths) > 1:
            generator = numpy_generator(self.random_state)
            alike = first_alike(features)
            pairs = splits(observed, self.validation_fraction, generator, keep_labels=False, alike=alike)
            problems = [SoftmaxProblem(features[train], targets[train]) for train, _ in pairs]
            held = [(features[out], targets[out]) for _, out in pairs]
            best = self._choose(problems, held, strengths)
            rows, logits = "held-out rows", linear_logits(held[0][0], problems[0].complete(best.weights))
        start = whole.constant_model()
        solution = whole.solve(best.l2, best.weights if best.weights.shape == start.shape else start, self.max_iter)
        weights = whole.complete(solution.weights)
        if time_left() <= 0:
            warn(
                f"logistic had no time to converge on {len(labelled):,} rows; the model is the best so far. Give it "
                "more time, or fewer rows.",
                TrainingWarning,
                stacklevel=2,
            )
        self.coef_, self.intercept_ = weights[:-1], weights[-1]
        self.l2_, self.n_iter_ = solution.l2, max(1, solution.n_iter)
        tell(1.0)
        logits = linear_logits(cut_on, weights) if logits is None else logits
        self._cut_at(self._marginal(logits.astype(np.float64)), rows=rows)
        return self

    def _strengths(self, problem: SoftmaxProblem) -> list[float]:
        if isinstance(self.l2, str):
            first = STRONGEST * float(problem.squares.sum() * problem.curvature.max())
            return [max(first, 1e-6) * STEP**-k for k in range(N_STRENGTHS)]
        strengths = sorted({float(value) for value in np.atleast_1d(self.l2)}, reverse=True)
        if not strengths or not all(np.isfinite(value) and value >= 0 for value in strengths):
            raise ValueError(f"l2 must be one or several numbers, finite and >= 0; got {self.l2!r}.")
        return strengths

    def _choose(
        self, problems: list[SoftmaxProblem], held: list[tuple[Any, NDArray[Any]]], strengths: list[float]
    ) -> PathPoint:
        """Follow the path of all problems in step; return the first one's solution for the best strength."""
        weights = [problem.constant_model() for problem in problems]
        best, worse = PathPoint(weights[0], strengths[0], 0), 0
        for place, l2 in enumerate(strengths):
            starts = zip(problems, weights, strict=True)
            points = [problem.solve(l2, start, self.max_iter, PATH_TOLERANCE) for problem, start in starts]
            weights = [point.weights for point in points]
            likelihoods = [
                problem.log_likelihoods(point.weights, *rows)
                for problem, point, rows in zip(problems, points, held, strict=True)
            ]
            score = float(np.concatenate(likelihoods).mean())
            worse = worse + 1 if score < max(self.validation_scores_.values(), default=-np.inf) else 0
            self.validation_scores_[l2] = score
            if worse == 0:
                best = points[0]
            tell((place + 1) / (len(strengths) + 1))
            if worse == PATIENCE or time_left() <= 0:
                break
        return best

    def _graph_logits(self, graph: Any) -> str:
        if not self.single_label_:
            raise NotImplementedError(f"{type(self).__name__} finds the level of every row by iteration")
        return str(graph.linear(self.scaler_, self.coef_, self.intercept_))

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        features = self.scaler_.transform(X).astype(np.float64)
        return np.asarray(features @ self.coef_.astype(np.float64) + self.intercept_)

    def _marginal(self, log_shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return super()._marginal(log_shares if self.single_label_ else log_softmax(log_shares, axis=1))
