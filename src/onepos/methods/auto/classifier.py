"""Auto: try several methods within a time budget, judge them by the observed labels alone, pool them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.context import remember_work, tell, warn
from onepos._utils.parameters import COUNT, COUNT_OR_ZERO, POSITIVE, Constraints, one_of
from onepos._utils.validation import all_or_nothing, seed_from, to_dense
from onepos.exceptions import TrainingWarning
from onepos.label_sets.pooling import pool
from onepos.label_sets.thresholds import estimate_n_positives
from onepos.methods._base import OnePositiveClassifier, SharesClassifier
from onepos.methods._pretraining import shared_pretraining
from onepos.methods.auto.budget import BASELINES, Budget
from onepos.methods.auto.candidates import (
    KINDS,
    WITH_SCORES,
    Candidate,
    Shape,
    columns_of,
    first_candidates,
    is_own,
    more_candidates,
    own_candidate,
)
from onepos.methods.auto.judging import (
    FEWEST_TO_JUDGE,
    LINKS,
    Contender,
    Folds,
    compare,
    deal,
    expected,
    links_of,
    prune,
    raw_scores,
)
from onepos.methods.auto.search import Search, finish, run
from onepos.methods.logistic import LogisticClassifier
from onepos.methods.observed_tag import ObservedTagClassifier
from onepos.methods.registry import StoredEstimator
from onepos.methods.scores import ScoresClassifier
from onepos.rows.scaling import fit_scaler
from onepos.rows.stored import take
from onepos.training import History

#: A gain in mean log-likelihood over the label frequencies that is not worth a model.
LEAST_GAIN = 0.02
#: What a record of the history holds; other fields are numbers.
_RECORD = {
    "method": storage.TEXT,
    "settings": storage.each(storage.JSON),
    "weight": storage.NUMBER,
    "*": storage.NUMBER,
}
#: Most rows from which the number of positives is guessed.
_ROWS_TO_GUESS = 4000


class _StoredMember(StoredEstimator):
    """The rule of a member: of a method, or of scores. It may see a part of the columns."""

    def kinds(self) -> dict[str, Callable[[], type]]:
        return super().kinds() | {"ScoresClassifier": lambda: ScoresClassifier}

    def read(self, entry: Any, at: storage.Place) -> Any:
        return super().read(entry, replace(at, sizes={k: n for k, n in at.sizes.items() if k != "features"}))


@dataclass(kw_only=True, eq=False, repr=False)
class AutoClassifier(SharesClassifier):
    """Try several methods within a time budget and pool them. Key: ``auto``, the default of tables.

    Needs no complete labels and no choice of method. Labelled rows are dealt into folds. Each candidate is trained
    without a fold and judged by the likelihood of the observed labels of that fold. Round one tries every kind on one
    fold: label frequencies, logistic regression, a forest, a kernel, networks. Later rounds train only the candidates
    that count. The pool adds their probabilities with the weights that make the held-out observed labels most likely
    (``onepos.label_sets.pooling``).

    Parameters
    ----------
    time_budget : float or None
        Seconds for the whole ``fit``. A candidate that cannot end in time is not started, and one under training
        stops. Which candidates there are then depends on the speed of the machine. None: no limit; equal seeds give
        equal models.
    n_members : int
        Most candidates to train.
    n_folds : int or None
        Folds; 1 holds out ``validation_fraction`` of the rows once. None: 8, and of more than 36,000 labelled rows one
        held-out part: candidates then begin with a sample, and promising ones get more rows. A completely labelled
        validation set given to ``fit`` judges alone.
    methods : "auto" or sequence
        Keys to choose from: frequency, logistic, forest, kernel, capped, wan, softmax, smile, an. "auto": all that
        suit the data. The sequence may have "auto", and classifiers of your own: ``package.module:Class``, or any
        classifier with ``predict_proba``. Their training cannot be stopped when the time is up, and no file can hold
        them.
    n_scores : int
        Number of labels if the last columns of X are scores of the labels in their order, from another model; 0: X
        has none. The scores become one more member, ``ScoresClassifier``, and columns of one more ``logistic``. The
        other members do not see them.
    n_positives, at_least_one
        See ``OnePositiveClassifier``. ``n_positives`` also sets the level of the probabilities; it does not change the
        ranking.
    validation_fraction : float
        Share of the rows held out with ``n_folds=1``.
    scale : {"auto", "standard", "minmax", "none"}
        Feature scaling of all members; "auto" varies it on dense features and leaves sparse features alone.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows progress on standard error.

    Attributes
    ----------
    members_ : list of fitted estimators
    weights_ : float array, one weight per member; their sum is 1
    sharpness_ : float array, one factor on the log-scores per member (τ, an inverse temperature)
    links_ : list of str
        How the scores of each member become log-scores of the observed label.
    history_ : History
        One record per candidate: method, settings, likelihood alone, weight, folds, seconds. ``facts["stopped"]`` says
        what ended the search: "methods" (all were tried), "n_members", "time_budget", "model_size" or "interrupted".
        ``facts["not_finished"]``: methods that had no time to learn. Of many rows a record has the number of ``rows``.
    comparison_ : dict
        How the pool and each method rank the observed labels of held-out rows: ``rows``, their number, and
        ``methods``, with mean reciprocal rank and log-likelihood by key. Empty if there are too few rows to judge.

    Examples
    --------
    >>> from onepos import AutoClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = AutoClassifier(methods=("frequency", "logistic"), time_budget=None, random_state=0)
    >>> model.fit(data.X, data.observed).history_["method"]
    ['frequency', 'logistic']
    """

    _stored: ClassVar[storage.Rules] = {
        "members_": storage.List(_StoredMember(*KINDS), "members", least=1, most=500),
        "weights_": storage.Array("members", "f8", 0, 1),
        "sharpness_": storage.Array("members", "f8", 0, storage.HUGE),
        "links_": storage.List(storage.one_of(*LINKS), "members"),
        "comparison_": storage.Record(
            {
                "rows": storage.IfSet(storage.COUNT),
                "methods": storage.IfSet(storage.each(storage.each(storage.NUMBER))),
            }
        ),
        "history_": storage.Part(History, records=storage.List(storage.Record(_RECORD))),
    }

    time_budget: float | None = 60.0
    n_members: int = 24
    n_folds: int | None = None
    methods: Any = "auto"
    validation_fraction: float = 0.1
    scale: str = "auto"
    n_scores: int = 0
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[Constraints] = {
        **SharesClassifier._parameter_constraints,
        "time_budget": [POSITIVE, None],
        "n_members": [COUNT],
        "n_folds": [COUNT, None],
        "methods": [one_of("auto"), "array-like"],
        "n_scores": [COUNT_OR_ZERO],
    }

    _takes_sparse_labels: ClassVar[bool] = True

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        if abs(fields["weights_"].sum() - 1.0) > 1e-6:
            raise ValueError(f"weights_ must be shares whose sum is 1, not {fields['weights_'].sum():g}")
        n_features, n_scores = fields["n_features_in_"], fields["_params"].get("n_scores", 0)
        widths = {n_features, n_features - n_scores}
        for member, link in zip(fields["members_"], fields["links_"], strict=True):
            if member.n_features_in_ not in ({n_scores} if isinstance(member, ScoresClassifier) else widths):
                raise ValueError(f"members_ must have {n_features} features, as the model has, or those without scores")
            if link not in links_of(member):
                raise ValueError(f"links_ must have one of {', '.join(links_of(member))} for a {type(member).__name__}")
        return super()._from_stored(fields)

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Train members and pool them; arguments as in ``NeuralClassifier.fit``.

        Further rows in ``validation`` with one positive each are dealt into folds with the others and learnt from; with
        complete labels (``validation_labels="full"``) they only judge.
        """
        end = np.inf if self.time_budget is None else time.monotonic() + self.time_budget
        X, labels, given = self._begin(X, y, validation, validation_labels)
        keys, own = self._check_methods()
        if self.n_scores:
            n_labels = len(labels.classes)
            if self.n_scores != n_labels or n_labels == 1 or X.shape[1] <= n_labels:
                raise ValueError(
                    "n_scores must be 0, or the number of labels if there are two or more and X has other columns, "
                    f"too; got {self.n_scores} with {n_labels} labels and {X.shape[1]} columns."
                )
            own += [Candidate("scores", {}, ScoresClassifier()), Candidate(WITH_SCORES, {}, LogisticClassifier())]
        seed = seed_from(self.random_state)
        generator = np.random.default_rng(seed)
        complete, fraction = validation_labels == "full", self.validation_fraction
        folds = deal(X, labels.observed, given, generator, complete=complete, n_folds=self.n_folds, fraction=fraction)
        shape = Shape.of(columns_of(folds.features, self.n_scores), len(labels.classes))
        if not len(folds):  # nothing judges: the methods that need no choice count alike
            keys = tuple(key for key in keys if key in ("logistic", "forest")) or keys[:2]
        guessed = self.n_positives_from_ == "default"
        n_positives = _guessed_n_positives(folds, self.n_scores, generator) if guessed else self.n_positives_

        def candidates(shape: Shape) -> tuple[list[Candidate], list[Candidate]]:
            first, later = first_candidates(keys, shape, self.scale, n_positives)
            return [*first[:1], *own, *first[1:]], later

        search = Search(folds, shape, Budget.until(end, growing=folds.order is not None), seed, candidates)
        search.n_scores = self.n_scores
        if search.grows:
            search.begin_with_sample()
        first, later = search.candidates()
        more = more_candidates(keys, shape, self.scale, n_positives)
        with remember_work(), shared_pretraining():  # graph and hidden layers serve several candidates
            run(search, first, later, more, self.n_members)
            if search.grows:
                prune(search.contenders, search.folds.labels(search.n_judged), search.n_judged, self.n_positives_)
            self._keep(search)
        tell(1.0, "pooling")
        self.history_.facts["stopped"] = search.stopped
        if search.stopped == "interrupted":
            warn("training was interrupted; the members trained so far are used.", TrainingWarning, stacklevel=2)
        return self

    @property
    def not_stored(self) -> str:
        """Why there is no file of it; empty if there is."""
        own = [] if isinstance(self.methods, str) else [one for one in self.methods if is_own(one)]
        return ObservedTagClassifier.not_stored if own else ""

    def _check_methods(self) -> tuple[tuple[str, ...], list[Candidate]]:
        """Return the keys, and candidates of the user's own."""
        if isinstance(self.methods, str):
            return tuple(KINDS), []
        plain = [one for one in self.methods if not is_own(one)]
        own = [own_candidate(one) for one in self.methods if is_own(one)]
        keys = tuple(dict.fromkeys(key for one in plain for key in (KINDS if one == "auto" else (str(one),))))
        if set(keys) - set(KINDS) or not (keys or own):
            raise ValueError(f"methods must name some of auto, {', '.join(KINDS)}; got {self.methods!r}.")
        return keys, own

    def _keep(self, search: Search) -> None:
        """Train the final models, and keep members, weights and what was tried."""
        tried, n_folds = search.contenders, search.n_judged
        if not n_folds:
            for one in tried:  # read in the natural way
                one.link, one.weight = links_of(one.members[0])[0], 1.0 / len(tried)
        finish(search)
        kept = [one for one in tried if one.weight > 0]
        members = [(model, one) for one in kept for model in one.members]
        self.members_: list[OnePositiveClassifier] = [model for model, _ in members]
        self.weights_ = np.array([one.weight / len(one.members) for _, one in members])
        self.sharpness_ = np.array([one.sharpness for _, one in members])
        self.links_ = [one.link for _, one in members]
        self.history_ = History()
        for one in [*tried, *(one for one in search.dropped if one.finished)]:
            record: dict[str, Any] = {"method": one.candidate.key, "settings": one.candidate.settings}
            record |= {"log_likelihood": one.likelihood} if n_folds else {}
            facts = {"weight": one.weight, "folds": len(one.seconds), "seconds": sum(one.seconds)}
            self.history_.append(record | facts | ({"rows": one.n_rows} if search.grows else {}))
        unfinished = [one.candidate.key for one in [*tried, *search.dropped] if not one.finished]
        if unfinished:
            self.history_.facts["not_finished"] = list(dict.fromkeys(unfinished))
        self.comparison_: dict[str, Any] = {}
        self.history_.facts["folds"] = n_folds
        self.history_.facts["judged_by"] = "nothing: too few rows, members count alike"
        if n_folds and len(self.classes_) > 1:
            hurried = [one for one in [*tried, *search.dropped] if not (one.finished and one.converged)]
            too_slow = list(dict.fromkeys(one.candidate.key for one in hurried))
            self._compare(tried, search.folds, n_folds, too_slow)
        else:
            self._cut_at(self._logits(search.folds.features), rows="training rows")

    def _compare(self, tried: list[Contender], folds: Folds, n_folds: int, too_slow: list[str]) -> None:
        """Compare the pool with its members on held-out rows, warn if it is useless, and choose the cut of sets."""
        kept = [one for one in tried if one.weight > 0]
        pooled = pool(
            np.stack([one.log_probabilities(n_folds) for one in kept]), np.array([one.weight for one in kept])
        )
        self._cut_at(self._marginal(pooled), rows="out-of-fold rows")
        # A baseline without weight may have fewer folds: all are compared on the rows that it has said something of.
        n_compared = min([n_folds, *(len(one.scores) for one in tried if one.candidate.key in BASELINES)])
        n_rows, methods = compare(pooled, tried, folds, n_compared)
        self.comparison_ = {"rows": n_rows, "methods": methods}
        facts = self.history_.facts
        facts["judged_by"] = f"likelihood of the observed labels of {len(pooled)} rows"
        if "frequency" not in methods:
            return
        gain = methods["auto"]["log_likelihood"] - methods["frequency"]["log_likelihood"]
        facts |= {"gain_over_frequency": gain, "beats_frequency": gain >= LEAST_GAIN}
        learnt = any(one.finished and one.converged and one.candidate.key != "frequency" for one in tried)
        if gain < LEAST_GAIN and not learnt and too_slow:
            facts["converged"] = False
            warn(
                f"the time was too short for {', '.join(too_slow)} to learn from {folds.observed.shape[0]:,} rows: the "
                "model is hardly better than ranking labels by their frequency. Pass a larger time_budget (--budget on "
                "the command line), or fewer rows.",
                TrainingWarning,
                stacklevel=4,
            )
        elif gain < LEAST_GAIN and not self.single_label_:
            warn(
                "the features hardly tell the labels: on held-out rows the model is no better than ranking labels "
                f"by their frequency (gain in mean log-likelihood {gain:.3f}). Add columns, or check that rows and "
                "labels belong together.",
                TrainingWarning,
                stacklevel=4,
            )

    def _logits(self, X: Any) -> NDArray[np.float64]:
        if len(self.classes_) > 1:
            return super()._logits(X)
        # Nothing to rank: the mean of what the members say.
        logits = [member._logits(X) for member in self.members_]
        return np.asarray(np.average(logits, axis=0, weights=self.weights_))

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        features, scores = (columns_of(X, self.n_scores, key) for key in ("", "scores"))

        def seen(member: OnePositiveClassifier) -> Any:
            if isinstance(member, ScoresClassifier):
                return scores
            return X if member.n_features_in_ == X.shape[1] else features

        log_p = [
            expected(raw_scores(member, seen(member)), link, sharpness)
            for member, sharpness, link in zip(self.members_, self.sharpness_, self.links_, strict=True)
        ]
        return pool(np.stack(log_p), self.weights_)


def _guessed_n_positives(folds: Folds, n_scores: int, generator: np.random.Generator) -> float | None:
    """Guess the number of positives for members that train towards it."""
    n_rows = folds.observed.shape[0]
    if n_rows < FEWEST_TO_JUDGE:
        return None
    rows = np.sort(generator.choice(n_rows, min(n_rows, _ROWS_TO_GUESS), replace=False))
    features = columns_of(take(folds.features, rows), n_scores)
    return estimate_n_positives(fit_scaler(features, "auto").transform(features), to_dense(folds.observed[rows]))
