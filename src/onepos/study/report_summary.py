"""From a study's results to the plain values that its page shows: everything here could be written as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum, isnan
from typing import TYPE_CHECKING, Any

import pandas as pd

from onepos.metrics import METRICS, higher_is_better
from onepos.pages.demo_summary import METRIC_TEXT
from onepos.study.figures.curves import method_name, read_json
from onepos.study.statistics import average_ranks
from onepos.study.tables.aggregate import Summary, aggregate
from onepos.study.tables.main_table import FULL_SUPERVISION

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd


# Every cell of a study as the page lists it: what was run, what came out, what it took, what went wrong.


#: Shown in a cell's details only where they differ from what most cells have.
_SURROUNDINGS = ("versions", "machine")


def study_cells(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one record a cell in the order of the results, but failed ones first."""
    usual = {column: next(iter(common_values(frame, column)), None) for column in _SURROUNDINGS}
    records = [_cell(row, usual) for row in frame.to_dict("records")]
    return sorted(records, key=lambda cell: not cell["failed"])


def common_values(frame: pd.DataFrame, column: str) -> dict[str, int]:
    """Return the distinct texts of a column and in how many cells each stands, most frequent first."""
    counts = frame[column].dropna().astype(str).value_counts()
    return {str(text): int(count) for text, count in counts.items()}


def setting_words(setting: Any) -> str:
    """Return a setting in one line: ``learning_rate 0.001 · weight_decay 0.01``."""
    if not isinstance(setting, Mapping):
        return "" if setting is None else str(setting)
    return " · ".join(f"{name} {value}" for name, value in setting.items())


def known(value: Any) -> float | None:
    """Return a number, or None where there is none (None, NaN, NA)."""
    return None if value is None or pd.isna(value) else float(value)


def _cell(row: Mapping["Hashable", Any], usual: Mapping[str, str | None]) -> dict[str, Any]:
    is_failed = row["status"] != "ok"
    error = str(row["error"]) if is_failed and isinstance(row["error"], str) else ""
    return {
        "identity": str(row["cell"]),
        "dataset": str(row["dataset"]),
        "features": str(row["features"]),
        "method": method_name(str(row["method"])),
        "trial": int(row["trial"]),
        "selection": str(row["selection"]),
        # A cell that failed before its rows were drawn has none.
        "n_train": int(known(row["n_train"]) or 0) or None,
        # A study of several sizes says which share of the rows was asked for, also where the cell failed.
        "share": known(row.get("train_fraction", 1.0)),
        "failed": is_failed,
        "error": error,
        # Of a traceback the last line says what happened.
        "headline": next((line for line in reversed(error.splitlines()) if line.strip()), "no message recorded"),
        "setting": setting_words(read_json(row["setting"])),
        "tried": [
            {
                "setting": setting_words(tried.get("setting")),
                "validation": known(tried.get("validation")),
                "epochs": tried.get("epochs"),
            }
            for tried in read_json(row["tried"]) or []
        ],
        "validation": known(row["validation"]),
        "best_epoch": known(row["best_epoch"]),
        "metrics": {metric: known(row[metric]) for metric in METRICS},
        "seconds": known(row["seconds"]),
        "megabytes": known(row["peak_megabytes"]),
        "finished": str(row["finished"]),
        "study_hash": str(row["study_hash"]),
        "unusual": {
            column: setting_words(read_json(row[column]))
            for column in _SURROUNDINGS
            if isinstance(row[column], str) and row[column] != usual[column]
        },
    }


# A study's tables of results as plain data: mean and spread of each method on each data set, the best marked.


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
        tables += [_measure_table(metric, selection, columns, here, shown, trials) for metric in METRICS]
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


