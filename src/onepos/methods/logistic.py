"""Multinomial logistic regression of the observed label, its L2 strength chosen by held-out likelihood."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from onepos._utils.context import tell, time_left
from onepos._utils.parameters import COUNT, POSITIVE_OR_ZERO, Constraints, one_of
from onepos._utils.validation import all_or_nothing, numpy_generator
from onepos.methods._base import SharesClassifier
from onepos.methods._linear_path import PATH_TOLERANCE, Fit, LinearProblem, LinearWeights, SoftmaxLoss, linear_logits
from onepos.rows.scaling import fit_scaler
from onepos.rows.splits import splits

#: The path of l2="auto": so many strengths, each a third of the one before. At the first, the model is almost constant.
N_STRENGTHS, STEP, STRONGEST = 13, 3.0, 9.0
#: The path ends after so many strengths in a row that are worse than the best.
PATIENCE = 2


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(SharesClassifier, LinearWeights):
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

    l2: Any = "auto"
    max_iter: int = 200

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
        features = self.scaler_.transform(X)[labelled]
        targets = _shares(labels.observed[labelled])
        whole = _Part(features, targets)
        strengths = self._strengths(whole.problem)
        self.validation_scores_ = {}
        judges, rows, best = features, "training rows", Fit(whole.start, strengths[0], 0)
        if given is not None:
            judges, rows, truth = self.scaler_.transform(given[0]), "validation rows", _shares(given[1])
            seen = truth.any(axis=1)
            if len(strengths) > 1:
                best = self._choose([whole], [(judges[seen], truth[seen])], strengths)
        elif len(strengths) > 1:
            generator = numpy_generator(self.random_state)
            pairs = splits(labels.observed[labelled], self.validation_fraction, generator, keep_labels=False)
            parts = [_Part(features[train], targets[train]) for train, _ in pairs]
            held = [(features[out], targets[out]) for _, out in pairs]
            best = self._choose(parts, held, strengths)
            judges, rows = held[0][0], "held-out rows"
            told = linear_logits(judges, parts[0].complete(best.weights))
        start = best.weights if best.weights.shape == whole.start.shape else whole.start
        fit = whole.problem.solve(best.l2, start, self.max_iter)
        self._keep(whole.complete(fit.weights), fit)
        if rows != "held-out rows":
            told = linear_logits(judges, self._weights())
        self._cut_at(self._marginal(told.astype(np.float64)), rows=rows)
        return self

    def _strengths(self, problem: LinearProblem) -> list[float]:
        if isinstance(self.l2, str):
            first = STRONGEST * float(problem.squares.sum() * problem.curvature.max())
            return [max(first, 1e-6) * STEP**-k for k in range(N_STRENGTHS)]
        found = sorted({float(value) for value in np.atleast_1d(self.l2)}, reverse=True)
        if not found or not all(np.isfinite(value) and value >= 0 for value in found):
            raise ValueError(f"l2 must be one or several numbers, finite and >= 0; got {self.l2!r}.")
        return found

    def _choose(self, parts: "list[_Part]", held: list[tuple[Any, NDArray[Any]]], strengths: list[float]) -> Fit:
        """Follow the path on all parts in step; return the first part's fit of the best strength."""
        weights = [part.start for part in parts]
        best, worse = Fit(weights[0], strengths[0], 0), 0
        for place, l2 in enumerate(strengths):
            pairs = zip(parts, weights, strict=True)
            fits = [part.problem.solve(l2, start, self.max_iter, PATH_TOLERANCE) for part, start in pairs]
            if place and time_left() <= 0:
                break  # these did not converge
            weights = [fit.weights for fit in fits]
            told = [part.log_likelihoods(fit.weights, *rows) for part, fit, rows in zip(parts, fits, held, strict=True)]
            score = float(np.concatenate(told).mean())
            worse = worse + 1 if score < max(self.validation_scores_.values(), default=-np.inf) else 0
            self.validation_scores_[l2] = score
            if worse == 0:
                best = fits[0]
            tell((place + 1) / (len(strengths) + 1))
            if worse == PATIENCE:
                break
        return best

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        return LinearWeights._logits(self, X)

    def _marginal(self, log_shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return super()._marginal(log_shares if self.single_label_ else log_softmax(log_shares, axis=1))


class _Part:
    """Rows to train on; labels that they never show have no part in the fit."""

    def __init__(self, features: Any, targets: NDArray[np.float64]) -> None:
        self._n_labels = targets.shape[1]
        self._seen = targets.any(axis=0)
        self.problem = LinearProblem(features, SoftmaxLoss(targets[:, self._seen]))
        self.start = self.problem.constant_model()

    def complete(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Weights for all labels: one that was never seen has the same logit everywhere, and half a row's worth."""
        if self._seen.all():
            return weights
        # Mean over rows of exp(b − logsumexp(z_i)), the label's probability as it is small: ½/n.
        normaliser = logsumexp(linear_logits(self.problem.features, weights).astype(np.float64), axis=1)
        whole = np.zeros((len(weights), self._n_labels), dtype=weights.dtype)
        whole[-1] = np.log(0.5) - logsumexp(-normaliser)
        whole[:, self._seen] = weights
        return whole

    def log_likelihoods(self, weights: NDArray[Any], features: Any, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Log-likelihood of every held-out row."""
        log_p = log_softmax(linear_logits(features, self.complete(weights)).astype(np.float64), axis=1)
        return np.asarray((targets * log_p).sum(axis=1))


def _shares(observed: NDArray[np.int8]) -> NDArray[np.float64]:
    """Share a row's weight among its observed labels; a row without any has zeros."""
    positive = (observed > 0).astype(np.float64)
    return np.asarray(positive / np.maximum(positive.sum(axis=1, keepdims=True), 1.0))
