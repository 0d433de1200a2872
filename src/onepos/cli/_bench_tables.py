"""Which table a command asks for."""

from pathlib import Path
from typing import Any

from onepos.cli._output import InputError
from onepos.metrics import METRICS
from onepos.registry import METHODS
from onepos.study import load_results
from onepos.tables import compare, main_table, rank_table, selection_table, significance

KINDS = ("main", "ranks", "significance", "selection")


def names() -> dict[str, str]:
    """Return what the methods are called in tables."""
    return {key: method.name for key, method in METHODS.items()}


def make_table(results: Path, kind: str, metric: str, method: str, selection: str) -> Any:
    """Return the table of a results folder or file."""
    if kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    frame = full_size(load_results(results))
    if kind == "main":
        return main_table(frame, metric, selection=selection)
    if kind == "ranks":
        return rank_table(frame, selection=selection)
    if kind == "selection":
        return selection_table(frame, metric)
    return significance(frame, method=method, selection=selection)


def make_comparison(results: Path, metric: str, selection: str) -> Any:
    """Return ours beside published."""
    return compare(
        full_size(load_results(results)), metrics=(metric,) if metric else tuple(METRICS), selection=selection
    )


def full_size(frame: Any) -> Any:
    """Leave out the rows of studies with fewer training rows: tables are about whole training sets."""
    return frame[frame["train_fraction"] == 1.0] if "train_fraction" in frame else frame