def _measure_table(
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


#: Which validation labels chose setting and epoch, as the page says it: short, and in full.
SELECTION_TEXT: dict[str, tuple[str, str]] = {
    "clean": ("all validation labels", "chosen with every validation label known, as in the paper"),
    "single-positive": ("one validation label each", "chosen with one label per validation example, as in real use"),
}


def summarise_study(
    frame: "pd.DataFrame", tables: Sequence[StudyTable], environment: Mapping[str, Any]
) -> dict[str, Any]:
    """Gather what the page shows.

    Parameters
    ----------
    frame : DataFrame
        The results, one row a finished cell.
    tables : sequence of StudyTable
        From ``study_tables``, or made elsewhere.
    environment : mapping
        Facts to show as they are; a mapping inside becomes one line.
    """
    cells = study_cells(frame)
    methods = dict.fromkeys([*(key for table in tables for key in table.columns), *frame["method"].astype(str)])
    return {
        "facts": _facts(frame),
        "verdict": [_verdict(table) for table in tables if table.metric == "average_precision"],
        "tables": [_table(number, table) for number, table in enumerate(tables, start=1)],
        "metrics": [
            {"key": key, "name": METRIC_TEXT[key][0], "arrow": _arrow(key)}
            for key in dict.fromkeys(table.metric for table in tables)
        ],
        "selections": [_selection(key) for key in dict.fromkeys(table.selection for table in tables)],
        "methods": [{"key": key, "name": method_name(key)} for key in methods],
        "cells": cells,
        "failed": [cell for cell in cells if cell["failed"]],
        "environment": {str(name): _one_line(value) for name, value in environment.items()},
        "recorded": {
            column: [
                {"text": setting_words(read_json(text)), "cells": count}
                for text, count in common_values(frame, column).items()
            ]
            for column in ("versions", "machine")
        },
    }


def _facts(frame: "pd.DataFrame") -> dict[str, Any]:
    finished = frame["status"] == "ok"
    return {
        "done": int(finished.sum()),
        "failed": int((~finished).sum()),
        "datasets": int(frame["dataset"].nunique()),
        "methods": int(frame["method"].nunique()),
        "trials": int(frame["trial"].nunique()),
        "time": duration(fsum(frame["seconds"].dropna())),
        "megabytes": known(frame["peak_megabytes"].max()),
        "studies": sorted({f"{name} {code}" for name, code in zip(frame["study"], frame["study_hash"], strict=True)}),
    }


def duration(seconds: float) -> str:
    """Return a time in the two units that matter: ``3 h 12 min``, ``4 min 10 s``, ``12.5 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _verdict(table: StudyTable) -> str:
    """Say who ranks best; the words follow the ranks."""
    ranked = [(rank, key) for key, rank in zip(table.columns, table.ranks, strict=False) if rank is not None]
    # By rank alone: methods that share one stay in the table's order.
    ranked.sort(key=lambda pair: pair[0])
    rule = _selection(table.selection)["text"]
    if len(ranked) < 2:
        return f"Settings {rule}: no data set has all trials of every method yet, so methods are not ranked."
    places = [table.columns.index(key) for _, key in ranked]
    complete = sum(all(row.cells[place].count >= max(1, table.trials) for place in places) for row in table.rows)
    # A study of several sizes has several rows a data set.
    unit = "rows" if any(row.n_train is not None for row in table.rows) else "data sets"
    share = f"all {complete}" if complete == len(table.rows) else f"the {complete} complete of {len(table.rows)}"
    best = [method_name(key) for rank, key in ranked if f"{rank:.2f}" == f"{ranked[0][0]:.2f}"]
    start = f"Settings {rule}: on {share} {unit}, {' and '.join(best)}"
    if len(best) > 1:
        return f"{start} share the best average rank by average precision, {ranked[0][0]:.2f} of {len(ranked)}."
    return (
        f"{start} has the best average rank by average precision, {ranked[0][0]:.2f} of {len(ranked)}; "
        f"next is {method_name(ranked[1][1])} with {ranked[1][0]:.2f}."
    )


def _table(number: int, table: StudyTable) -> dict[str, Any]:
    return asdict(table) | {
        "number": number,
        "name": METRIC_TEXT[table.metric][0],
        "direction": "higher is better" if higher_is_better(table.metric) else "lower is better",
        "rule": _selection(table.selection),
        "methods": [{"key": key, "name": method_name(key), "full": key in FULL_SUPERVISION} for key in table.columns],
    }


def _selection(key: str) -> dict[str, str]:
    name, text = SELECTION_TEXT.get(key, (key, f"chosen by the rule “{key}”"))
    return {"key": key, "name": name, "text": text}


def _arrow(metric: str) -> str:
    return "↑" if higher_is_better(metric) else "↓"


def _one_line(value: Any) -> str:
    return setting_words(value) if isinstance(value, Mapping) else str(value)
