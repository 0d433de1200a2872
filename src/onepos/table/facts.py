"""What a trained ``TableModel`` tells: how it ranks tags that training did not see, beside simple methods.

``FACTS`` is what a model file holds of it.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.context import deadline, progress_to, quiet
from onepos._utils.machine import apart
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.label_sets.pooling import inverse_temperature, standardize_rows
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.registry import make_classifier
from onepos.table.training import EncodedRows

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
_LEAST_GAIN = 0.03  # A model that closes less than this share of what frequency leaves open barely beats it
_MOST_SECONDS = 60.0  # Seconds after which the baseline stops with its current weights

_HELD_OUT = {
    "rows": storage.COUNT,
    "out_of_fold": storage.TRUTH,
    "barely_beats_frequency": storage.TRUTH,
    "methods": storage.each(storage.each(storage.NUMBER)),
    "reciprocal_rank": storage.NUMBER,
    "*": storage.NUMBER,
}
_SETS = {
    "mean_size": storage.NUMBER,
    "n_positives": storage.Maybe(storage.POSITIVE),
    "guessed": storage.TRUTH,
}
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
        "held_out": storage.Maybe(storage.Record(_HELD_OUT)),
        "sets": storage.Record(_SETS),
        "calibration": storage.Maybe(storage.each(storage.NUMBER)),
    }
)

Scores = dict[str, float]


def compare(
    estimator: OnePositiveClassifier, method: str, rows: EncodedRows, labels: list[str], random_state: int | None
) -> dict[str, Any] | None:
    """Return how the tags of rows that training did not see are ranked; None if there are no such rows."""
    if not len(rows.held):
        own = getattr(estimator, "comparison_", None)
        if not own:
            return None
        facts = comparison(method, own["methods"], rows=own["rows"], out_of_fold=True)
        if not estimator.history_.facts.get("converged", True):  # nothing can be said about the columns
            facts["barely_beats_frequency"] = False
        return facts
    features, observed = rows.features[rows.held], rows.observed[rows.held]
    values, recalls = rank_held_out(estimator, features, observed)
    methods = {method: values}
    train, tags = rows.to_fit(labels)
    with apart(), progress_to(None), quiet(LabelWarning), quiet(TrainingWarning):
        if method != FREQUENCY:
            fitted = make_classifier(FREQUENCY).fit(np.zeros((len(tags), 1)), tags)
            methods[FREQUENCY], _ = rank_held_out(fitted, np.zeros((len(observed), 1)), observed)
        if method != BASELINE:
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
    facts = {"rows": rows, "out_of_fold": out_of_fold, "methods": methods, **own, "barely_beats_frequency": False}
    if frequency is not None:
        facts["reciprocal_rank_by_frequency"] = frequency["reciprocal_rank"]
        gain = own["reciprocal_rank"] - frequency["reciprocal_rank"]
        likelier = own["log_likelihood"] - frequency["log_likelihood"]
        least_gain = _LEAST_GAIN * (1.0 - frequency["reciprocal_rank"])
        facts["barely_beats_frequency"] = gain < least_gain or likelier < -_LEAST_GAIN * frequency["log_likelihood"]
    return facts
