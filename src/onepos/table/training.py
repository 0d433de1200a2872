"""From rows to a trained estimator: held-out rows, settings, time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import deadline, limit_lifted, time_left
from onepos._utils.validation import similar
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.registry import METHODS, make_classifier
from onepos.rows.splits import Split, can_hold_out, first_equal, hold_out
from onepos.table.tags import row_marks

#: Methods that predict every training row out of fold and keep the result as ``comparison_``: nothing is held out.
COMPARE_THEMSELVES = frozenset({"auto"})
_HELD_OUT = 0.1  # Share of the tagged rows held out, unless the method compares itself
_LEAST_SHARE = 0.15  # Share of its time budget that auto gets at least, if reading and encoding took all of it


@dataclass(eq=False)
class EncodedRows:
    """Encoded rows with their tags, and which of them training sees.

    ``train`` are the rows to train on, those without a tag among them; ``held`` are held out.
    """

    features: Any
    observed: Any  # int8, an array or a CSR array
    train: NDArray[np.intp]
    held: NDArray[np.intp]
    #: Number of the encoded row that each row of the table is in, if rows were joined.
    thing: NDArray[np.intp] | None = None

    def held_in_table(self) -> NDArray[np.intp]:
        """Return the rows of the table that are held out."""
        return self.held if self.thing is None else np.flatnonzero(np.isin(self.thing, self.held))

    def to_fit(self, labels: list[str]) -> tuple[Any, pd.DataFrame]:
        """Return features and tags for ``fit``."""
        tags = self.observed[self.train]
        return self.features[self.train], tags if sparse.issparse(tags) else pd.DataFrame(tags, columns=labels)


def split_rows(
    observed: Any,
    method: str,
    fraction: float | None,
    random_state: int | None,
    features: pd.DataFrame | None = None,
) -> Split:
    """Return the rows to train on, those without a tag among them, and the rows held out.

    Rows with the same ``features`` stay together, as far as ``onepos.rows.splits`` takes them for one thing.
    """
    if fraction is None:
        fraction = 0.0 if method in COMPARE_THEMSELVES else _HELD_OUT
    if fraction == 0 or not can_hold_out(observed):
        return np.arange(observed.shape[0]), np.empty(0, dtype=np.intp)
    marks = None if features is None else row_marks(features)
    alike = None if marks is None else first_equal(marks)
    return hold_out(observed, fraction, np.random.default_rng(random_state), alike=alike)


def make_estimator(
    method: str, params: dict[str, Any], random_state: int | None, n_positives: float | None, at_least_one: bool
) -> OnePositiveClassifier:
    """Build the estimator and validate its settings, before anything is read or trained."""
    estimator = make_classifier(method, random_state=random_state)
    known = estimator.get_params()
    unknown = sorted(params.keys() - known)
    if unknown:
        with_it = [key for key in METHODS if unknown[0] in METHODS[key].load_class()._get_param_names()]
        elsewhere = f" (a setting of {', '.join(with_it)})" if with_it else ""
        has = similar(unknown[0], known) or f"It has: {', '.join(known)}."
        raise ValueError(f"method {method!r} has no setting {unknown[0]!r}{elsewhere}. {has}")
    if n_positives is not None and "n_positives" in params:
        raise ValueError("n_positives is given twice, as a setting of the method and beside it. Leave one of them out.")
    beside: dict[str, Any] = {} if n_positives is None else {"n_positives": n_positives}
    if not at_least_one:  # thresholds for sets of a mean size depend on it
        beside["at_least_one"] = False
    estimator.set_params(**beside | params)
    estimator._validate_params()
    estimator._check_processes()
    return estimator


def fit_in_time(estimator: Any, features: Any, tags: Any, *, started: float, checkpoint: Any = None) -> None:
    """Fit an estimator; time since ``started`` is taken from its budget, if it has one.

    The budget then replaces an outer limit: ``auto`` exceeds it by the seconds that its baselines need at least.
    """
    arguments: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
    budget = estimator.get_params(deep=False).get("time_budget")
    if budget is None:
        estimator.fit(features, tags, **arguments)
        return
    with deadline(started + budget):
        estimator.set_params(time_budget=max(time_left(), _LEAST_SHARE * budget))
    try:
        with limit_lifted():
            estimator.fit(features, tags, **arguments)
    finally:
        estimator.set_params(time_budget=budget)  # the model reports what the user asked for
