"""From encoded rows to a trained estimator: settings, held-out rows, time, and the comparison with simple methods."""

import math
import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.context import deadline, limit_lifted, progress_to, time_left
from onepos._utils.machine import apart
from onepos.exceptions import DataFileError, LabelWarning
from onepos.label_sets.pooling import inverse_temperature, standardize_rows
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.registry import METHODS, make_classifier
from onepos.rows.splits import Split, can_hold_out, hold_out

#: Methods that predict every training row out of fold and keep the result as ``comparison_``: nothing is held out.
COMPARE_THEMSELVES = frozenset({"auto"})
FREQUENCY, BASELINE = "frequency", "logistic"
#: What a user should know about a model that barely beats the ranking by frequency.
BARELY = (
    "The model barely beats a ranking by frequency alone: the columns say little about the tags, or something is wrong "
    "with them. The doctor looks for reasons."
)
RECALL_AT = (1, 3, 5)  # k of recall at k
SINGLE_POSITIVE_TITLES = {  # of the measures for one known tag per row
    "reciprocal_rank": "Mean reciprocal rank",
    "recall_at_1": "Tag is the first",
    "recall_at_3": "Tag is among the first 3",
    "recall_at_5": "Tag is among the first 5",
}
_FEWEST_ROWS = 4  # Rows with a tag that a network needs
_HELD_OUT = 0.1  # Share of the tagged rows held out, unless the method compares itself
_LEAST_SECONDS = 1.0  # Seconds that auto gets at least, if reading and encoding took all of its time budget
_LEAST_GAIN = 0.03  # A model that closes less than this share of what frequency leaves open barely beats it
_MOST_SECONDS = 60.0  # Seconds after which the baseline stops with its current weights

Scores = dict[str, float]


