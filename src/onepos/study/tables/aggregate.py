"""Mean, standard deviation and number of trials of each method on each data set."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from onepos.metrics import METRICS

#: The two rules by which a setting may be selected on the validation rows.
SELECTIONS = ("clean", "single-positive")

_KEY = ["dataset", "method", "trial", "selection"]
_KNOWN = {"selection": SELECTIONS, "status": ("ok", "failed"), "features": ("paper", "substitute")}


def finished(results: pd.DataFrame, metric: str, selection: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Check the frame and return its finished and its failed rows under one selection rule.

    Parameters
    ----------
    results : DataFrame
        One row per cell of the study: ``dataset``, ``features`` ("paper" or "substitute"), ``method``, ``trial``,
        ``selection`` ("clean" or "single-positive"), ``status`` ("ok" or "failed") and the measures; other
        columns are not looked at.
    metric : str
        Must be finite wherever the status is "ok".
    selection : str
        Which rows to take.
    """
    if metric not in METRICS:
        raise ValueError(f"expected a metric among {', '.join(METRICS)}; got {metric!r}: choose one of these")
    _check_columns(results, [*_KEY, "features", "status", metric])
    rows = results[results["selection"] == selection]
    if rows.empty:
        there = ", ".join(map(repr, results["selection"].unique())) or "none, the frame is empty"
        raise ValueError(f"expected rows with selection {selection!r}; there are: {there}. Run that selection first")
    ok = rows[rows["status"] == "ok"]
    if not ok[metric].abs().lt(float("inf")).all():
        bad = ok[~ok[metric].abs().lt(float("inf"))].iloc[0]
        raise ValueError(
            f"expected a finite {metric} in every row with status 'ok'; got {bad[metric]} for {bad['dataset']}, "
            f"{bad['method']}, trial {bad['trial']}: such a cell has the status 'failed'"
        )
    return ok, rows[rows["status"] == "failed"]


def _check_columns(results: pd.DataFrame, needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in results.columns]
    if missing:
        raise ValueError(
            f"expected the columns {', '.join(needed)}; {', '.join(missing)} missing: give one row per cell of a study"
        )
    for name, known in _KNOWN.items():
        other = set(results[name].unique()) - set(known)
        if other:
            raise ValueError(f"expected {name} among {', '.join(known)}; got {', '.join(sorted(map(repr, other)))}")
    twice = results[results.duplicated(_KEY)]
    if not twice.empty:
        cell = ", ".join(f"{name} {twice.iloc[0][name]}" for name in _KEY)
        raise ValueError(f"expected one row per cell; got two for {cell}: give one training size at a time")
    mixed = results.groupby("dataset")["features"].nunique()
    if (mixed > 1).any():
        raise ValueError(
            f"expected one kind of features per data set; {mixed.idxmax()} has both: give the substitute its own name"
        )


