"""Methods compared over data sets: average ranks with Friedman's test, and the signed-rank test against each rival."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import pandas as pd

from onepos.metrics import METRICS, higher_is_better
from onepos_studies.study import statistics
from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables.grid import NOTHING, Cell, Grid, metric_title, p_text, rank_cells
from onepos_studies.study.tables.main_table import Which, main_table

#: The level of all tests.
ALPHA = 0.05


@dataclass(frozen=True)
class MetricRanks:
    """The ranks by one metric (1 is best) over the data sets on which every method has all its trials."""

    datasets: tuple[str, ...]
    average_ranks: Mapping[str, float]
    friedman: statistics.Friedman
    critical_difference: float


def metric_ranks(results: pd.DataFrame, metric: str, **which: Unpack[Which]) -> MetricRanks | None:
    """Rank the methods by one metric; None if fewer than two data sets or methods are complete.

    ``which`` are parameters of :func:`main_table`. By default ``methods`` are all but full supervision. Only data sets
    on which all of them are complete count: leave out a method that has many holes.
    """
    values = main_table(results, metric, **which)
    chosen = [key for key in values.methods if which.get("methods") or not is_full_supervision(key)]
    means = values.complete_means(chosen)
    if min(means.shape) < 2:
        return None
    better = higher_is_better(metric)
    ranks = dict(zip(chosen, statistics.average_ranks(means, higher_is_better=better), strict=True))
    difference = statistics.critical_difference(len(chosen), len(means), ALPHA)
    test = statistics.friedman(means, higher_is_better=better)
    return MetricRanks(tuple(means.index), ranks, test, difference)


def rank_table(results: pd.DataFrame, *, metrics: Sequence[str] = METRICS, **which: Unpack[Which]) -> Grid:
    """Show :func:`metric_ranks` by each metric: methods down, then the tests."""
    ranks = {metric: metric_ranks(results, metric, **which) for metric in metrics}
    known = [one for one in ranks.values() if one is not None]
    methods = list(known[0].average_ranks) if known else []
    rows, numbers = [], []
    for metric, one in ranks.items():
        if one is None:
            rows.append((Cell(metric_title(metric)), *[Cell(NOTHING)] * (len(methods) + 4)))
            continue
        test = one.friedman
        tests = (
            str(len(one.datasets)),
            f"{test.chi_square:.2f} [{p_text(test.chi_square_p)}]",
            f"{test.f_statistic:.2f} [{p_text(test.f_p)}]".replace("inf", "∞"),
            f"{one.critical_difference:.2f}",
        )
        rows.append((Cell(metric_title(metric)), *rank_cells(list(one.average_ranks.values())), *map(Cell, tests)))
        shared = {"datasets": len(one.datasets), **test._asdict(), "critical_difference": one.critical_difference}
        numbers += [{"metric": metric, "method": m, "average_rank": r, **shared} for m, r in one.average_ranks.items()]
    notes = [
        "Average rank over the data sets that every method has completed, 1 is best, bold; settings selected on "
        f"{which.get('selection', 'clean')} validation labels. χ²: Friedman, F: Iman and Davenport, p in brackets. "
        f"Methods differ at {ALPHA:g} if their ranks differ by more than CD (Nemenyi)."
    ]
    if len(known) < len(ranks):
        notes.append(f"{NOTHING}: fewer than two data sets are complete for all methods; choose fewer methods.")
    header = ("metric", *methods, "data sets", "χ² [p]", "F [p]", "CD")
    return Grid("Average ranks", header, tuple(rows), tuple(notes), data=pd.DataFrame(numbers))


_VERDICT = ["metric", "rival", "datasets", "outcome", "p_value", "holm_outcome", "holm_p_value"]


def significance(
    results: pd.DataFrame,
    *,
    method: str = "smile",
    rivals: Sequence[str] | None = None,
    metrics: Sequence[str] = METRICS,
    **which: Unpack[Which],
) -> Grid:
    """Test one method against its rivals at .05, over the data sets on which both have all their trials.

    ``method`` is the one whose wins and losses are counted. ``rivals`` are by default all other methods but full
    supervision. ``which`` are parameters of :func:`main_table`. Outcomes are None where data sets are too few.
    """
    numbers: list[dict[str, Any]] = []
    chosen: tuple[str, ...] = ()
    for metric in metrics:
        values = main_table(results, metric, **which)
        chosen = _rivals(values.methods, method, rivals)
        tested = []
        for rival in chosen:
            means = values.complete_means([method, rival])
            row: dict[str, Any] = dict.fromkeys(_VERDICT) | {"metric": metric, "rival": rival, "datasets": len(means)}
            if len(means) >= statistics.fewest_pairs(ALPHA):
                gains = (means[method] - means[rival]) * (1 if higher_is_better(metric) else -1)
                tested.append((row, statistics.signed_rank(gains)))
            numbers.append(row)
        corrected = statistics.holm([test.p_value for _, test in tested])
        for (row, test), p_value in zip(tested, corrected, strict=True):
            row |= {"outcome": test.outcome(ALPHA), "p_value": test.p_value, "holm_p_value": p_value}
            row["holm_outcome"] = test._replace(p_value=p_value).outcome(ALPHA)
    rows = []
    for start in range(0, len(numbers), len(chosen)):
        part = numbers[start : start + len(chosen)]
        rows.append((Cell(metric_title(part[0]["metric"])), *(_cell(row["outcome"], row["p_value"]) for row in part)))
        if len(chosen) > 1:  # with one rival there is nothing to correct
            cells = [_cell(row["holm_outcome"], row["holm_p_value"]) for row in part]
            rows.append((Cell("Holm-corrected"), *cells))
    sizes = sorted({row["datasets"] for row in numbers})
    over = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
    notes = [
        f"Wilcoxon signed-rank test over data sets' means (n = {over}; exact up to 13), two-sided p in brackets; bold: "
        f"significant at {ALPHA:g}. Settings selected on {which.get('selection', 'clean')} validation labels. Holm's "
        "correction is over the rivals of one metric."
    ]
    if any(row["outcome"] is None for row in numbers):
        needed = statistics.fewest_pairs(ALPHA)
        notes.append(f"{NOTHING}: below {needed} data sets p < {ALPHA:g} cannot be reached, so none is tested.")
    title, header = f"{method} against its rivals", ("against", *chosen)
    return Grid(title, header, tuple(rows), tuple(notes), data=pd.DataFrame(numbers, dtype=object))


def _cell(outcome: str | None, p_value: float | None) -> Cell:
    if outcome is None or p_value is None:
        return Cell(NOTHING)
    return Cell(f"{outcome}[{p_text(p_value)}]", bold=outcome != "tie")


def _rivals(present: Sequence[str], method: str, asked: Sequence[str] | None) -> tuple[str, ...]:
    chosen = asked if asked is not None else [key for key in present if key != method and not is_full_supervision(key)]
    missing = [key for key in (method, *chosen) if key not in present]
    if missing or not chosen or method in chosen:
        raise ValueError(
            f"expected a method and other methods as rivals, among {', '.join(present)}; got {method} against "
            f"{', '.join(chosen) or 'none'}: name methods that have results"
        )
    return tuple(chosen)
