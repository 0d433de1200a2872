"""A method's estimator from what the user set, with mistakes named before anything is trained."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos.methods.registry import METHODS, make_classifier

if TYPE_CHECKING:
    from onepos.methods._base import OnePositiveClassifier
    from onepos.table.model import TableModel


def make_estimator(
    method: str, params: dict[str, Any], random_state: int | None, n_positives: float | None
) -> tuple["OnePositiveClassifier", bool]:
    """Build the estimator; ``random_state`` is given to methods that draw random numbers.

    Also returned: whether ``n_positives`` is left to a threshold, because the method itself has no use for it.
    """
    known = make_classifier(method).get_params(deep=False)
    if n_positives is not None and "n_positives" in known:
        params.setdefault("n_positives", n_positives)
    unknown = [name for name in params if name not in known]
    if unknown:
        with_it = [key for key in METHODS if unknown[0] in METHODS[key].load_class()._get_param_names()]
        elsewhere = f" (a setting of {', '.join(with_it)})" if with_it else ""
        raise ValueError(
            f"method {method!r} has no setting {unknown[0]!r}{elsewhere}; it has: {', '.join(known) or 'none'}."
        )
    if "random_state" in known:
        params.setdefault("random_state", random_state)
    estimator = make_classifier(method, **params)
    estimator._validate_params()
    estimator._check_processes()
    return estimator, n_positives is not None and "n_positives" not in known


# What a search for settings tells, as values that a model file holds.


#: Columns of the table of trials that are no settings.
_ABOUT_TRIALS = ("score", "epochs", "seconds", "state", "error")


def tuning_facts(found: Any) -> dict[str, Any]:
    """Return what was chosen and what was tried, from a ``onepos.tuning.TuneResult``."""
    trials = []
    for record in found.trials.to_dict("records"):
        about = {name: _known(record.pop(name)) for name in _ABOUT_TRIALS}
        trials.append({"settings": {name: _known(value) for name, value in record.items()}, **about})
    return {
        "criterion": found.criterion,
        "score": _known(found.best_score),
        "stopped": found.stopped,
        "chosen": {name: _known(value) for name, value in found.best_params.items()},
        "trials": trials,
    }


def _known(value: Any) -> Any:
    """Return a value as JSON has it; None for what is not there."""
    if isinstance(value, tuple | list):
        return [_known(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is None or str(value) == "<NA>" or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


# How many labels a model puts into its sets, and whether that number is known or a guess.


#: Rows by which the size of sets is told.
_MOST_ROWS = 2_000


def set_facts(model: "TableModel", features: Any, rows: NDArray[np.intp], n_positives: float | None) -> dict[str, Any]:
    """Return the mean size of the sets of some rows, from all over those given, and the number that was asked for."""
    some = rows[:: max(1, len(rows) // _MOST_ROWS)]
    sizes = model._sets(model.estimator_.predict_proba(features[some])).sum(axis=1)
    return {"mean_size": float(sizes.mean()), "n_positives": n_positives, "guessed": n_positives is None}
