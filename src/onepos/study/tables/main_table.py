"""The main table: mean, spread and number of trials of each method on each data set, average ranks below."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypedDict, Unpack

import pandas as pd

from onepos.metrics import METRICS, higher_is_better
from onepos.study.statistics import average_ranks
from onepos.study.tables.formats import DIGITS, Cell, Grid, mean_std, metric_title, name_of, rank_cells

#: The two rules by which a setting may be selected on the validation rows.
SELECTIONS = ("clean", "single-positive")

#: Methods that see more than one label per row: shown, but no rivals of those that do not.
FULL_SUPERVISION = ("bce",)

_KEY = ["dataset", "method", "trial", "selection"]
_KNOWN = {"selection": SELECTIONS, "status": ("ok", "failed"), "features": ("paper", "substitute")}


class Which(TypedDict, total=False):
    """The rows that a table is made of: optional parameters of :func:`aggregate` that all tables share."""

    selection: str
    datasets: Sequence[str] | None
    methods: Sequence[str] | None
    expected_trials: int | None


def _check(results: pd.DataFrame, metric: str) -> None:
    """Raise ValueError unless the frame has one row per cell, each with the columns that tables need."""
    if metric not in METRICS:
        raise ValueError(f"expected a metric among {', '.join(METRICS)}; got {metric!r}: choose one of these")
    needed = [*_KEY, "features", "status", metric]
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
    """One method on one data set, over ``count`` finished trials.

    ``complete`` says that all expected trials are finished. ``best`` marks the best methods of a main table.
    """

    mean: float
    std: float
    count: int
    complete: bool
    best: bool = False

    def shown(self) -> Cell:
        """Return mean±std, with the number of trials as a mark if some are missing."""
        mark = f"†{self.count}" if self.count and not self.complete else ""
        return Cell(mean_std(self.mean, self.std), self.best, mark)


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One metric under one selection rule, data sets down and methods across.

    ``mean`` and ``std`` (n - 1 in the denominator) are over finished trials, nan where there are too few; ``count`` and
    ``failed`` are the numbers of trials. A cell with ``expected_trials`` finished trials is complete.
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
        mean, std, count = (float(frame.to_numpy()[at]) for frame in (self.mean, self.std, self.count))
        return Summary(mean, std, int(count), count >= self.expected_trials)

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
        One row per cell, see the package's text. Finished rows must have a finite metric. Only the Hamming loss may be
        nan, for data with one tag per row; such rows are left out.
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
    >>> table.summary("yeast", "an").count, table.summary("yeast", "an").complete
    (1, False)
    >>> int(table.failed.loc["yeast", "an"])
    1
    """
    _check(results, metric)
    rows = results[results["selection"] == selection]
    if rows.empty:
        there = ", ".join(map(repr, results["selection"].unique())) or "none, the frame is empty"
        raise ValueError(f"expected rows with selection {selection!r}; there are: {there}. Run that selection first")
    ok = rows[(rows["status"] == "ok") & (rows[metric].notna() | (metric != "hamming_loss"))]
    endless = ok[~ok[metric].abs().lt(math.inf)]
    if not endless.empty:
        bad = endless.iloc[0]
        raise ValueError(
            f"expected a finite {metric} in every row with status 'ok'; got {bad[metric]} for {bad['dataset']}, "
            f"{bad['method']}, trial {bad['trial']}: such a cell has the status 'failed'"
        )
    down, across = (_order(rows[column], asked) for column, asked in (("dataset", datasets), ("method", methods)))
    groups, failed = (
        part.groupby(["dataset", "method"], sort=False)[metric] for part in (ok, rows[rows["status"] == "failed"])
    )

    def wide(values: "pd.Series[Any]", empty: float) -> pd.DataFrame:
        return values.unstack().reindex(index=list(down), columns=list(across)).astype(float).fillna(empty)

    features = dict(zip(rows["dataset"], rows["features"], strict=True))
    return Aggregate(
        metric=metric,
        selection=selection,
        datasets=down,
        methods=across,
        mean=wide(groups.mean(), math.nan),
        std=wide(groups.std(ddof=1), math.nan),
        count=wide(groups.size(), 0).astype(int),
        failed=wide(failed.size(), 0).astype(int),
        features={name: features[name] for name in down if name in features},
        expected_trials=int(rows["trial"].nunique()) if expected_trials is None else expected_trials,
    )


def _order(found: "pd.Series[str]", asked: Sequence[str] | None) -> tuple[str, ...]:
    present = tuple(dict.fromkeys(found.tolist()))
    if asked is None:
        return present
    if not set(asked) & set(present):
        raise ValueError(f"expected {found.name}s among {', '.join(present)}; got {', '.join(asked) or 'none'}")
    return tuple(dict.fromkeys(asked))


