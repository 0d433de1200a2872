"""Every cell of a study as the page lists it: what was run, what came out, what it took, what went wrong."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from onepos.figures.records import method_name, read_json
from onepos.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Hashable

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
