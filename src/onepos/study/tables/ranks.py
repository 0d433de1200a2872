"""Average ranks of the methods over data sets, with Friedman's test and Nemenyi's critical difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from onepos.metrics import METRICS, higher_is_better
from onepos.study.statistics import Friedman, cliques, critical_difference, friedman
from onepos.study.tables.aggregate import aggregate
from onepos.study.tables.formats import NOTHING, Cell, Grid, metric_title, name_of, p_text, rank_cells
from onepos.study.tables.main_table import FULL_SUPERVISION


@dataclass(frozen=True)
class MetricRanks:
    """The ranks by one metric: all that a critical-difference diagram shows.

    Attributes
    ----------
    metric : str
    datasets : tuple of str
        Those on which every method has all its trials.
    average_ranks : mapping of method to float
        1 is best.
    friedman : Friedman
    critical_difference : float
    cliques : tuple of tuples of str
        Groups of methods that do not differ significantly, best first.
    """

    metric: str
    datasets: tuple[str, ...]
    average_ranks: Mapping[str, float]
    friedman: Friedman
    critical_difference: float
    cliques: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class RankTable:
    """The result of :func:`rank_table`; a metric's ranks are None if fewer than two data sets are complete."""

    methods: tuple[str, ...]
    selection: str
    alpha: float
    ranks: Mapping[str, MetricRanks | None]

    def frame(self) -> pd.DataFrame:
        """One row per metric and method: the average rank, and the metric's tests; nan where nothing was ranked."""
        return pd.DataFrame(
            [
                {"metric": metric, "selection": self.selection, "method": method}
                | _record(ranks, None if ranks is None else ranks.average_ranks[method])
                for metric, ranks in self.ranks.items()
                for method in self.methods
            ]
        )

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Metrics down, methods across, then the tests; see :class:`onepos.study.tables.formats.Table`."""
        width = len(self.methods) + 4
        rows = [
            (Cell(metric_title(metric)), *(_cells(ranks) if ranks else [Cell(NOTHING)] * width))
            for metric, ranks in self.ranks.items()
        ]
        notes = [
            "Average rank over the data sets that every method has completed, 1 is best, bold; settings selected on "
            f"{self.selection} validation labels. χ²: Friedman, F: Iman and Davenport, p in brackets. Methods differ "
            f"at {self.alpha:g} if their ranks differ by more than CD (Nemenyi)."
        ]
        if not all(self.ranks.values()):
            notes.append(
                f"{NOTHING}: fewer than two data sets are complete for all these methods; choose fewer methods."
            )
        tests = ("data sets", "χ² [p]", "F [p]", "CD")
        return Grid(
            title="Average ranks",
            header=("metric", *(name_of(method, names) for method in self.methods), *tests),
            rows=tuple(rows),
            notes=tuple(notes),
        )


def _record(ranks: MetricRanks | None, rank: float | None) -> dict[str, float | None]:
    test = ranks.friedman if ranks else None
    return {
        "average_rank": rank,
        "datasets": len(ranks.datasets) if ranks else 0,
        "friedman_chi_square": test.chi_square if test else None,
        "friedman_p_value": test.chi_square_p if test else None,
        "iman_davenport_f": test.f_statistic if test else None,
        "iman_davenport_p_value": test.f_p if test else None,
        "critical_difference": ranks.critical_difference if ranks else None,
    }


def _cells(ranks: MetricRanks) -> list[Cell]:
    test = ranks.friedman
    return [
        *rank_cells(list(ranks.average_ranks.values())),
        Cell(str(len(ranks.datasets))),
        Cell(f"{test.chi_square:.2f} [{p_text(test.chi_square_p)}]"),
        Cell(f"{test.f_statistic:.2f} [{p_text(test.f_p)}]".replace("inf", "∞")),
        Cell(f"{ranks.critical_difference:.2f}"),
    ]


def rank_table(
    results: pd.DataFrame,
    *,
    metrics: Sequence[str] = METRICS,
    selection: str = "clean",
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    alpha: float = 0.05,
    expected_trials: int | None = None,
) -> RankTable:
    """Rank the methods by each metric.

    Parameters
    ----------
    results, selection, datasets, expected_trials
        As in :func:`onepos.study.tables.aggregate`.
    metrics : sequence of str
    methods : sequence of str, optional
        By default all but full supervision. Only data sets on which all of them are complete count, so that one
        method with holes costs the others data sets: leave it out if it has many.
    alpha : float, default=0.05
        Level of the critical difference.

    Examples
    --------
    >>> from onepos.study.tables import example_results
    >>> table = rank_table(example_results(), methods=("smile", "bce"))
    >>> table.ranks["average_precision"].average_ranks
    {'smile': 2.0, 'bce': 1.0}
    """
    ranks: dict[str, MetricRanks | None] = {}
    chosen: tuple[str, ...] = ()
    for metric in metrics:
        values = aggregate(
            results, metric, selection=selection, datasets=datasets, methods=methods, expected_trials=expected_trials
        )
        chosen = values.methods if methods else tuple(key for key in values.methods if key not in FULL_SUPERVISION)
        ranks[metric] = _metric_ranks(metric, values.complete_means(chosen), alpha)
    return RankTable(chosen, selection, alpha, ranks)


def _metric_ranks(metric: str, means: pd.DataFrame, alpha: float) -> MetricRanks | None:
    n_datasets, n_methods = means.shape
    if n_datasets < 2 or n_methods < 2:
        return None
    test = friedman(means.to_numpy(), higher_is_better=higher_is_better(metric))
    difference = critical_difference(n_methods, n_datasets, alpha)
    names = tuple(means.columns)
    return MetricRanks(
        metric=metric,
        datasets=tuple(means.index),
        average_ranks=dict(zip(names, test.average_ranks, strict=True)),
        friedman=test,
        critical_difference=difference,
        cliques=tuple(tuple(names[i] for i in group) for group in cliques(test.average_ranks, difference)),
    )
