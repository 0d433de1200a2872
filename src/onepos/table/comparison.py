"""How a model tells tags that training did not see, beside the frequency of labels and a logistic regression."""

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos._utils.deadline import deadline
from onepos._utils.launch import apart
from onepos.exceptions import LabelWarning
from onepos.label_sets.pooling import inverse_temperature, standardize_rows
from onepos.methods.registry import METHODS, make_classifier
from onepos.table.scores import single_positive_values

if TYPE_CHECKING:
    import pandas as pd

    from onepos.methods._base import OnePositiveClassifier


FREQUENCY = "frequency"
#: What a user would try first.
BASELINE = "logistic" if "logistic" in METHODS else "linear"
#: Methods that predict every training row out of fold and keep the result as ``comparison_``: nothing is held out.
COMPARE_THEMSELVES = frozenset({"auto"})
#: A model that closes less than this share of what frequency leaves open barely beats it.
_LEAST_GAIN = 0.03
#: The baseline stops there with what it has.
_MOST_SECONDS = 60.0

#: What a user of such a model should know.
BARELY = (
    "The model barely beats a ranking by frequency alone: the columns say little about the tags, or something is wrong "
    "with them. The doctor looks for reasons."
)

Methods = dict[str, dict[str, float]]


def tell_held_out(
    estimator: "OnePositiveClassifier", features: Any, observed: NDArray[np.int8]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return how an estimator ranks the tags of rows: for the comparison, and recall at k.

    The log-likelihood is that of softmax(τ·logits), with τ fitted on the same rows: methods differ in the scale of
    their logits, and not every method means probabilities.
    """
    logits = np.asarray(estimator.decision_function(features))
    means = {name: float(np.nanmean(value)) for name, value in single_positive_values(observed, logits).items()}
    _, likelihood = inverse_temperature(standardize_rows(logits), observed)
    rank = {"reciprocal_rank": means.pop("reciprocal_rank"), "log_likelihood": likelihood}
    return rank, means


def tell_baselines(
    train: tuple[Any, "pd.DataFrame"],
    held: tuple[Any, NDArray[np.int8]],
    *,
    without: str,
    random_state: int | None = None,
    linear: bool = True,
) -> Methods:
    """Fit frequency and logistic regression on training rows and tell how they rank the held-out tags."""
    features, tags = train
    n_held = len(held[1])
    found: Methods = {}
    with apart(), warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        if without != FREQUENCY:
            fitted = make_classifier(FREQUENCY).fit(np.zeros((len(tags), 1)), tags)
            found[FREQUENCY], _ = tell_held_out(fitted, np.zeros((n_held, 1)), held[1])
        if linear and without != BASELINE:
            with deadline(time.monotonic() + _MOST_SECONDS):
                fitted = make_classifier(BASELINE, random_state=random_state).fit(features, tags)
            found[BASELINE], _ = tell_held_out(fitted, held[0], held[1])
    return found


def comparison(method: str, methods: Methods, *, rows: int, out_of_fold: bool) -> dict[str, Any]:
    """Return what ``TableModel.facts_["held_out"]`` holds about all methods.

    Examples
    --------
    >>> frequency = {"reciprocal_rank": 0.30, "log_likelihood": -2.00}
    >>> model = {"reciprocal_rank": 0.31, "log_likelihood": -1.98}
    >>> found = comparison("auto", {"auto": model, "frequency": frequency}, rows=100, out_of_fold=True)
    >>> found["barely_beats_frequency"]
    True
    """
    own, frequency = methods[method], methods.get(FREQUENCY)
    found = {"rows": rows, "out_of_fold": out_of_fold, "methods": methods, **own}
    if frequency is not None:
        found["reciprocal_rank_by_frequency"] = frequency["reciprocal_rank"]
    return found | {"barely_beats_frequency": frequency is not None and _barely_beats(own, frequency)}


def _barely_beats(own: dict[str, float], frequency: dict[str, float]) -> bool:
    gain = own["reciprocal_rank"] - frequency["reciprocal_rank"]
    likelier = own["log_likelihood"] - frequency["log_likelihood"]
    open_rank, open_likelihood = 1.0 - frequency["reciprocal_rank"], -frequency["log_likelihood"]
    return gain < _LEAST_GAIN * open_rank or likelier < _LEAST_GAIN * open_likelihood
