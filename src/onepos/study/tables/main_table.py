"""The paper's main table: mean±std of every method on every data set, the best in bold, average ranks below."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from onepos.metrics import higher_is_better
from onepos.study.statistics import average_ranks
from onepos.study.tables.aggregate import Aggregate, aggregate
from onepos.study.tables.formats import Cell, Grid, mean_std, metric_title, name_of, rank_cells

#: Methods that see more than one label per row: shown, but no rivals of those that do not.
FULL_SUPERVISION = ("bce",)


@dataclass(frozen=True)
class MainCell:
    """One method on one data set; ``incomplete`` if fewer trials than expected are finished, none included."""

    mean: float
    std: float
    count: int
    best: bool
    incomplete: bool


@dataclass(frozen=True)
class MainTable:
    """The result of :func:`main_table`; ``average_ranks`` has the competing methods, over ``ranked_datasets``."""

    metric: str
    selection: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[tuple[str, str], MainCell]
    average_ranks: Mapping[str, float]
    ranked_datasets: tuple[str, ...]
    features: Mapping[str, str]
    expected_trials: int
    failed: int
    digits: int

    def frame(self) -> pd.DataFrame:
        """One row per data set and method: mean, std, count, best, incomplete, features."""
        rows = [
            {"metric": self.metric, "selection": self.selection, "dataset": dataset, "method": method}
            | asdict(cell)
            | {"features": self.features.get(dataset)}
            for (dataset, method), cell in self.cells.items()
        ]
        return pd.DataFrame(rows)

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Data sets down, methods across; see :class:`onepos.study.tables.formats.Table`."""
        rows = [
            (Cell(dataset), *(self._shown(self.cells[dataset, method]) for method in self.methods))
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

    def _shown(self, cell: MainCell) -> Cell:
        mark = f"†{cell.count}" if cell.incomplete and cell.count else ""
        return Cell(mean_std(cell.mean, cell.std, self.digits), cell.best, mark)

    def _notes(self) -> list[str]:
        notes = [
            f"Mean±std over {self.expected_trials} trials; settings selected on {self.selection} validation labels; "
            "bold: best, full supervision and incomplete cells apart.",
            f"Average rank over the {len(self.ranked_datasets)} of {len(self.datasets)} data sets that every ranked "
            "method has completed.",
        ]
        if any(cell.incomplete and cell.count for cell in self.cells.values()):
            notes.append(f"†n: only n of {self.expected_trials} trials are finished.")
        if self.failed:
            notes.append(f"Trials that failed and are left out: {self.failed}.")
        substitutes = [name for name in self.datasets if self.features.get(name) == "substitute"]
        if substitutes:
            notes.append(f"Not the paper's features: {', '.join(substitutes)}.")
        return notes


def main_table(
    results: pd.DataFrame,
    metric: str,
    *,
    selection: str = "clean",
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    not_competing: Sequence[str] = FULL_SUPERVISION,
    expected_trials: int | None = None,
    digits: int = 3,
) -> MainTable:
    """Make the table of one metric.

    Parameters
    ----------
    results, metric, selection, datasets, methods, expected_trials
        As in :func:`onepos.study.tables.aggregate`.
    not_competing : sequence of str, default=("bce",)
        Methods that are shown but neither ranked nor set in bold.
    digits : int, default=3
        Decimals shown. Means that agree in them are equally good: all are bold.

    Examples
    --------
    >>> from onepos.study.tables import example_results
    >>> table = main_table(example_results(), "average_precision")
    >>> [method for method in table.methods if table.cells["scene", method].best]
    ['smile']
    >>> table.cells["yeast", "an"].incomplete, table.average_ranks
    (True, {'smile': 1.0, 'an': 2.0})
    """
    values = aggregate(
        results, metric, selection=selection, datasets=datasets, methods=methods, expected_trials=expected_trials
    )
    competing = [method for method in values.methods if method not in not_competing]
    # A method that was completed nowhere is not ranked; it must not take every data set out of the ranking.
    ranked = values.complete_means([method for method in competing if values.complete[method].any()])
    ranks = average_ranks(ranked.to_numpy(), higher_is_better=higher_is_better(metric)) if ranked.size else ()
    return MainTable(
        metric=metric,
        selection=selection,
        datasets=values.datasets,
        methods=values.methods,
        cells=_cells(values, competing, digits),
        average_ranks=dict(zip(ranked.columns, ranks, strict=False)),
        ranked_datasets=tuple(ranked.index),
        features=values.features,
        expected_trials=values.expected_trials,
        failed=int(values.failed.to_numpy().sum()),
        digits=digits,
    )


def _cells(values: Aggregate, competing: Sequence[str], digits: int) -> dict[tuple[str, str], MainCell]:
    choose = max if higher_is_better(values.metric) else min
    cells = {}
    for dataset in values.datasets:
        row = {method: values.summary(dataset, method) for method in values.methods}
        shown = {method: round(row[method].mean, digits) for method in competing if row[method].complete}
        best = choose(shown.values(), default=None)
        for method, cell in row.items():
            is_best = method in shown and shown[method] == best
            cells[dataset, method] = MainCell(cell.mean, cell.std, cell.count, is_best, not cell.complete)
    return cells
