"""How ``auto`` judges its candidates: the rows that each is trained on and judged by, its likelihood and its weight.

A candidate says with log-scores what label it expects to be observed; likelihoods of held-out observed labels compare
candidates and weigh them. The only row of a label is in every training part.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_expit, log_softmax

from onepos.label_sets.pooling import at_observed, inverse_temperature, pool_weights, standardize_rows
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.auto.candidates import Candidate
from onepos.rows.splits import Split, folds, hold_out
from onepos.rows.stored import take

#: With fewer labelled rows than this none is held out, and members count alike.
FEWEST_TO_JUDGE = 50
#: Folds when the caller does not say how many.
FOLDS = 8
#: Most entries (rows × labels) of a fold that are kept to judge by.
_MOST_JUDGED = 500_000
#: Candidates with less of the pool hardly change a ranking, and would cost time and room with every prediction.
LEAST_WEIGHT = 0.05

#: How a model's scores become log-scores of the observed label. Files of version 0.1 have "standardized".
LINKS: dict[str, Callable[[NDArray[Any]], NDArray[np.float64]]] = {
    "probability": log_expit,  # P(observed = j) ∝ f_j
    "odds": np.asarray,  # P(observed = j) ∝ f_j / (1 − f_j)
    "standardized": standardize_rows,
}
#: The model has log-shares of its own.
SHARES = "shares"


@dataclass(frozen=True)
class Folds:
    """Labelled rows in folds: ``parts`` are those to train on and to judge by; complete ``judges`` judge alone."""

    features: Any
    observed: NDArray[np.int8]
    parts: list[Split]
    judges: tuple[Any, NDArray[np.int8]] | None = None

    def __len__(self) -> int:
        return 1 if self.judges is not None else len(self.parts)

    def train(self, fold: int) -> tuple[Any, NDArray[np.int8]]:
        """Features and labels to train on without a fold; all of them if nothing is held out."""
        if not self.parts:
            return self.features, self.observed
        rows, _ = self.parts[fold]
        return take(self.features, rows), self.observed[rows]

    def held(self, fold: int) -> tuple[Any, NDArray[np.int8]]:
        """Features and labels to judge by."""
        if self.judges is not None:
            return self.judges
        _, rows = self.parts[fold]
        return take(self.features, rows), self.observed[rows]

    def labels(self, n_folds: int) -> NDArray[np.int8]:
        """Labels of the held-out rows of the first folds."""
        if self.judges is not None:
            return self.judges[1]
        return np.concatenate([self.observed[rows] for _, rows in self.parts[:n_folds]])


def deal(
    features: Any,
    observed: NDArray[np.int8],
    given: tuple[Any, NDArray[np.int8]] | None,
    *,
    complete: bool,
    n_folds: int | None,
    fraction: float,
    generator: np.random.Generator,
) -> Folds:
    """Deal labelled rows into folds, with ``given`` ones that are not ``complete``; one fold holds out ``fraction``."""
    if given is not None and not complete:
        features, observed = _below(features, given[0]), np.concatenate([observed, given[1]])
    labelled = np.flatnonzero((observed > 0).any(axis=1))
    if len(labelled) < len(observed):
        features, observed = take(features, labelled), observed[labelled]
    if given is not None and complete:
        return Folds(features, observed, [], given)
    if len(observed) < max(FEWEST_TO_JUDGE, 2 * int((observed > 0).any(axis=0).sum())):
        return Folds(features, observed, [])
    n_folds = FOLDS if n_folds is None else n_folds
    most = max(200, _MOST_JUDGED // observed.shape[1])
    if n_folds == 1:
        parts = [hold_out(observed, min(fraction, most / len(observed)), generator)]
    else:
        parts = folds(observed, max(n_folds, -(-len(observed) // most)), generator)[:n_folds]
    return Folds(features, observed, parts)


def _below(first: Any, second: Any) -> Any:
    """Rows of ``second`` below those of ``first``; sparse if the first are."""
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, sparse.csr_array(second)]))
    dense = second.toarray() if sparse.issparse(second) else second
    return np.concatenate([first, dense])


def log_scores(model: OnePositiveClassifier, X: Any, link: str) -> NDArray[np.float64]:
    """Log-scores (n_samples, n_labels) of validated features."""
    if link == SHARES:
        return np.asarray(model._log_shares(X))
    return LINKS[link](model._logits(X))


@dataclass
class Trial:
    """A candidate, its models by fold, what they said of the held-out rows, and how well that fits."""

    candidate: Candidate
    number: int
    models: list[OnePositiveClassifier] = field(default_factory=list)
    said: list[NDArray[np.float32]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    link: str = SHARES
    sharpness: float = 1.0
    likelihood: float = np.nan
    weight: float = 0.0
    final: OnePositiveClassifier | None = None

    def judge(self, folds: Folds, n_folds: int) -> NDArray[np.float64]:
        """Choose link and temperature on the first folds; return the log-probabilities of their observed labels."""
        observed = folds.labels(n_folds)
        links = (SHARES,) if hasattr(self.models[0], "_log_shares") else ("probability", "odds")
        found = [(*inverse_temperature(self._log_scores(n_folds, link), observed), link) for link in links]
        self.sharpness, self.likelihood, self.link = max(found, key=lambda one: one[1])
        return at_observed(self.log_probabilities(n_folds), observed)

    def log_probabilities(self, n_folds: int) -> NDArray[np.float64]:
        """Log-probabilities of all labels of the rows of the first folds."""
        return np.asarray(log_softmax(self.sharpness * self._log_scores(n_folds, self.link), axis=1))

    def _log_scores(self, n_folds: int, link: str) -> NDArray[np.float64]:
        said = np.concatenate(self.said[:n_folds]).astype(np.float64)
        return said if link == SHARES else LINKS[link](said)

    @property
    def members(self) -> list[OnePositiveClassifier]:
        """The models that predict."""
        return [self.final] if self.final is not None else self.models


def mean_likelihood(told: NDArray[np.float64], observed: NDArray[np.int8]) -> float:
    """Mean over rows of the log-probabilities of observed labels, which share the weight of their row."""
    counts = (observed > 0).sum(axis=1)
    share = np.repeat(1.0 / np.maximum(counts, 1), counts)
    return float(told @ share / share.sum())


def weigh(trials: list[Trial], folds: Folds, n_folds: int) -> None:
    """Judge trials on their first folds and set their weights: all of it to the best one if the pool is less likely."""
    observed = folds.labels(n_folds)
    told = np.stack([trial.judge(folds, n_folds) for trial in trials])
    weights, _ = pool_weights(told, observed)
    weights = np.where(weights < min(LEAST_WEIGHT, weights.max()), 0.0, weights)
    weights /= weights.sum()
    used = weights > 0
    pooled = np.logaddexp.reduce(told[used] + np.log(weights[used])[:, None], axis=0)
    best = int(np.argmax([trial.likelihood for trial in trials]))
    if mean_likelihood(pooled, observed) < trials[best].likelihood:
        weights = np.eye(len(trials))[best]
    for trial, weight in zip(trials, weights, strict=True):
        trial.weight = float(weight)
