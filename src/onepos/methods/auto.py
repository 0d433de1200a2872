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
from onepos._validation import Labels
from onepos.cardinality import resolve_n_positives
from onepos.exceptions import LabelWarning, ModelFileError
from onepos.features import take
from onepos.memory import remember_work
from onepos.methods._auto_portfolio import CHOOSING, CLASSES, KINDS, Candidate, candidates, settings_for
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._holdout import hold_out
from onepos.methods._neural import NeuralClassifier
from onepos.scaling import SCALE_KINDS
from onepos.stacking import inverse_temperature, marginal_logits, pool, pool_weights, standardize_rows
from onepos.training import Callback, History, Objective, ProgressBar

#: With fewer labelled rows than this none is held out, and members count alike.
FEWEST_TO_JUDGE = 50
#: Members with less of the pool hardly change a ranking, and would cost time and room with every prediction.
LEAST_WEIGHT = 0.02


class _Deadline(Callback):
    """Ends the training of a network with the epoch in which the time is up."""

    def __init__(self, end: float) -> None:
        self.end = end

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> bool:
        return time.monotonic() >= self.end


def _silent(step: str, share: float) -> None:
    """Tell nobody."""


@dataclass
class _Trial:
    """A fitted member, what it says of the held-out rows, and what it took."""

    candidate: Candidate
    model: OnePositiveClassifier
    scores: NDArray[np.float64] | None
    seconds: float


class _FittedAuto(OnePositiveClassifier):
    members_: list[OnePositiveClassifier]
    weights_: NDArray[np.float64]
    sharpness_: NDArray[np.float64]
    n_positives_: float
    history_: History


