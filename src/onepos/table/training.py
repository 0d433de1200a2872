"""From encoded rows to a trained estimator: settings, held-out rows, time."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.context import deadline, limit_lifted, time_left
from onepos.exceptions import DataFileError
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.registry import METHODS, make_classifier
from onepos.rows.splits import Split, can_hold_out, hold_out

#: Methods that predict every training row out of fold and keep the result as ``comparison_``: nothing is held out.
COMPARE_THEMSELVES = frozenset({"auto"})
_FEWEST_ROWS = 4  # Rows with a tag that a network needs
_HELD_OUT = 0.1  # Share of the tagged rows held out, unless the method compares itself
_LEAST_SECONDS = 1.0  # Seconds that auto gets at least, if reading and encoding took all of its time budget


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
