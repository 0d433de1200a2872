"""Settings selected on single positives, as in real use, beside settings selected on clean labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Unpack

import pandas as pd

from onepos_studies.study.tables.formats import Cell, Grid, metric_title, name_of, short
from onepos_studies.study.tables.main_table import SELECTIONS, Summary, Which, main_table


@dataclass(frozen=True)
class BothRules:
    """One method on one data set under both rules."""

    dataset: str
    method: str
    clean: Summary
    single_positive: Summary

    @property
    def difference(self) -> float:
        """Single-positive minus clean."""
        return self.single_positive.mean - self.clean.mean

    @property
    def complete(self) -> bool:
        """Whether both rules have all their trials."""
        return self.clean.complete and self.single_positive.complete


@dataclass(frozen=True)
class SelectionTable:
    """The result of :func:`selection_table`.

    ``mean_differences`` is by method, over the data sets on which both rules have all their trials.
    """

    metric: str
    lines: tuple[BothRules, ...]
    mean_differences: Mapping[str, float]
    expected_trials: int

    def frame(self) -> pd.DataFrame:
        """One row per data set and method: mean, std and count under each rule, and the difference."""
        rows = [
            {"metric": self.metric, "dataset": line.dataset, "method": line.method}
            | {f"clean_{name}": getattr(line.clean, name) for name in ("mean", "std", "count")}
            | {f"single_positive_{name}": getattr(line.single_positive, name) for name in ("mean", "std", "count")}
            | {"difference": line.difference}
            for line in self.lines
        ]
        return pd.DataFrame(rows)

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """One line per data set and method, below the mean difference of each method."""
        footer = [
            (Cell("mean"), Cell(name_of(method, names)), Cell(""), Cell(""), Cell(short(difference, sign=True)))
            for method, difference in self.mean_differences.items()
        ]
        notes = [
            f"Mean±std over {self.expected_trials} trials; settings and epoch selected on validation rows with all "
            "their labels (clean) or with one positive label each (single-positive)."
        ]
        if not all(line.complete for line in self.lines):
            notes.append(f"†n: only n of {self.expected_trials} trials are finished.")
        return Grid(
            title=f"{metric_title(self.metric)} by what selects the setting",
            header=("data set", "method", *SELECTIONS, "difference"),
            rows=tuple(self._row(line, names) for line in self.lines),
            footer=tuple(footer),
            notes=tuple(notes),
            text_columns=2,
        )

    def _row(self, line: BothRules, names: Mapping[str, str] | None) -> tuple[Cell, ...]:
        both = (line.clean.shown(), line.single_positive.shown())
        return (Cell(line.dataset), Cell(name_of(line.method, names)), *both, Cell(short(line.difference, sign=True)))


def selection_table(results: pd.DataFrame, metric: str = "average_precision", **which: Unpack[Which]) -> SelectionTable:
    """Set the two selection rules side by side; ``which`` are parameters of ``main_table`` except ``selection``.

    Examples
    --------
    >>> from onepos_studies.study.tables import example_results
    >>> table = selection_table(example_results())
    >>> round(table.mean_differences["smile"], 3)
    -0.01
    """
    if "trial" in results and which.get("expected_trials") is None:
        # One number of trials for both: a rule that has run fewer must not pass as complete.
        which["expected_trials"] = int(results["trial"].nunique())
    clean, single = (main_table(results, metric, **(which | {"selection": rule})) for rule in SELECTIONS)
    datasets, methods = dict.fromkeys(clean.datasets + single.datasets), dict.fromkeys(clean.methods + single.methods)
    lines = [
        BothRules(*key, clean.cells.get(key, Summary()), single.cells.get(key, Summary()))
        for key in product(datasets, methods)
    ]
    lines = [line for line in lines if line.clean.count or line.single_positive.count]
    differences: dict[str, list[float]] = {}
    for line in lines:
        if line.complete:
            differences.setdefault(line.method, []).append(line.difference)
    means = {method: sum(values) / len(values) for method, values in differences.items()}
    return SelectionTable(metric, tuple(lines), means, clean.expected_trials)
