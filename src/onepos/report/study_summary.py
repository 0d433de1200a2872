"""From a study's results to the plain values that its page shows: everything here could be written as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import fsum
from typing import TYPE_CHECKING, Any

from onepos.figures.records import method_name, read_json
from onepos.metrics import higher_is_better
from onepos.report.study_cells import common_values, known, setting_words, study_cells
from onepos.report.study_table import StudyCell, StudyRow, StudyTable, study_tables
from onepos.report.summarise import METRIC_TEXT
from onepos.tables.main_table import FULL_SUPERVISION

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StudyCell", "StudyRow", "StudyTable", "study_tables", "summarise_study"]

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