@dataclass(eq=False)
class EncodedRows:
    """Encoded rows with their tags, and which of them training sees.

    ``train`` are the rows to train on, those without a tag among them; ``held`` are held out. ``most`` rows may be in
    memory at a time (None: all). With it, training gets the features of all rows, and tags of held-out rows are hidden.
    """

    features: Any
    observed: NDArray[np.int8]
    train: NDArray[np.intp]
    held: NDArray[np.intp]
    most: int | None = None

    def to_fit(self, labels: list[str]) -> tuple[Any, pd.DataFrame]:
        """Return features and tags for ``fit``."""
        if self.most is None:
            return self.features[self.train], pd.DataFrame(self.observed[self.train], columns=labels)
        seen = self.observed.copy()
        seen[self.held] = 0
        return self.features, pd.DataFrame(seen, columns=labels)

    def facts(self, labels: list[str]) -> dict[str, Any]:
        """Return how many rows there are, and how many have each label."""
        positive = self.observed > 0
        return {
            "rows": len(positive),
            "rows_without_tag": int((~positive.any(axis=1)).sum()),
            "training_rows": len(self.train),
            "held_out_rows": len(self.held),
            "counts": {name: int(n) for name, n in zip(labels, positive.sum(axis=0), strict=True)},
        }

    def some(self, rows: NDArray[np.intp], most: int | None = None) -> tuple[Any, NDArray[np.int8]]:
        """Return features and tags of rows from all over the given ones, as many as may be read."""
        most = most or self.most
        chosen = rows if most is None else np.sort(rows)[:: max(1, len(rows) // most)]
        part = self.features[chosen]
        return part if self.most is None else np.asarray(part), self.observed[chosen]


def split_rows(observed: NDArray[np.int8], method: str, fraction: float | None, random_state: int | None) -> Split:
    """Return the rows to train on, those without a tag among them, and the rows held out."""
    if fraction is None:
        fraction = 0.0 if method in COMPARE_THEMSELVES else _HELD_OUT
    if fraction == 0 or not can_hold_out(observed):
        return np.arange(len(observed)), np.empty(0, dtype=np.intp)
    return hold_out(observed, fraction, np.random.default_rng(random_state))


def make_estimator(
    method: str, params: dict[str, Any], random_state: int | None, n_positives: float | None, at_least_one: bool
) -> OnePositiveClassifier:
    """Build the estimator and validate its settings, before anything is read or trained."""
    estimator = make_classifier(method, random_state=random_state)
    known = estimator.get_params(deep=False)
    unknown = [name for name in params if name not in known]
    if unknown:
        with_it = [key for key in METHODS if unknown[0] in METHODS[key].load_class()._get_param_names()]
        elsewhere = f" (a setting of {', '.join(with_it)})" if with_it else ""
        raise ValueError(f"method {method!r} has no setting {unknown[0]!r}{elsewhere}; it has: {', '.join(known)}.")
    if n_positives is not None and "n_positives" in params:
        raise ValueError("n_positives is given twice, as a setting of the method and beside it. Leave one of them out.")
    beside: dict[str, Any] = {} if n_positives is None else {"n_positives": n_positives}
    if not at_least_one:  # thresholds for sets of a mean size depend on it
        beside["at_least_one"] = False
    estimator.set_params(**beside | params)
    estimator._validate_params()
    estimator._check_processes()
    return estimator


def check_enough(estimator: OnePositiveClassifier, tags: pd.DataFrame) -> None:
    """Raise if rows are too few for a network, which chooses its number of epochs in folds."""
    n_tagged = int((tags.to_numpy() > 0).any(axis=1).sum())
    if n_tagged < _FEWEST_ROWS and estimator.get_params(deep=False).get("early_stopping") == "auto":
        raise DataFileError(
            f"a network needs at least {_FEWEST_ROWS} rows with a tag to train on; there are {n_tagged}. Add rows, or "
            "take the method logistic."
        )


def fit_in_time(estimator: Any, features: Any, tags: Any, *, started: float, checkpoint: Any = None) -> None:
    """Fit an estimator; time since ``started`` is taken from its budget, if it has one.

    The budget then replaces an outer limit: ``auto`` exceeds it by the seconds that its baselines need at least.
    """
    arguments: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
    budget = estimator.get_params(deep=False).get("time_budget")
    if budget is not None:
        with deadline(started + budget):
            estimator.set_params(time_budget=max(time_left(), _LEAST_SECONDS))
    try:
        with nullcontext() if budget is None else limit_lifted():
            estimator.fit(features, tags, **arguments)
    finally:
        if budget is not None:
            estimator.set_params(time_budget=budget)  # the model reports what the user asked for


def compare(
    estimator: OnePositiveClassifier, method: str, rows: EncodedRows, labels: list[str], random_state: int | None
) -> dict[str, Any] | None:
    """Return how the tags of rows that training did not see are ranked; None if there are no such rows."""
    if not len(rows.held):
        found = getattr(estimator, "comparison_", None)
        return comparison(method, found["methods"], rows=found["rows"], out_of_fold=True) if found else None
    features, observed = rows.some(rows.held)
    own, recalls = rank_held_out(estimator, features, observed)
    methods = {method: own}
    train, tags = rows.to_fit(labels)
    with apart(), progress_to(None), warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        if method != FREQUENCY:
            fitted = make_classifier(FREQUENCY).fit(np.zeros((len(tags), 1)), tags)
            methods[FREQUENCY], _ = rank_held_out(fitted, np.zeros((len(observed), 1)), observed)
        if method != BASELINE and rows.most is None:
            with deadline(time.monotonic() + _MOST_SECONDS):
                fitted = make_classifier(BASELINE, random_state=random_state).fit(train, tags)
            methods[BASELINE], _ = rank_held_out(fitted, features, observed)
    return comparison(method, methods, rows=len(observed), out_of_fold=False) | recalls


def single_positive_values(observed: NDArray[Any], scores: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return what one known tag per row tells: its reciprocal rank, and whether it is among the first k.

    A row's other tags are unknown, so a high-ranked label may well be right: these numbers compare models, they do not
    say how good one is. Ties count against the tag. Of several known tags the best ranked counts. Rows without a known
    tag give NaN.
    """
    known = np.asarray(observed) > 0
    best = np.where(known, scores, -np.inf).max(axis=1)
    ranks = np.where(known.any(axis=1), (np.asarray(scores) >= best[:, None]).sum(axis=1), np.nan).astype(np.float64)
    values = {"reciprocal_rank": 1.0 / ranks}
    for k in RECALL_AT:
        values[f"recall_at_{k}"] = np.where(np.isnan(ranks), np.nan, ranks <= k).astype(np.float64)
    return values


def rank_held_out(estimator: Any, features: Any, observed: NDArray[np.int8]) -> tuple[Scores, Scores]:
    """Return how an estimator ranks the tags of rows: for the comparison, and recall at k.

    The log-likelihood is that of softmax(τ·logits), with τ fitted on the same rows: methods differ in the scale of
    their logits, and not every method means probabilities.
    """
    logits = np.asarray(estimator.decision_function(features))
    means = {name: float(np.nanmean(value)) for name, value in single_positive_values(observed, logits).items()}
    _, likelihood = inverse_temperature(standardize_rows(logits), observed)
    return {"reciprocal_rank": means.pop("reciprocal_rank"), "log_likelihood": likelihood}, means


def comparison(method: str, methods: dict[str, Scores], *, rows: int, out_of_fold: bool) -> dict[str, Any]:
    """Return what ``TableModel.facts_["held_out"]`` holds about all methods."""
    own, frequency = methods[method], methods.get(FREQUENCY)
    found = {"rows": rows, "out_of_fold": out_of_fold, "methods": methods, **own, "barely_beats_frequency": False}
    if frequency is not None:
        found["reciprocal_rank_by_frequency"] = frequency["reciprocal_rank"]
        gain = own["reciprocal_rank"] - frequency["reciprocal_rank"]
        likelier = own["log_likelihood"] - frequency["log_likelihood"]
        least_gain = _LEAST_GAIN * (1.0 - frequency["reciprocal_rank"])
        found["barely_beats_frequency"] = gain < least_gain or likelier < -_LEAST_GAIN * frequency["log_likelihood"]
    return found


_MAYBE_NUMBER = storage.Maybe(storage.NUMBER)
#: What a model file holds of ``TableModel.facts_``.
FACTS = storage.Record(
    {
        "method": storage.TEXT,
        "rows": storage.COUNT,
        "rows_without_tag": storage.COUNT,
        "training_rows": storage.COUNT,
        "held_out_rows": storage.COUNT,
        "counts": storage.each(storage.COUNT),
        "decisions": storage.Maybe(storage.each(storage.COUNT)),
        "notes": storage.List(storage.TEXT),
        "held_out": storage.Maybe(
            storage.Record(
                {
                    "rows": storage.COUNT,
                    "out_of_fold": storage.TRUTH,
                    "barely_beats_frequency": storage.TRUTH,
                    "methods": storage.each(storage.each(storage.NUMBER)),
                    "reciprocal_rank": storage.NUMBER,
                    "*": storage.NUMBER,
                }
            )
        ),
        "sets": storage.Record(
            {
                "mean_size": storage.NUMBER,
                "n_positives": storage.Maybe(storage.POSITIVE),
                "guessed": storage.TRUTH,
            }
        ),
        "tuning": storage.Maybe(
            storage.Record(
                {
                    "criterion": storage.TEXT,
                    "score": _MAYBE_NUMBER,
                    "stopped": storage.TEXT,
                    "chosen": storage.each(storage.JSON),
                    "trials": storage.List(
                        storage.Record(
                            {
                                "settings": storage.each(storage.JSON),
                                "state": storage.TEXT,
                                "error": storage.Maybe(storage.TEXT),
                                "*": _MAYBE_NUMBER,
                            }
                        )
                    ),
                }
            )
        ),
        "calibration": storage.Maybe(storage.each(storage.NUMBER)),
    }
)


def tuning_facts(found: Any) -> dict[str, Any]:
    """Return what a ``onepos.tuning.TuneResult`` chose and tried, as values that a model file holds."""
    trials = []
    for record in found.trials.to_dict("records"):
        about = {name: _plain(record.pop(name)) for name in ("score", "epochs", "seconds", "state", "error")}
        trials.append({"settings": {name: _plain(value) for name, value in record.items()}, **about})
    return {
        "criterion": found.criterion,
        "score": _plain(found.best_score),
        "stopped": found.stopped,
        "chosen": {name: _plain(value) for name, value in found.best_params.items()},
        "trials": trials,
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; None where there is none."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is None or str(value) == "<NA>" or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
