"""What a trained ``TableModel`` tells: how it ranks tags that training did not see, beside simple methods.

``FACTS`` is what a model file holds of it.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.context import deadline, progress_to, quiet, time_left
from onepos._utils.machine import apart
from onepos._utils.validation import to_dense
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.label_sets.pooling import inverse_temperature, standardize_rows
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.registry import make_classifier
from onepos.metrics import single_positive_values
from onepos.table.training import EncodedRows

FREQUENCY, BASELINE = "frequency", "logistic"
#: What a user should know about a model that barely beats the ranking by frequency.
BARELY = (
    "The model barely beats a ranking by frequency alone: the columns say little about the tags, or something is wrong "
    "with them. The doctor looks for reasons."
)
SINGLE_POSITIVE_TITLES = {  # of the measures for one known tag per row
    "reciprocal_rank": "Mean reciprocal rank",
    "recall_at_1": "Tag is the first",
    "recall_at_3": "Tag is among the first 3",
    "recall_at_5": "Tag is among the first 5",
}
_MOST_COMPARED = 20_000_000  # Rows × labels by which methods are compared
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
    held = rows.held[:: max(1, len(rows.held) * len(labels) // _MOST_COMPARED)]
    features, observed = rows.features[held], to_dense(rows.observed[held])
    methods = {method: rank_held_out(estimator, features, observed)}
    train, tags = rows.to_fit(labels)
    with apart(), progress_to(None), quiet(LabelWarning), quiet(TrainingWarning):
        if method != FREQUENCY:
            fitted = make_classifier(FREQUENCY).fit(np.zeros((tags.shape[0], 1)), tags)
            methods[FREQUENCY] = rank_held_out(fitted, np.zeros((len(observed), 1)), observed)
        if method != BASELINE and time_left() > 0:
            with deadline(time.monotonic() + _MOST_SECONDS):
                fitted = make_classifier(BASELINE, random_state=random_state).fit(train, tags)
            methods[BASELINE] = rank_held_out(fitted, features, observed)
    return comparison(method, methods, rows=len(observed), out_of_fold=False)


def rank_held_out(estimator: Any, features: Any, observed: NDArray[np.int8]) -> Scores:
    """Return how an estimator ranks the tags of rows.

    The log-likelihood is that of softmax(τ·logits), with τ fitted on the same rows: methods differ in the scale of
    their logits, and not every method means probabilities.
    """
    logits = np.asarray(estimator.decision_function(features))
    means = {name: float(np.nanmean(value)) for name, value in single_positive_values(observed, logits).items()}
    return means | {"log_likelihood": inverse_temperature(standardize_rows(logits), observed)[1]}


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
