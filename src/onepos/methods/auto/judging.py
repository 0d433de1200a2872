"""How ``auto`` judges its candidates: the rows that each is trained on and judged by, its likelihood and its weight.

A candidate says with log-scores what label it expects to be observed; likelihoods of held-out observed labels compare
candidates and weigh them. The only row of a label is in every training part.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax

from onepos import metrics
from onepos._utils.validation import cases, has_label, stacked, to_dense
from onepos.label_sets.pooling import at_observed, inverse_temperature, pool_weights
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.auto.candidates import Candidate
from onepos.rows.splits import RowNumbers, Split, first_alike, folds, hold_out
from onepos.rows.stored import take

#: With fewer labelled rows than this none is held out, and members count alike.
FEWEST_TO_JUDGE = 50
#: Folds when the caller does not say how many.
FOLDS = 8
#: Most entries (rows × labels) of a fold that are kept to judge by.
_MOST_JUDGED = 500_000
#: With more labelled rows candidates are judged by one part, of ``_HELD`` rows, and begin with a sample of the others.
MANY_ROWS = 36_000
_HELD, _LEAST_HELD = 5000, 500
#: Rows that each kind is taken to have explained beforehand, its variants together; all networks are of one kind. With
#: few rows the most likely weights are luck. Chosen on 14 tables of 100 to 400 rows; average precision on nine others
#: rose by .002. Ten times as much costs .002.
_PRIOR_ROWS = 0.5
#: Candidates with less of the pool hardly change a ranking, and would cost time and room with every prediction.
LEAST_WEIGHT = 0.05
#: Kinds that predict some thousand rows per second, and what one of them must add to the ranking of many rows.
SLOW, _WORTH = ("forest", "kernel"), 0.002

#: How a model's scores become log-scores of the observed label.
LINKS: dict[str, Callable[[NDArray[Any]], NDArray[np.float64]]] = {
    "shares": np.asarray,  # the model has log-shares of its own
    "probability": log_expit,  # P(observed = j) ∝ f_j
    "odds": np.asarray,  # P(observed = j) ∝ f_j / (1 − f_j)
}

#: Features and observed labels.
Labelled = tuple[Any, Any]


@dataclass(frozen=True)
class Folds:
    """Labelled rows in folds: ``parts`` are those to train on and to judge by; complete ``judges`` judge alone."""

    features: Any
    observed: Any
    parts: list[Split]
    judges: Labelled | None = None
    #: Of many rows: those to train on, in the order in which candidates get them.
    order: RowNumbers | None = None

    def __len__(self) -> int:
        return 1 if self.judges is not None else len(self.parts)

    def first(self, n_rows: int) -> Self:
        """Only so many of the ordered rows to train on, the same ones to judge by."""
        assert self.order is not None
        return replace(self, parts=[(np.sort(self.order[:n_rows]), self.parts[0][1])])

    def train(self, fold: int) -> Labelled:
        """Features and labels to train on without a fold; all of them if nothing is held out."""
        if not self.parts:
            return self.features, self.observed
        rows, _ = self.parts[fold]
        return take(self.features, rows), self.observed[rows]

    def held(self, fold: int) -> Labelled | None:
        """Features and labels to judge by, if there are any."""
        if self.judges is not None or not self.parts:
            return self.judges
        _, rows = self.parts[fold]
        return take(self.features, rows), self.observed[rows]

    def labels(self, n_folds: int) -> Any:
        """Labels of the held-out rows of the first folds."""
        if self.judges is not None:
            return self.judges[1]
        return stacked([self.observed[rows] for _, rows in self.parts[:n_folds]])


def deal(
    features: Any,
    observed: Any,
    given: Labelled | None,
    generator: np.random.Generator,
    *,
    complete: bool,
    n_folds: int | None,
    fraction: float,
) -> Folds:
    """Deal labelled rows into folds, with ``given`` ones that are not ``complete``; one fold holds out ``fraction``."""
    if given is not None and not complete:
        features, observed = stacked([features, given[0]]), stacked([observed, given[1]])
    labelled = np.flatnonzero(has_label(observed))
    n_rows, n_labels = len(labelled), observed.shape[1]
    if n_rows < observed.shape[0]:
        features, observed = take(features, labelled), observed[labelled]
    if given is not None and complete and (n_folds is not None or n_rows <= MANY_ROWS):
        return Folds(features, observed, [], given)
    if n_rows < max(FEWEST_TO_JUDGE, 2 * int(((observed > 0).sum(axis=0) > 0).sum())):
        return Folds(features, observed, [])
    if n_folds is None and n_rows > MANY_ROWS:
        return _deal_many(features, observed, given if complete else None, generator)
    n_folds = FOLDS if n_folds is None else n_folds
    most = max(200, _MOST_JUDGED // n_labels)
    alike = first_alike(features)
    if n_folds == 1:
        parts = [hold_out(observed, min(fraction, most / n_rows), generator, alike=alike)]
    else:
        parts = folds(observed, max(n_folds, -(-n_rows // most)), generator, alike=alike)[:n_folds]
    return Folds(features, observed, parts)


def _deal_many(features: Any, observed: Any, judges: Labelled | None, generator: np.random.Generator) -> Folds:
    """Hold out some rows, unless there are ``judges``; the order of the others begins with a row of each label."""
    n_rows, n_labels = observed.shape
    train, held = np.arange(n_rows), np.empty(0, dtype=np.intp)
    if judges is None:
        n_held = min(_HELD, max(_LEAST_HELD, _MOST_JUDGED * FOLDS // n_labels))
        train, held = hold_out(observed, n_held / n_rows, generator, alike=first_alike(features))
    order = generator.permutation(train)
    rows, labels, _ = cases(observed[order])
    first = np.unique(rows[np.unique(labels, return_index=True)[1]])
    order = np.concatenate([order[first], np.delete(order, first)])
    return Folds(features, observed, [(train, held)], judges, order=order)


@dataclass
class Contender:
    """A candidate, what became of it fold by fold, and what held-out labels say: how to read its scores, its weight."""

    candidate: Candidate
    number: int
    models: list[OnePositiveClassifier] = field(default_factory=list)
    #: Raw scores of the held-out rows of each fold, and seconds of each training.
    scores: list[NDArray[np.float32]] = field(default_factory=list)
    #: Whether time was enough to learn something; with many rows only these are judged.
    finished: bool = True
    #: Whether its last training ended by itself.
    converged: bool = True
    #: Rows that it was trained on, if these are a sample.
    n_rows: int = 0
    seconds: list[float] = field(default_factory=list)
    link: str = "shares"
    sharpness: float = 1.0
    likelihood: float = np.nan
    weight: float = 0.0
    final: OnePositiveClassifier | None = None

    @property
    def members(self) -> list[OnePositiveClassifier]:
        """The models that predict."""
        return self.models if self.final is None else [self.final]

    def held_scores(self, n_folds: int) -> NDArray[np.float64]:
        """Raw scores of the held-out rows of the first folds."""
        return np.concatenate(self.scores[:n_folds]).astype(np.float64)

    def log_probabilities(self, n_folds: int) -> NDArray[np.float64]:
        """Log-probabilities of all labels of the held-out rows of the first folds."""
        return expected(self.held_scores(n_folds), self.link, self.sharpness)


def raw_scores(model: OnePositiveClassifier, X: Any) -> NDArray[np.float64]:
    """Log-shares (n_samples, n_labels) of validated features, or logits if the model has no log-shares."""
    return np.asarray(model._log_shares(X) if hasattr(model, "_log_shares") else model._logits(X))


def expected(scores: NDArray[np.float64], link: str, sharpness: float) -> NDArray[np.float64]:
    """Log-probability of each label to be the observed one, from raw scores."""
    return np.asarray(log_softmax(sharpness * LINKS[link](scores), axis=1))


def links_of(model: OnePositiveClassifier) -> tuple[str, ...]:
    """How the scores of a model can be read; the natural way is the first."""
    return ("shares",) if hasattr(model, "_log_shares") else ("probability", "odds")


def weigh(contenders: list[Contender], observed: Any, n_folds: int) -> None:
    """Judge candidates on their first folds and weigh them."""
    for one in contenders:
        scores = one.held_scores(n_folds)
        ways = [(link, *inverse_temperature(LINKS[link](scores), observed)) for link in links_of(one.models[0])]
        one.link, one.sharpness, one.likelihood = max(ways, key=lambda way: way[2])
    at_tags = np.stack([at_observed(one.log_probabilities(n_folds), observed) for one in contenders])
    kinds = ["network" if one.candidate.is_network else one.candidate.key for one in contenders]
    prior = np.array([_PRIOR_ROWS / kinds.count(kind) for kind in kinds])
    weights, _ = pool_weights(at_tags, observed, prior_rows=prior)
    weights = np.where(weights < min(LEAST_WEIGHT, weights.max()), 0.0, weights)
    weights /= weights.sum()
    for one, weight in zip(contenders, weights, strict=True):
        one.weight = float(weight)


def prune(contenders: list[Contender], observed: Any, n_folds: int, n_positives: float) -> None:
    """Take weight from members, the lightest first, without which the pool of the others ranks as well.

    A share of a poor member may raise the likelihood of tags that a good one is wrong about, and spoil the ranking
    where it is right. What counts here is the mean of min(1, m/rank) over the observed labels: about what average
    precision counts if a row has m labels. Slow members must raise it by some thousandths.
    """
    kept = sorted((one for one in contenders if one.weight > 0), key=lambda one: one.weight)
    shares = {one.number: one.weight * np.exp(one.log_probabilities(n_folds)) for one in kept}
    quality = _capped_reciprocal_rank(list(shares.values()), observed, n_positives)
    for one in kept[:-1]:
        rest = [share for number, share in shares.items() if number != one.number]
        without = _capped_reciprocal_rank(rest, observed, n_positives)
        if quality - without <= (_WORTH if one.candidate.key in SLOW else 0.0):
            del shares[one.number]
            one.weight, quality = 0.0, without
    total = sum(one.weight for one in kept)
    for one in kept:
        one.weight /= total


def _capped_reciprocal_rank(shares: list[NDArray[np.float64]], observed: Any, n_positives: float) -> float:
    """Mean of min(1, m/rank) over the observed labels under a sum of shares; labels of a row share its weight."""
    rows, labels, share = cases(observed)
    pooled = np.sum(shares, axis=0)
    ranks = (pooled[rows] >= pooled[rows, labels][:, None]).sum(axis=1)
    return float(share @ np.minimum(1.0, n_positives / ranks) / share.sum())


def mean_likelihood(log_p: NDArray[np.float64], observed: Any) -> float:
    """Mean over rows of the log-probabilities of observed labels, which share the weight of their row."""
    _, _, share = cases(observed)
    return float(log_p @ share / share.sum())


def compare(
    pooled: NDArray[np.float64], contenders: list[Contender], folds: Folds, n_folds: int
) -> tuple[int, dict[str, dict[str, float]]]:
    """Compare the pool with each method on the rows of the first folds; return their number and measures by key."""
    observed = folds.labels(n_folds)
    compared = {"auto": _measures(pooled[: observed.shape[0]], observed)}
    for one in sorted(contenders, key=lambda one: -one.likelihood):
        if len(one.scores) >= n_folds and one.candidate.key not in compared:
            compared[one.candidate.key] = _measures(one.log_probabilities(n_folds), observed)
    return observed.shape[0], compared


def _measures(log_probabilities: NDArray[np.float64], observed: Any) -> dict[str, float]:
    """Ranks of the observed labels, and their mean log-likelihood."""
    values = metrics.single_positive_values(to_dense(observed), log_probabilities)
    likelihood = mean_likelihood(at_observed(log_probabilities, observed), observed)
    return {name: float(np.nanmean(value)) for name, value in values.items()} | {"log_likelihood": likelihood}
