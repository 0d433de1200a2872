"""Mean, standard deviation and number of trials of each method on each data set."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from onepos.tables._results import finished


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
        One row a cell, see the package's text.
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
    >>> from onepos.tables import example_results
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