@dataclass(frozen=True)
class Summary:
    """One method on one data set: over ``count`` finished trials, which are all that are expected if ``complete``."""

    mean: float
    std: float
    count: int
    complete: bool


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One metric under one selection rule, data sets down and methods across.

    Attributes
    ----------
    metric, selection : str
    datasets, methods : tuple of str
        The order of the frames' rows and columns.
    mean, std : DataFrame
        Over finished trials; nan where there is none, ``std`` (n - 1 in the denominator) also where there is one.
    count, failed : DataFrame of int
        Finished and failed trials.
    features : mapping of data set to "paper" or "substitute"
    expected_trials : int
        How many finished trials make a cell complete.
    """

    metric: str
    selection: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    mean: pd.DataFrame
    std: pd.DataFrame
    count: pd.DataFrame
    failed: pd.DataFrame
    features: Mapping[str, str]
    expected_trials: int

    @property
    def complete(self) -> pd.DataFrame:
        """Where all expected trials are finished; only such means are compared with each other."""
        return self.count >= self.expected_trials

    def summary(self, dataset: str, method: str) -> Summary:
        """Return one cell; an empty one for a data set or a method that is not in the table."""
        if dataset not in self.datasets or method not in self.methods:
            return Summary(math.nan, math.nan, 0, False)
        at = self.datasets.index(dataset), self.methods.index(method)
        count = int(self.count.to_numpy()[at])
        return Summary(
            float(self.mean.to_numpy()[at]), float(self.std.to_numpy()[at]), count, count >= self.expected_trials
        )

    def complete_means(self, methods: Sequence[str]) -> pd.DataFrame:
        """Return the means of these methods on the data sets on which all of them are complete."""
        chosen = list(methods)
        return self.mean.loc[self.complete[chosen].all(axis=1), chosen]


def aggregate(
    results: pd.DataFrame,
    metric: str,
    *,
    selection: str = "clean",
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    expected_trials: int | None = None,
) -> Aggregate:
    """Average the finished trials of each cell; failed ones are left out and counted.

    Parameters
    ----------
    results : DataFrame
        One row per cell, see the package's text.
    metric : str
        One of :data:`onepos.metrics.METRICS`.
    selection : {"clean", "single-positive"}, default="clean"
    datasets, methods : sequence of str, optional
        Which to take, in which order; by default all in order of first appearance. One that has no rows yet
        gives an empty line: a study may be half done.
    expected_trials : int, optional
        By default the number of different trials under this selection rule.

    Examples
    --------
    >>> from onepos.study.tables import example_results
    >>> table = aggregate(example_results(), "average_precision")
    >>> table.datasets, table.methods
    (('scene', 'yeast'), ('smile', 'an', 'bce'))
    >>> table.summary("yeast", "an")
    Summary(mean=0.74, std=nan, count=1, complete=False)
    >>> int(table.failed.loc["yeast", "an"])
    1
    """
    ok, failed = finished(results, metric, selection)
    rows = results[results["selection"] == selection]
    down = _order(rows["dataset"], datasets, "data sets")
    across = _order(rows["method"], methods, "methods")
    groups = ok.groupby(["dataset", "method"], sort=False)[metric]

    def wide(values: "pd.Series[Any]") -> pd.DataFrame:
        return values.unstack().reindex(index=list(down), columns=list(across)).astype(float)

    features = dict(zip(rows["dataset"], rows["features"], strict=True))
    return Aggregate(
        metric=metric,
        selection=selection,
        datasets=down,
        methods=across,
        mean=wide(groups.mean()),
        std=wide(groups.std(ddof=1)),
        count=wide(groups.count()).fillna(0).astype(int),
        failed=wide(failed.groupby(["dataset", "method"], sort=False)["trial"].count()).fillna(0).astype(int),
        features={name: features[name] for name in down if name in features},
        expected_trials=int(rows["trial"].nunique()) if expected_trials is None else expected_trials,
    )


def _order(found: "pd.Series[str]", asked: Sequence[str] | None, what: str) -> tuple[str, ...]:
    present = tuple(dict.fromkeys(found.tolist()))
    if asked is None:
        return present
    if not set(asked) & set(present):
        raise ValueError(f"expected {what} among {', '.join(present)}; got {', '.join(asked) or 'none'}")
    return tuple(dict.fromkeys(asked))


_PRECISION = {
    ("scene", "smile"): (0.82, 0.84),
    ("scene", "an"): (0.80, 0.81),
    ("scene", "bce"): (0.87, 0.88),
    ("yeast", "smile"): (0.75, 0.76),
    ("yeast", "an"): (0.74, None),
    ("yeast", "bce"): (0.77, 0.78),
}


def example_results() -> pd.DataFrame:
    """Return made-up results in the form that every function of this package takes.

    Examples
    --------
    >>> example_results().groupby("status").size().to_dict()
    {'failed': 2, 'ok': 22}
    """
    rows = []
    for selection, loss in zip(SELECTIONS, (0.0, 0.01), strict=True):
        for (dataset, method), values in _PRECISION.items():
            for trial, value in enumerate(values):
                key = {"dataset": dataset, "features": "paper", "method": method, "trial": trial}
                state = {"selection": selection, "status": "failed" if value is None else "ok"}
                precision = float("nan") if value is None else value - loss
                measures = dict.fromkeys(METRICS, 1 - precision) | {"average_precision": precision}
                rows.append(key | state | measures)
    return pd.DataFrame(rows)
