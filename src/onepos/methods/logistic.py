"""Multinomial logistic regression of the observed label, its L2 strength chosen by held-out likelihood."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from onepos._utils import storage
from onepos._utils.context import tell, time_left, warn
from onepos._utils.parameters import COUNT, POSITIVE_OR_ZERO, Constraints, one_of
from onepos._utils.validation import all_or_nothing, has_label, numpy_generator
from onepos.exceptions import TrainingWarning
from onepos.methods._base import SharesClassifier, tag_weights
from onepos.methods._softmax_path import PATH_TOLERANCE, PathPoint, SoftmaxProblem, linear_logits
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.rows.splits import first_alike, splits

#: The path of l2="auto": so many strengths, each a third of the one before. At the first, the model is almost constant.
N_STRENGTHS, STEP, STRONGEST = 13, 3.0, 9.0
#: The path ends after so many strengths in a row that are worse than the best.
PATIENCE = 2
#: Most rows × labels of the training, whose logits take some 20 bytes each, and of the path of strengths.
MOST_LOGITS, _PATH_LOGITS = 100_000_000, 20_000_000


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
        Of more than 20 million rows × labels, a random part chooses. Of more than 100 million, it is all that is learnt
        from.
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

    _takes_sparse_labels: ClassVar[bool] = True

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
        generator = numpy_generator(self.random_state)
        if len(labelled) > (most := max(1, MOST_LOGITS // len(labels.classes))):
            warn(
                f"logistic takes a random part of {most:,} of {len(labelled):,} rows, as there are "
                f"{len(labels.classes):,} labels. Take auto, centroid or capped to learn from all.",
                TrainingWarning,
                stacklevel=3,
            )
            labelled = np.sort(generator.choice(labelled, most, replace=False))
        features, observed = self.scaler_.transform(X)[labelled], labels.observed[labelled]
        targets = tag_weights(observed)
        whole = SoftmaxProblem(features, targets)
        strengths = self._strengths(whole)
        self.validation_scores_ = {}
        constant = whole.complete(whole.constant_model())
        best, cut_on, rows = PathPoint(constant, strengths[0], 0), features, "training rows"
        logits: Any = None  # of held-out rows, from the model that did not see them
        if given is not None:
            truth = tag_weights(given[1])
            cut_on, rows, seen = self.scaler_.transform(given[0]), "validation rows", has_label(given[1])
            if len(strengths) > 1:
                some = _some(np.arange(len(labelled)), len(labels.classes), generator)
                part = whole if len(some) == len(labelled) else SoftmaxProblem(features[some], targets[some])
                best = self._choose([part], [(cut_on[seen], truth[seen])], strengths)
        elif len(strengths) > 1:
            alike = first_alike(features)
            pairs = splits(observed, self.validation_fraction, generator, keep_labels=False, alike=alike)
            pairs = [(_some(train, len(labels.classes), generator), held) for train, held in pairs]
            problems = [SoftmaxProblem(features[train], targets[train]) for train, _ in pairs]
            held = [(features[out], targets[out]) for _, out in pairs]
            best = self._choose(problems, held, strengths)
            rows, logits = "held-out rows", linear_logits(held[0][0], best.weights)
        solution = whole.solve(best.l2, best.weights[:, whole.seen], self.max_iter)
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

    def _choose(self, problems: list[SoftmaxProblem], held: list[tuple[Any, Any]], strengths: list[float]) -> PathPoint:
        """Follow the path of all problems in step; return the best strength, with the first one's weights."""
        weights = [problem.constant_model() for problem in problems]
        best, worse = PathPoint(problems[0].complete(weights[0]), strengths[0], 0), 0
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
                best = points[0]._replace(weights=problems[0].complete(points[0].weights))
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


def _some(rows: NDArray[np.intp], n_labels: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Rows that choose the strength: a random part if there are very many, as a prior does not depend on them."""
    most = max(1, _PATH_LOGITS // n_labels)
    return rows if len(rows) <= most else np.sort(generator.choice(rows, most, replace=False))
