"""Auto: try several methods within a time budget, judge them by the observed labels alone, combine them."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.utils._param_validation import Interval, StrOptions

from onepos import metrics
from onepos._random import seed_from
from onepos.cardinality import resolve_n_positives
from onepos.exceptions import LabelWarning, ModelFileError
from onepos.features import take
from onepos.memory import remember_work
from onepos.methods._auto_folds import FEWEST_TO_JUDGE, MOST_IN_FOLDS, LabelledRows, Part, judged_labels, parts_of
from onepos.methods._auto_portfolio import CHOOSING, CLASSES, KINDS, Candidate, candidates, settings_for
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._neighbor_agreement import estimate_n_positives
from onepos.methods._neural import NeuralClassifier
from onepos.scaling import SCALE_KINDS, fit_scaler
from onepos.stacking import at_observed, inverse_temperature, marginal_logits, pool, pool_weights, standardize_rows
from onepos.training import Callback, History, Objective, ProgressBar

#: Candidates with less of the pool hardly change a ranking, and would cost time and room with every prediction.
LEAST_WEIGHT = 0.02


class _Deadline(Callback):
    """Ends the training of a network with the epoch in which the time is up."""

    def __init__(self, end: float) -> None:
        self.end = end

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> bool:
        return time.monotonic() >= self.end


def _was_interrupted(model: OnePositiveClassifier) -> bool:
    """Whether Ctrl-C ended its training."""
    history = getattr(model, "history_", None)
    return history is not None and history.facts.get("stopped") == "interrupted"


def _silent(step: str, share: float) -> None:
    """Tell nobody."""


@dataclass
class _Trial:
    """A candidate, its models, one for each part of the rows, what they say of the rows that judge, what it took."""

    candidate: Candidate
    models: list[OnePositiveClassifier]
    seconds: float
    sharpness: float = 1.0
    likelihood: float = np.nan
    average_precision: float = np.nan
    told: NDArray[np.float64] | None = None  # log-probabilities of the observed labels

    def judge(self, scores: NDArray[np.float64], observed: NDArray[np.int8]) -> None:
        """Find the temperature, and keep what the likelihood needs: scores of all labels would take much room."""
        self.sharpness, self.likelihood = inverse_temperature(scores, observed)
        self.told = at_observed(log_softmax(self.sharpness * scores, axis=1), observed)
        self.average_precision = metrics.average_precision(observed, scores)


class _FittedAuto(OnePositiveClassifier):
    members_: list[OnePositiveClassifier]
    weights_: NDArray[np.float64]
    sharpness_: NDArray[np.float64]
    n_positives_: float
    history_: History


@dataclass(kw_only=True, eq=False, repr=False)
class AutoClassifier(_FittedAuto):
    """Try several methods and settings, and combine them by how well they tell the observed labels. Key: ``auto``.

    Needs no complete labels and no choice of method. Candidates are trained one after the other until the time or their
    number is used up, each once for every fold of the rows, without that fold; then their probabilities are pooled,
    with the weights that maximise the likelihood of the observed labels of rows they were not trained on
    (``onepos.stacking``).

    Parameters
    ----------
    time_budget : float or None
        Seconds for all candidates together; a network under training when they are over ends with its epoch, and a
        candidate that has not been trained for all folds by then does not count, unless it is the first. Which
        candidates there are then depends on the machine's speed; give None and ``n_members`` to have the same
        model everywhere. None: no limit.
    n_members : int
        Most candidates to train.
    n_folds : int or None
        Models of each candidate. 1: one, judged by ``validation_fraction`` of the rows. None: 5, or 1 with more than
        50,000 rows. A completely labelled validation set given to ``fit`` judges alone, and each candidate has one
        model.
    methods : "auto" or sequence of str
        Keys to choose from: frequency, linear, capped, wan, softmax, mlml, smile, d2ml, an. "auto": all; those that
        would take too long for the number of rows and labels are left out.
    combine : bool
        Pool all candidates; False keeps the one with the highest likelihood.
    n_positives : float or None
        Mean number of positive labels per example, for the probabilities; it does not change the ranking. None: taken
        from a fully labelled validation set if there is one, else 2 (fewer if there are only two labels).
    validation_fraction : float
        Share of the rows held out to judge by, and to stop training early, when there are no folds.
    scale : {"auto", "standard", "minmax", "none"}
        Feature scaling of all members; "auto" tries standardising and min-max in turn, and leaves sparse
        features alone.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows the progress of every member on standard error.

    Attributes
    ----------
    members_ : list of fitted estimators
        The models of all candidates that have a weight of .02 or more.
    weights_ : float array, one weight a member; their sum is 1
    sharpness_ : float array, one factor on the standardised logits a member (τ, an inverse temperature)
    history_ : History
        One record a candidate that was tried: method, settings, score, likelihood alone, weight, seconds.

    Examples
    --------
    >>> from onepos import AutoClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = AutoClassifier(methods=("linear", "mlml"), time_budget=None, random_state=0).fit(data.X, data.observed)
    >>> model.history_["method"]
    ['linear', 'mlml']
    """

    time_budget: float | None = 120.0
    n_members: int = 12
    n_folds: int | None = None
    methods: Any = "auto"
    combine: bool = True
    n_positives: float | None = None
    validation_fraction: float = 0.1
    scale: str = "auto"
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "n_folds": [Interval(Integral, 1, None, closed="left"), None],
        "methods": [StrOptions({"auto"}), "array-like"],
        "combine": ["boolean"],
        "n_positives": [Interval(Real, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "scale": [StrOptions(set(SCALE_KINDS))],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        validation: tuple[Any, Any] | None = None,
        validation_labels: str = "single",
        progress: Callable[[str, float], None] | None = None,
    ) -> Self:
        """Train members and combine them.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
        y : indicator (n_samples, n_labels), or vector of classes (n_samples,)
            1 observed, 0 unknown, −1 known absent. DataFrame columns name the labels.
        validation : (X_val, Y_val), optional
            Further rows. With one positive each they are dealt into folds with the others, and learnt from; with
            complete labels, or with ``n_folds=1``, they only judge.
        validation_labels : {"single", "full"}
            Whether ``Y_val`` shows one positive per row or all of them.
        progress : callable, optional
            Called before every candidate with what it is and the share of the work that is behind.
        """
        X, labels = self._check_training(X, y)
        keys = self._check_methods()
        given = self._check_validation(validation, validation_labels, labels)
        full = given[1] if given is not None and validation_labels == "full" else None
        self.n_positives_, source = resolve_n_positives(
            self.n_positives, len(labels.classes), full, one_class=labels.single_label
        )
        seeds = np.random.SeedSequence(seed_from(self.random_state))
        parts = parts_of(
            LabelledRows(X, labels.observed),
            None if given is None else LabelledRows(*given),
            complete=validation_labels == "full",
            n_folds=self.n_folds,
            fraction=self.validation_fraction,
            generator=np.random.default_rng(seeds.spawn(1)[0]),
        )
        told = self.n_positives_ if source != "default" else self._guess_n_positives(keys, X, labels.observed, seeds)
        tried, stopped = self._try(keys, parts, validation_labels, told, seeds, progress or _silent)
        judged = judged_labels(parts)
        self._weigh(tried, judged)
        self.history_.facts |= {"n_positives": self.n_positives_, "n_positives_from": source, "stopped": stopped}
        self.history_.facts["folds"] = len(parts)
        self.history_.facts["judged_by"] = (
            "nothing: too few rows, members count alike"
            if judged is None
            else f"likelihood of the observed labels of {len(judged)} rows"
        )
        return self

    def _check_methods(self) -> tuple[str, ...]:
        if isinstance(self.methods, str):
            return tuple(KINDS)
        keys = tuple(str(key) for key in self.methods)
        unknown = [key for key in keys if key not in KINDS]
        if unknown or not keys:
            raise ValueError(f"methods must name some of {', '.join(KINDS)}; got {self.methods!r}.")
        return keys

    def _guess_n_positives(
        self, keys: tuple[str, ...], X: Any, observed: NDArray[np.int8], seeds: np.random.SeedSequence
    ) -> float | None:
        """Guess the number of positives for members that train towards it, from at most ``MOST_IN_FOLDS`` rows."""
        labelled = np.flatnonzero((observed > 0).any(axis=1))
        if "capped" not in keys or len(labelled) < FEWEST_TO_JUDGE:
            return None
        if len(labelled) > MOST_IN_FOLDS:
            generator = np.random.default_rng(seeds.spawn(1)[0])
            labelled = np.sort(generator.choice(labelled, MOST_IN_FOLDS, replace=False))
        rows = take(X, labelled)
        scale = settings_for(rows, self.scale)["scales"][0]
        return estimate_n_positives(fit_scaler(rows, scale).transform(rows), observed[labelled])

    def _try(
        self,
        keys: tuple[str, ...],
        parts: list[Part],
        kind: str,
        n_positives: float | None,
        seeds: np.random.SeedSequence,
        progress: Callable[[str, float], None],
    ) -> tuple[list[_Trial], str]:
        """Train candidates until their number or the time is used up or Ctrl-C comes, and say which of these."""
        started = time.monotonic()
        end = np.inf if self.time_budget is None else started + self.time_budget
        tried: list[_Trial] = []
        features, observed = parts[0].train
        if len(observed) <= int((observed > 0).any(axis=0).sum()):
            keys = tuple(key for key in keys if key not in CHOOSING)
        n_judging = 0 if parts[0].held is None else len(parts[0].held.observed)
        shape = (*features.shape, observed.shape[1])
        fitting = settings_for(features, self.scale)
        pool = candidates(keys, shape, n_judging=n_judging, n_positives=n_positives, **fitting)
        with remember_work():  # the graph and the like serve several candidates
            for candidate in pool:
                if len(tried) == self.n_members:
                    return tried, "n_members"
                if tried and time.monotonic() >= end:
                    return tried, "time_budget"
                done = max(len(tried) / self.n_members, (time.monotonic() - started) / (end - started))
                progress(f"member {len(tried) + 1}, {candidate.key}", min(done, 1.0))
                trial = self._train(candidate, parts, kind, seeds, end, may_be_partial=not tried)
                if trial is None:
                    return tried, "time_budget"
                tried.append(trial)
                if any(_was_interrupted(model) for model in trial.models):
                    return tried, "interrupted"
        if not tried:
            raise ValueError(
                f"none of the methods {self.methods!r} fits {len(observed)} rows with {observed.shape[1]} labels: some "
                "take too long for many rows, others need more rows than labels. Name a network as well, such as wan."
            )
        return tried, "methods"

    def _train(
        self,
        candidate: Candidate,
        parts: list[Part],
        kind: str,
        seeds: np.random.SeedSequence,
        end: float,
        *,
        may_be_partial: bool,
    ) -> _Trial | None:
        """Train a candidate on every part; None if the time is over before, unless nothing else is there."""
        started = time.monotonic()
        models: list[OnePositiveClassifier] = []
        scores = []
        for part in parts:
            if models and not may_be_partial and time.monotonic() >= end:
                return None
            model = candidate.build(int(seeds.spawn(1)[0].generate_state(1)[0]))
            more: dict[str, Any] = {}
            if part.held is not None:
                more = {"validation": tuple(part.held), "validation_labels": kind}
            if isinstance(model, NeuralClassifier):
                model.set_params(early_stopping=False)
                shown = [ProgressBar(candidate.key)] if self.verbose else []
                more["callbacks"] = [_Deadline(end), *shown]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LabelWarning)  # about these labels one warning was given already
                model.fit(*part.train, **more)
            models.append(model)
            if part.held is not None:
                scores.append(standardize_rows(model.decision_function(part.held.features)))
            if _was_interrupted(model):
                break
        trial = _Trial(candidate, models, time.monotonic() - started)
        if len(scores) == len(parts):
            observed = judged_labels(parts)
            assert observed is not None
            trial.judge(np.concatenate(scores), observed)
        return trial

    def _weigh(self, tried: list[_Trial], observed: NDArray[np.int8] | None) -> None:
        """Find the weights, keep the models of candidates that have one, and write down what was tried."""
        # One that was interrupted has not said something of every row: it counts only if there is no other.
        judged = [trial for trial in tried if trial.told is not None]
        weights = np.array([1.0 if not judged or trial.told is not None else 0.0 for trial in tried])
        if self.combine:
            if judged and observed is not None:
                found, _ = pool_weights(np.stack([trial.told for trial in judged if trial.told is not None]), observed)
                found = np.where(found < min(LEAST_WEIGHT, found.max()), 0.0, found)
                weights[weights > 0] = found
        else:
            best = int(np.nanargmax([trial.likelihood for trial in tried])) if judged else 0
            weights = np.eye(len(tried))[best]
        weights /= weights.sum()
        self.history_ = History()
        for trial, weight in zip(tried, weights, strict=True):
            record: dict[str, Any] = {"method": trial.candidate.key, "settings": trial.candidate.settings}
            if trial.told is not None:
                record["valid_average_precision"] = trial.average_precision
                record["log_likelihood"] = trial.likelihood
            self.history_.append(record | {"weight": float(weight), "seconds": trial.seconds})
        kept = [(trial, weight) for trial, weight in zip(tried, weights, strict=True) if weight > 0]
        self.members_ = [model for trial, _ in kept for model in trial.models]
        self.weights_ = np.array([weight / len(trial.models) for trial, weight in kept for _ in trial.models])
        self.sharpness_ = np.array([trial.sharpness for trial, _ in kept for _ in trial.models])

    def _logits(self, X: Any) -> NDArray[np.float64]:
        logits = [member._logits(X) for member in self.members_]
        if len(self.classes_) == 1:  # nothing to rank: the mean of what the members say
            return np.asarray(np.average(logits, axis=0, weights=self.weights_))
        log_p = [log_softmax(f * standardize_rows(v), axis=1) for f, v in zip(self.sharpness_, logits, strict=True)]
        return marginal_logits(pool(np.stack(log_p), self.weights_), min(self.n_positives_, len(self.classes_) - 0.5))

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        members = []
        for place, member in enumerate(self.members_):
            own, facts = member._state()
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
            members.append({"class": type(member).__name__, "params": member.get_params(deep=False), "facts": facts})
        return arrays, {
            "members": members,
            "weights": self.weights_.tolist(),
            "sharpness": self.sharpness_.tolist(),
            "n_positives": self.n_positives_,
            "history": {"records": self.history_.records, "facts": self.history_.facts},
        }

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self.members_ = []
        for place, stored in enumerate(facts["members"]):
            if stored["class"] not in CLASSES:
                raise ModelFileError(f"a member of class {stored['class']!r} is not one that auto combines.")
            params = {name: tuple(v) if isinstance(v, list) else v for name, v in stored["params"].items()}
            member = CLASSES[stored["class"]](**params)
            member._validate_params()
            member.classes_, member.single_label_ = np.arange(len(self.classes_)), False
            member.n_features_in_ = self.n_features_in_
            prefix = f"{place}."
            member._restore(
                {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}, stored["facts"]
            )
            self.members_.append(member)
        self.weights_ = np.array(facts["weights"], dtype=np.float64)
        self.sharpness_ = np.array(facts["sharpness"], dtype=np.float64)
        self.n_positives_ = float(facts["n_positives"])
        self.history_ = History(facts["history"]["records"], facts["history"]["facts"])