@dataclass(kw_only=True, eq=False, repr=False)
class AutoClassifier(_FittedAuto):
    """Try several methods and settings, and combine them by how well they tell the observed labels. Key: ``auto``.

    Needs no complete labels and no choice of method. Members are trained one after the other until the time or their
    number is used up; then their probabilities are pooled, with the weights that maximise the likelihood of the
    observed labels of held-out rows (``onepos.stacking``).

    Parameters
    ----------
    time_budget : float or None
        Seconds for all members together; a network under training when they are over ends with its epoch. At least one
        member is trained. None: no limit. Which members there are then depends on the machine's speed; give None
        and ``n_members`` to have the same model everywhere.
    n_members : int
        Most members to train.
    methods : "auto" or sequence of str
        Keys to choose from: frequency, linear, wan, softmax, mlml, smile, d2ml, an. "auto": all; those that would
        take too long for the number of rows and labels are left out.
    combine : bool
        Pool all members; False keeps the one with the highest likelihood.
    n_positives : float or None
        Mean number of positive labels per example, for the probabilities; it does not change the ranking. None: taken
        from a fully labelled validation set if there is one, else 2 (fewer if there are only two labels).
    validation_fraction : float
        Share of the rows held out to judge members by, and to stop their training early.
    scale : {"auto", "standard", "minmax", "none"}
        Feature scaling of all members; "auto" tries standardising and min-max in turn, and leaves sparse
        features alone.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows the progress of every member on standard error.

    Attributes
    ----------
    members_ : list of fitted estimators with a weight of .02 or more
    weights_ : float array, one weight a member; their sum is 1
    sharpness_ : float array, one factor on the standardised logits a member (τ, an inverse temperature)
    history_ : History
        One record a member that was tried: method, settings, score, likelihood alone, weight, seconds.

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
            Rows to judge members by. Without it ``validation_fraction`` of X is held out.
        validation_labels : {"single", "full"}
            Whether ``Y_val`` shows one positive per row or all of them.
        progress : callable, optional
            Called before every member with what it is and the share of the work that is behind.
        """
        X, labels = self._check_training(X, y)
        keys = self._check_methods()
        given = self._check_validation(validation, validation_labels, labels)
        full = given[1] if given is not None and validation_labels == "full" else None
        self.n_positives_, source = resolve_n_positives(
            self.n_positives, len(labels.classes), full, one_class=labels.single_label
        )
        seeds = np.random.SeedSequence(seed_from(self.random_state))
        train, held = self._split(X, labels, given, np.random.default_rng(seeds.spawn(1)[0]))
        tried, stopped = self._try(keys, train, held, validation_labels, seeds, progress or _silent)
        self._weigh(tried, None if held is None else held[1])
        self.history_.facts |= {"n_positives": self.n_positives_, "n_positives_from": source, "stopped": stopped}
        self.history_.facts["judged_by"] = (
            "nothing: too few rows, members count alike"
            if held is None
            else f"likelihood of the observed labels of {len(held[1])} rows"
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

    def _split(
        self, X: Any, labels: Labels, given: tuple[Any, NDArray[np.int8]] | None, generator: np.random.Generator
    ) -> tuple[tuple[Any, NDArray[np.int8]], tuple[Any, NDArray[np.int8]] | None]:
        """Rows to train on and rows to judge by, if there are enough."""
        labelled = np.flatnonzero(labels.labelled)
        if given is not None or len(labelled) < max(FEWEST_TO_JUDGE, 2 * len(labels.classes)):
            return (X, labels.observed), given
        kept, out = hold_out(labels.observed, labelled, self.validation_fraction, generator)
        return (take(X, kept), labels.observed[kept]), (take(X, out), labels.observed[out])

    def _try(
        self,
        keys: tuple[str, ...],
        train: tuple[Any, NDArray[np.int8]],
        held: tuple[Any, NDArray[np.int8]] | None,
        kind: str,
        seeds: np.random.SeedSequence,
        progress: Callable[[str, float], None],
    ) -> tuple[list[_Trial], str]:
        """Train members until their number or the time is used up or Ctrl-C comes, and say which of these."""
        started = time.monotonic()
        end = np.inf if self.time_budget is None else started + self.time_budget
        tried: list[_Trial] = []
        features, observed = train
        if len(observed) <= int((observed > 0).any(axis=0).sum()):
            keys = tuple(key for key in keys if key not in CHOOSING)
        pool = candidates(keys, (*features.shape, observed.shape[1]), **settings_for(features, self.scale))
        with remember_work():  # the graph and the like serve several members
            for candidate in pool:
                if len(tried) == self.n_members:
                    return tried, "n_members"
                if tried and time.monotonic() >= end:
                    return tried, "time_budget"
                done = max(len(tried) / self.n_members, (time.monotonic() - started) / (end - started))
                progress(f"member {len(tried) + 1}, {candidate.key}", min(done, 1.0))
                tried.append(
                    self._train(candidate, train, held, kind, int(seeds.spawn(1)[0].generate_state(1)[0]), end)
                )
                history = getattr(tried[-1].model, "history_", None)
                if history is not None and history.facts.get("stopped") == "interrupted":
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
        train: tuple[Any, NDArray[np.int8]],
        held: tuple[Any, NDArray[np.int8]] | None,
        kind: str,
        seed: int,
        end: float,
    ) -> _Trial:
        started = time.monotonic()
        model = candidate.build(seed)
        more: dict[str, Any] = {}
        if held is not None:
            more = {"validation": held, "validation_labels": kind}
        if isinstance(model, NeuralClassifier):
            model.set_params(early_stopping=False)
            shown = [ProgressBar(candidate.key)] if self.verbose else []
            more["callbacks"] = [_Deadline(end), *shown]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelWarning)  # about these labels one warning was given already
            model.fit(*train, **more)
        scores = None if held is None else standardize_rows(model.decision_function(held[0]))
        return _Trial(candidate, model, scores, time.monotonic() - started)

    def _weigh(self, tried: list[_Trial], observed: NDArray[np.int8] | None) -> None:
        """Find the weights, keep the members that have one, and write down what was tried."""
        weights = np.full(len(tried), 1.0 / len(tried))
        sharpness, alone = np.ones(len(tried)), [np.nan] * len(tried)
        if observed is not None:
            scores = np.stack([trial.scores for trial in tried if trial.scores is not None])
            fitted = [inverse_temperature(values, observed) for values in scores]
            sharpness, alone = np.array([factor for factor, _ in fitted]), [likelihood for _, likelihood in fitted]
            if self.combine:
                weights, _ = pool_weights(log_softmax(sharpness[:, None, None] * scores, axis=2), observed)
                weights = np.where(weights < min(LEAST_WEIGHT, weights.max()), 0.0, weights)
                weights /= weights.sum()
        if not self.combine:
            weights = np.zeros(len(tried))
            weights[int(np.nanargmax(alone)) if observed is not None else 0] = 1.0
        self.history_ = History()
        for trial, likelihood, weight in zip(tried, alone, weights, strict=True):
            record: dict[str, Any] = {"method": trial.candidate.key, "settings": trial.candidate.settings}
            if trial.scores is not None and observed is not None:
                record["valid_average_precision"] = metrics.average_precision(observed, trial.scores)
                record["log_likelihood"] = likelihood
            self.history_.append(record | {"weight": float(weight), "seconds": trial.seconds})
        self.members_ = [trial.model for trial, weight in zip(tried, weights, strict=True) if weight > 0]
        self.weights_, self.sharpness_ = weights[weights > 0], sharpness[weights > 0]

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
