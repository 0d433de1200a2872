"""A study's tables of results as plain data: mean and spread of each method on each data set, the best marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING

from onepos.metrics import METRICS, higher_is_better
from onepos.statistics import average_ranks
from onepos.tables.aggregate import Summary, aggregate
from onepos.tables.main_table import FULL_SUPERVISION

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StudyCell:
    """Mean and standard deviation over ``count`` trials; None where there is nothing to take it of."""

    mean: float | None
    std: float | None
    count: int
    best: bool = False


@dataclass(frozen=True)
class StudyRow:
    """A data set; ``n_train`` is given where the study trains on several sizes of it."""

    dataset: str
    cells: tuple[StudyCell, ...]
    features: str = "paper"
    n_train: int | None = None


@dataclass(frozen=True)
class StudyTable:
    """One measure under one selection rule.

    Attributes
    ----------
    metric : str
        A name in ``onepos.metrics.METRICS``.
    arrow : {"↑", "↓"}
        Which way is better.
    selection : str
        Which validation labels chose the setting: ``"clean"`` or ``"single-positive"``.
    columns : tuple of str
        Method keys; a row has one cell for each.
    rows : tuple of StudyRow
    ranks : tuple of (float or None)
        The average rank of each method; empty if unknown.
    trials : int
        How many trials make a cell complete. An incomplete cell is neither best nor ranked: a method that failed on
        the hard trials must not gain by it.
    """

    metric: str
    arrow: str
    selection: str
    columns: tuple[str, ...]
    rows: tuple[StudyRow, ...]
    ranks: tuple[float | None, ...] = ()
    trials: int = 0


def study_tables(
    frame: "pd.DataFrame", *, datasets: Sequence[str] | None = None, methods: Sequence[str] | None = None
) -> list[StudyTable]:
    """Return a table for each measure and selection rule in the results.

    Parameters
    ----------
    frame : DataFrame
        One row a finished cell. Cells that failed count as missing.
    datasets : sequence of str, optional
        The rows; default: all, in the order of the results.
    methods : sequence of str, optional
        The columns; default: all, in the order of the results.
    """
    columns = tuple(dict.fromkeys(methods if methods is not None else frame["method"].astype(str)))
    wanted = list(dict.fromkeys(datasets if datasets is not None else frame["dataset"].astype(str)))
    finished, lines = _by_size(frame, wanted)
    tables = []
    for selection in sorted({str(rule) for rule in frame["selection"]}):
        trials = int(frame.loc[frame["selection"] == selection, "trial"].nunique())
        here = finished[finished["selection"] == selection]
        shown = {name: line for name, line in lines.items() if (here["dataset"] == name).any()}
        tables += [_table(metric, selection, columns, here, shown, trials) for metric in METRICS]
    return tables


def _by_size(frame: "pd.DataFrame", wanted: Sequence[str]) -> tuple["pd.DataFrame", dict[str, tuple[str, int | None]]]:
    """Return the finished cells, each size of the training set as a data set of its own where there are several.

    Beside them, by name and in order, the lines of a table: data set and size, or None where there is one size.
    """
    # In a fixed order, so that equal results give equal means to the last bit however they were gathered.
    finished = frame[frame["status"] == "ok"].sort_values(["n_train", "trial"], kind="stable")
    cell = ["dataset", "method", "trial", "selection"]
    if finished.duplicated([*cell, "n_train"]).any():
        twice = finished[finished.duplicated([*cell, "n_train"])].iloc[0]
        raise ValueError(
            f"expected one result for each cell; got two of {', '.join(str(twice[column]) for column in cell)}: "
            "give the results of one study"
        )
    several = set(finished.loc[finished.duplicated(cell), "dataset"])
    names = finished["dataset"].where(
        ~finished["dataset"].isin(several), finished["dataset"] + "\0" + finished["n_train"].astype(str)
    )
    lines: dict[str, tuple[str, int | None]] = {}
    for dataset in wanted:
        here = finished["dataset"] == dataset
        for name, size in zip(names[here], finished.loc[here, "n_train"], strict=True):
            lines[str(name)] = (dataset, int(size) if dataset in several else None)
    return finished.assign(dataset=names), lines


def _table(
    metric: str,
    selection: str,
    columns: tuple[str, ...],
    finished: "pd.DataFrame",
    lines: Mapping[str, tuple[str, int | None]],
    trials: int,
) -> StudyTable:
    higher = higher_is_better(metric)
    empty = StudyTable(metric, "↑" if higher else "↓", selection, columns, (), (None,) * len(columns), trials)
    if not lines:
        return empty
    found = aggregate(
        finished, metric, selection=selection, datasets=list(lines), methods=columns, expected_trials=trials
    )
    rows = tuple(
        StudyRow(dataset, _cells([found.summary(name, method) for method in columns], columns, higher), features, size)
        for name, (dataset, size) in lines.items()
        if (features := found.features[name])
    )
    # A method that was never completed is not ranked; it must not take every row out of the ranking.
    competing = [key for key in columns if key not in FULL_SUPERVISION and found.complete[key].any()]
    means = found.complete_means(competing)
    ranks = (
        dict(zip(competing, average_ranks(means.to_numpy(), higher_is_better=higher), strict=True))
        if len(means)
        else {}
    )
    return replace(empty, rows=rows, ranks=tuple(ranks.get(key) for key in columns))


def _cells(found: Sequence[Summary], columns: Sequence[str], higher: bool) -> tuple[StudyCell, ...]:
    """Mark the best as the reader sees it: equal at three decimals, equally best."""
    shown = [
        float(f"{summary.mean:.3f}") if summary.complete and key not in FULL_SUPERVISION else None
        for key, summary in zip(columns, found, strict=True)
    ]
    best = (max if higher else min)((value for value in shown if value is not None), default=None)
    return tuple(
        StudyCell(_known(summary.mean), _known(summary.std), summary.count, value is not None and value == best)
        for summary, value in zip(found, shown, strict=True)
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else value
