"""The main table: mean, spread and number of trials of each method on each data set, average ranks below."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import pandas as pd

from onepos.metrics import LABEL_METRICS, METRIC_TITLES, higher_is_better
from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.statistics import average_ranks
from onepos_studies.study.tables.grid import DIGITS, Cell, Grid, mean_std, metric_title, rank_cells

#: The two rules by which a setting may be selected on the validation rows.
SELECTIONS = ("clean", "single-positive")

_KEY = ["dataset", "method", "trial", "selection"]
_KNOWN = {"selection": SELECTIONS, "status": ("ok", "failed"), "features": ("paper", "substitute")}


class Which(TypedDict, total=False):
    """The rows that a table is made of: optional parameters of :func:`main_table` that all tables share."""

    selection: str
    datasets: Sequence[str] | None
    methods: Sequence[str] | None
    expected_trials: int | None


@dataclass(frozen=True)
class Summary:
    """One method on one data set: mean and standard deviation (n - 1 in the denominator) over ``count`` trials.

    Both are nan where there are too few trials. ``complete`` says that all expected trials are finished, ``best`` marks
    the best of the data set.
    """

    mean: float = math.nan
    std: float = math.nan
    count: int = 0
    complete: bool = False
    best: bool = False

    def shown(self, *, bold: bool = False) -> Cell:
        """Return mean±std, the best in bold if ``bold``, with the number of trials as a mark if some are missing."""
        mark = f"†{self.count}" if self.count and not self.complete else ""
        return Cell(mean_std(self.mean, self.std), bold and self.best, mark)


@dataclass(frozen=True)
class MainTable:
    """The result of :func:`main_table`: ``cells`` by data set and method.

    ``average_ranks`` has the competing methods, over ``ranked_datasets``; ``failed`` is the number of failed trials.
    """

    metric: str
    selection: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[tuple[str, str], Summary]
    features: Mapping[str, str]
    expected_trials: int
    failed: int
    average_ranks: Mapping[str, float] = field(default_factory=dict)
    ranked_datasets: tuple[str, ...] = ()

    def complete_means(self, methods: Sequence[str]) -> pd.DataFrame:
        """Return the means of these methods on the data sets on which all of them are complete."""
        rows = {dataset: [self.cells[dataset, method] for method in methods] for dataset in self.datasets}
        means = {name: [cell.mean for cell in row] for name, row in rows.items() if all(cell.complete for cell in row)}
        return pd.DataFrame.from_dict(means, orient="index", columns=list(methods))

    def grid(self) -> Grid:
        """Data sets down, methods across, average ranks in the last line."""
        rows = [
            (Cell(dataset), *(self.cells[dataset, method].shown(bold=True) for method in self.methods))
            for dataset in self.datasets
        ]
        rows.append((Cell("average rank"), *rank_cells([self.average_ranks.get(method) for method in self.methods])))
        numbers = [
            (self.metric, self.selection, *key, cell.mean, cell.std, cell.count, cell.best, not cell.complete)
            for key, cell in self.cells.items()
        ]
        columns = ["metric", "selection", "dataset", "method", "mean", "std", "count", "best", "incomplete"]
        data = pd.DataFrame(numbers, columns=columns)
        data["features"] = data["dataset"].map(self.features)
        header = ("data set", *self.methods)
        return Grid(metric_title(self.metric), header, tuple(rows), tuple(self._notes()), data=data)

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
        if substitutes and "paper" in self.features.values():  # a study of one's own has nothing to do with the paper
            notes.append(f"Not the paper's features: {', '.join(substitutes)}.")
        return notes


def main_table(
    results: pd.DataFrame,
    metric: str,
    *,
    selection: str = "clean",
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    expected_trials: int | None = None,
) -> MainTable:
    """Average the finished trials of each method on each data set; failed ones are left out and counted.

    Means that agree in the decimals shown are equally good: all are bold. Full supervision is neither ranked nor bold.

    Parameters
    ----------
    results : DataFrame
        One row per cell, see the package's text. Finished rows must have a finite metric. Only the Hamming loss and
        the measures over labels may be nan, for data with one tag per row; such rows are left out.
    metric : str
        One of :data:`onepos.metrics.METRICS` or :data:`onepos.metrics.LABEL_METRICS`.
    selection : {"clean", "single-positive"}, default="clean"
    datasets, methods : sequence of str, optional
        Which to take, in which order; by default all in order of first appearance. One that has no rows yet
        gives an empty line: a study may be half done.
    expected_trials : int, optional
        By default the number of different trials under this selection rule.
    """
    _check(results, metric)
    rows = results[results["selection"] == selection]
    if rows.empty:
        there = ", ".join(map(repr, results["selection"].unique())) or "none, the frame is empty"
        raise ValueError(f"expected rows with selection {selection!r}; there are: {there}. Run that selection first")
    ok = rows[(rows["status"] == "ok") & (rows[metric].notna() | (metric not in ("hamming_loss", *LABEL_METRICS)))]
    if not ok[metric].abs().lt(math.inf).all():
        raise ValueError(f"expected a finite {metric} in every row with status 'ok': a cell without has failed")
    expected = int(rows["trial"].nunique()) if expected_trials is None else expected_trials
    moments = ok.groupby(["dataset", "method"], sort=False)[metric].agg(["mean", "std", "count"])
    values = {
        key: Summary(mean, std, int(count), complete=count >= expected)
        for key, mean, std, count in moments.itertuples(name=None)
    }
    down, across = (_order(rows[column], asked) for column, asked in (("dataset", datasets), ("method", methods)))
    competing = [method for method in across if not is_full_supervision(method)]
    cells: dict[tuple[str, str], Summary] = {}
    for dataset in down:
        row = {method: values.get((dataset, method), Summary()) for method in across}
        shown = {method: round(row[method].mean, DIGITS) for method in competing if row[method].complete}
        best = (max if higher_is_better(metric) else min)(shown.values(), default=None)
        cells |= {(dataset, m): replace(cell, best=m in shown and shown[m] == best) for m, cell in row.items()}
    features = dict(zip(rows["dataset"], rows["features"], strict=True))
    lost = rows[(rows["status"] == "failed") & rows["dataset"].isin(down) & rows["method"].isin(across)]
    table = MainTable(metric, selection, down, across, cells, features, expected, len(lost))
    # A method that was completed nowhere is not ranked; it must not take every data set out of the ranking.
    somewhere = [method for method in competing if any(cells[dataset, method].complete for dataset in down)]
    ranked = table.complete_means(somewhere)
    if not ranked.size:
        return table
    ranks = average_ranks(ranked, higher_is_better=higher_is_better(metric))
    return replace(table, average_ranks=dict(zip(somewhere, ranks, strict=True)), ranked_datasets=tuple(ranked.index))


def _check(results: pd.DataFrame, metric: str) -> None:
    """Raise ValueError unless the frame has one row per cell, each with the columns that tables need."""
    if metric not in METRIC_TITLES:
        raise ValueError(f"expected a metric among {', '.join(METRIC_TITLES)}; got {metric!r}: choose one of these")
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


def _order(present: "pd.Series[str]", asked: Sequence[str] | None) -> tuple[str, ...]:
    known = tuple(dict.fromkeys(present.tolist()))
    if asked is None:
        return known
    if not set(asked) & set(known):
        raise ValueError(f"expected {present.name}s among {', '.join(known)}; got {', '.join(asked) or 'none'}")
    return tuple(dict.fromkeys(asked))