@dataclass(frozen=True)
class MainTable:
    """The result of :func:`main_table`; ``average_ranks`` has the competing methods, over ``ranked_datasets``."""

    metric: str
    selection: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[tuple[str, str], Summary]
    average_ranks: Mapping[str, float]
    ranked_datasets: tuple[str, ...]
    features: Mapping[str, str]
    expected_trials: int
    failed: int

    def frame(self) -> pd.DataFrame:
        """One row per data set and method: mean, std, count, best, incomplete, features."""
        return pd.DataFrame(
            {
                "metric": self.metric,
                "selection": self.selection,
                "dataset": dataset,
                "method": method,
                "mean": cell.mean,
                "std": cell.std,
                "count": cell.count,
                "best": cell.best,
                "incomplete": not cell.complete,
                "features": self.features.get(dataset),
            }
            for (dataset, method), cell in self.cells.items()
        )

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Data sets down, methods across; see :class:`onepos.study.tables.Table`."""
        rows = [
            (Cell(dataset), *(self.cells[dataset, method].shown() for method in self.methods))
            for dataset in self.datasets
        ]
        ranks = rank_cells([self.average_ranks.get(method) for method in self.methods])
        return Grid(
            title=metric_title(self.metric),
            header=("data set", *(name_of(method, names) for method in self.methods)),
            rows=tuple(rows),
            footer=((Cell("average rank"), *ranks),),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> list[str]:
        notes = [
            f"Mean±std over {self.expected_trials} trials; settings selected on {self.selection} validation labels; "
            "bold: best, full supervision and incomplete cells apart.",
            f"Average rank over the {len(self.ranked_datasets)} of {len(self.datasets)} data sets that every ranked "
            "method has completed.",
        ]
        if any(cell.shown().mark for cell in self.cells.values()):
            notes.append(f"†n: only n of {self.expected_trials} trials are finished.")
        if self.failed:
            notes.append(f"Trials that failed and are left out: {self.failed}.")
        substitutes = [name for name in self.datasets if self.features.get(name) == "substitute"]
        if substitutes:
            notes.append(f"Not the paper's features: {', '.join(substitutes)}.")
        return notes


def main_table(results: pd.DataFrame, metric: str, **which: Unpack[Which]) -> MainTable:
    """Make the table of one metric; ``which`` are parameters of :func:`onepos.study.tables.aggregate`.

    Means that agree in the decimals shown are equally good: all are bold. Full supervision is neither ranked nor bold.

    Examples
    --------
    >>> from onepos.study.tables import example_results
    >>> table = main_table(example_results(), "average_precision")
    >>> [method for method in table.methods if table.cells["scene", method].best]
    ['smile']
    >>> table.cells["yeast", "an"].complete, table.average_ranks
    (False, {'smile': 1.0, 'an': 2.0})
    """
    values = aggregate(results, metric, **which)
    competing = [method for method in values.methods if method not in FULL_SUPERVISION]
    # A method that was completed nowhere is not ranked; it must not take every data set out of the ranking.
    ranked = values.complete_means([method for method in competing if values.complete[method].any()])
    ranks = average_ranks(ranked.to_numpy(), higher_is_better=higher_is_better(metric)) if ranked.size else ()
    cells = {}
    for dataset in values.datasets:
        row = {method: values.summary(dataset, method) for method in values.methods}
        shown = {method: round(row[method].mean, DIGITS) for method in competing if row[method].complete}
        best = (max if higher_is_better(metric) else min)(shown.values(), default=None)
        for method, cell in row.items():
            cells[dataset, method] = replace(cell, best=method in shown and shown[method] == best)
    return MainTable(
        metric=metric,
        selection=values.selection,
        datasets=values.datasets,
        methods=values.methods,
        cells=cells,
        average_ranks=dict(zip(ranked.columns, ranks, strict=False)),
        ranked_datasets=tuple(ranked.index),
        features=values.features,
        expected_trials=values.expected_trials,
        failed=int(values.failed.to_numpy().sum()),
    )


def example_results() -> pd.DataFrame:
    """Return made-up results in the form that every function of this package takes.

    Examples
    --------
    >>> example_results().groupby("status").size().to_dict()
    {'failed': 2, 'ok': 22}
    """
    values = {"smile": (0.82, 0.84, 0.75, 0.76), "an": (0.80, 0.81, 0.74, None), "bce": (0.87, 0.88, 0.77, 0.78)}
    rows = []
    for selection, loss in zip(SELECTIONS, (0.0, 0.01), strict=True):
        for number, (dataset, trial) in enumerate(product(("scene", "yeast"), range(2))):
            for method, of_method in values.items():
                value = of_method[number]
                key = {"dataset": dataset, "features": "paper", "method": method, "trial": trial}
                state = {"selection": selection, "status": "failed" if value is None else "ok"}
                precision = float("nan") if value is None else value - loss
                measures = dict.fromkeys(METRICS, 1 - precision) | {"average_precision": precision}
                rows.append(key | state | measures)
    return pd.DataFrame(rows)
