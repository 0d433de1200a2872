"""What it costs to select settings on single positives, as a real user must, and not on clean labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from onepos.study.tables.formats import Cell, Grid, mean_std, metric_title, name_of, short
from onepos.study.tables.main_table import SELECTIONS, Summary, aggregate


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
        return (
            Cell(line.dataset),
            Cell(name_of(line.method, names)),
            _cell(line.clean),
            _cell(line.single_positive),
            Cell(short(line.difference, sign=True)),
        )


def _cell(value: Summary) -> Cell:
    mark = f"†{value.count}" if value.count and not value.complete else ""
    return Cell(mean_std(value.mean, value.std), mark=mark)


def selection_table(
    results: pd.DataFrame,
    metric: str = "average_precision",
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    expected_trials: int | None = None,
) -> SelectionTable:
    """Set the two selection rules side by side; parameters as in :func:`onepos.study.tables.aggregate`.

    Examples
    --------
    >>> from onepos.study.tables import example_results
    >>> table = selection_table(example_results())
    >>> round(table.mean_differences["smile"], 3)
    -0.01
    """
    # One number of trials for both: a rule that has run fewer must not pass as complete.
    expected = int(results["trial"].nunique()) if expected_trials is None and "trial" in results else expected_trials
    clean, single = (
        aggregate(results, metric, selection=rule, datasets=datasets, methods=methods, expected_trials=expected)
        for rule in SELECTIONS
    )
    lines = []
    for dataset in dict.fromkeys((*clean.datasets, *single.datasets)):
        for method in dict.fromkeys((*clean.methods, *single.methods)):
            line = BothRules(dataset, method, clean.summary(dataset, method), single.summary(dataset, method))
            if line.clean.count or line.single_positive.count:
                lines.append(line)
    return SelectionTable(metric, tuple(lines), _mean_differences(lines), clean.expected_trials)


def _mean_differences(lines: Sequence[BothRules]) -> dict[str, float]:
    differences: dict[str, list[float]] = {}
    for line in lines:
        if line.complete:
            differences.setdefault(line.method, []).append(line.difference)
    return {method: sum(values) / len(values) for method, values in differences.items()}
