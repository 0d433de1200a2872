"""Scores from elsewhere, such as those of CLIP or a language model, as estimates of the given tag."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logit, logsumexp

from onepos._utils import storage
from onepos._utils.validation import all_or_nothing
from onepos.methods._base import SharesClassifier, tag_weights

#: Least share of the odds of a score between 0 and 1.
_LEAST = 1e-4
#: How scores become log-shares: as they are, or, if they lie between 0 and 1, their log-odds.
_LINKS = ("plain", "odds")


@dataclass(kw_only=True, eq=False, repr=False)
class ScoresClassifier(SharesClassifier):
    """Scores of the labels, one column each in their order, calibrated by the given tags. A member of ``auto``.

    P(observed = j | x) ∝ exp(a·s_j + b_j), with a ≥ 0 for all labels and an offset b_j for each, at their most likely
    values; a normal prior of variance 1 keeps b_j near the log-frequency. Useless scores get a = 0 and rank by
    frequency.

    Attributes
    ----------
    slope_, offsets_ : float and float array of shape (n_labels,)
        a and b.
    link_ : str
        "plain", or "odds" if s are the log-odds of the scores; the likelier one.
    """

    _stored: ClassVar[storage.Rules] = {
        "slope_": storage.NOT_NEGATIVE,
        "offsets_": storage.Array("labels", "f8"),
        "link_": storage.one_of(*_LINKS),
    }

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit slope and offsets; ``validation`` gives the number of positives if its labels are complete."""
        X, labels, _ = self._begin(X, y, validation, validation_labels)
        if X.shape[1] != len(labels.classes):
            raise ValueError(f"expected one score per label, {len(labels.classes)}; got {X.shape[1]} columns.")
        rows = np.flatnonzero(labels.labelled)
        scores, weights = _dense(X)[rows], tag_weights(labels.observed[rows])
        counts = weights.sum(axis=0) + 0.5
        prior = np.log(counts / counts.sum())
        links = _LINKS if scores.min() >= 0 and scores.max() <= 1 else _LINKS[:1]
        fits = {link: _fitted(_linked(scores, link), weights, prior) for link in links}
        self.link_ = min(fits, key=lambda link: fits[link][0])
        _, self.slope_, self.offsets_ = fits[self.link_]
        self._cut_at(self._logits(X), rows="training rows")
        return self

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        return self.slope_ * _linked(_dense(X), self.link_) + self.offsets_


def _dense(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def _linked(scores: NDArray[np.float64], link: str) -> NDArray[np.float64]:
    return scores if link == "plain" else np.asarray(logit(np.clip(scores, _LEAST, 1 - _LEAST)))


def _fitted(
    scores: NDArray[np.float64], weights: NDArray[np.float64], prior: NDArray[np.float64]
) -> tuple[float, float, NDArray[np.float64]]:
    """Return the penalised loss, the slope and the offsets."""
    scale = max(float(scores.std()), 1e-12)
    scores = scores / scale

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = point[0] * scores + point[1:]
        level = logsumexp(logits, axis=1, keepdims=True)
        error = np.exp(logits - level) - weights
        away = point[1:] - prior
        value = -(weights * (logits - level)).sum() + 0.5 * away @ away
        return float(value), np.concatenate([[(error * scores).sum()], error.sum(axis=0) + away])

    start = np.concatenate([[0.0], prior])
    bounds = [(0.0, None), *[(None, None)] * len(prior)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(found.fun), float(found.x[0] / scale), found.x[1:]
