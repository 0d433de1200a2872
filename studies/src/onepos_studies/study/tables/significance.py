"""Methods compared over data sets: average ranks with Friedman's test, and the signed-rank test against each rival."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import pandas as pd

from onepos.metrics import METRICS, higher_is_better
from onepos_studies.study import statistics
from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables.formats import NOTHING, Cell, Grid, metric_title, name_of, p_text, rank_cells
from onepos_studies.study.tables.main_table import MainTable, Which, main_table

#: The level of all tests.
ALPHA = 0.05

#: Columns of a rank table, and the field of :class:`onepos_studies.study.statistics.Friedman` in each.
_TESTS = {
    "friedman_chi_square": "chi_square",
    "friedman_p_value": "chi_square_p",
    "iman_davenport_f": "f_statistic",
    "iman_davenport_p_value": "f_p",
}


@dataclass(frozen=True)
class MetricRanks:
    """The ranks by one metric (1 is best) over the data sets on which every method has all its trials.

    ``cliques`` are the groups of methods that do not differ significantly, best first.
    """

    metric: str
    datasets: tuple[str, ...]
    average_ranks: Mapping[str, float]
    friedman: statistics.Friedman
    critical_difference: float
    cliques: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class RankTable:
    """The result of :func:`rank_table`; a metric's ranks are None if fewer than two data sets are complete."""

    methods: tuple[str, ...]
    selection: str
    ranks: Mapping[str, MetricRanks | None]

    def frame(self) -> pd.DataFrame:
        """One row per metric and method: the average rank, and the metric's tests; nan where nothing was ranked."""
        rows = []
        for metric, ranks in self.ranks.items():
            tests = {name: getattr(ranks.friedman, field) for name, field in _TESTS.items()} if ranks else {}
            for method in self.methods:
                row = {"metric": metric, "selection": self.selection, "method": method, "datasets": 0} | tests
                if ranks:
                    row["average_rank"] = ranks.average_ranks[method]
                    row |= {"datasets": len(ranks.datasets), "critical_difference": ranks.critical_difference}
                rows.append(row)
        columns = ["metric", "selection", "method", "average_rank", "datasets", *_TESTS, "critical_difference"]
        return pd.DataFrame(rows, columns=columns)

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Metrics down, methods across, then the tests; see :class:`onepos_studies.study.tables.Table`."""
        width = len(self.methods) + 4
        rows = [
            (Cell(metric_title(metric)), *(_rank_cells(ranks) if ranks else [Cell(NOTHING)] * width))
            for metric, ranks in self.ranks.items()
        ]
        notes = [
            "Average rank over the data sets that every method has completed, 1 is best, bold; settings selected on "
            f"{self.selection} validation labels. χ²: Friedman, F: Iman and Davenport, p in brackets. Methods differ "
            f"at {ALPHA:g} if their ranks differ by more than CD (Nemenyi)."
        ]
        if not all(self.ranks.values()):
            holes = "fewer than two data sets are complete for all these methods; choose fewer methods."
            notes.append(f"{NOTHING}: {holes}")
        header = ("metric", *(name_of(key, names) for key in self.methods), "data sets", "χ² [p]", "F [p]", "CD")
        return Grid("Average ranks", header, tuple(rows), notes=tuple(notes))


def _rank_cells(ranks: MetricRanks) -> list[Cell]:
    test = ranks.friedman
    return [
        *rank_cells(list(ranks.average_ranks.values())),
        Cell(str(len(ranks.datasets))),
        Cell(f"{test.chi_square:.2f} [{p_text(test.chi_square_p)}]"),
        Cell(f"{test.f_statistic:.2f} [{p_text(test.f_p)}]".replace("inf", "∞")),
        Cell(f"{ranks.critical_difference:.2f}"),
    ]


def rank_table(results: pd.DataFrame, *, metrics: Sequence[str] = METRICS, **which: Unpack[Which]) -> RankTable:
    """Rank the methods by each metric; the level of the critical difference is .05.

    ``which`` are parameters of :func:`main_table`. By default ``methods`` are all but full supervision. Only data sets
    on which all of them are complete count: leave out a method that has many holes.

    Examples
    --------
    >>> from onepos_studies.study.tables import example_results
    >>> table = rank_table(example_results(), methods=("smile", "bce"))
    >>> table.ranks["average_precision"].average_ranks
    {'smile': 2.0, 'bce': 1.0}
    """
    ranks: dict[str, MetricRanks | None] = {}
    chosen: tuple[str, ...] = ()
    for metric in metrics:
        values = main_table(results, metric, **which)
        asked = bool(which.get("methods"))
        chosen = tuple(key for key in values.methods if asked or not is_full_supervision(key))
        ranks[metric] = _metric_ranks(metric, values.complete_means(chosen))
    return RankTable(chosen, which.get("selection", "clean"), ranks)


def _metric_ranks(metric: str, means: pd.DataFrame) -> MetricRanks | None:
    names = tuple(means.columns)
    if min(means.shape) < 2:
        return None
    test = statistics.friedman(means.to_numpy(), higher_is_better=higher_is_better(metric))
    difference = statistics.critical_difference(len(names), len(means), ALPHA)
    groups = [tuple(names[i] for i in group) for group in statistics.cliques(test.average_ranks, difference)]
    ranks = dict(zip(names, test.average_ranks, strict=True))
    return MetricRanks(metric, tuple(means.index), ranks, test, difference, tuple(groups))


@dataclass(frozen=True)
class Verdict:
    """One test: over which data sets, its result (None: too few data sets), and its p-value after Holm."""

    datasets: tuple[str, ...]
    test: statistics.SignedRank | None
    corrected_p: float | None = None

    @property
    def corrected_outcome(self) -> statistics.Outcome | None:
        """The outcome by the corrected p-value."""
        if self.test is None or self.corrected_p is None:
            return None
        return self.test.outcome_for(self.corrected_p)


@dataclass(frozen=True)
class Significance:
    """The result of :func:`significance`; ``verdicts`` by (metric, rival)."""

    method: str
    rivals: tuple[str, ...]
    selection: str
    verdicts: Mapping[tuple[str, str], Verdict]

    def frame(self) -> pd.DataFrame:
        """One row per metric and rival: outcome and p-value, without and with Holm's correction, and how tested."""
        rows = []
        for (metric, rival), verdict in self.verdicts.items():
            row: dict[str, object] = {"metric": metric, "selection": self.selection, "method": self.method}
            row |= {"rival": rival, "holm_outcome": verdict.corrected_outcome, "holm_p_value": verdict.corrected_p}
            tested = ("outcome", "p_value", "statistic", "pairs", "zeros")
            row |= {name: getattr(verdict.test, name, None) for name in tested}
            rows.append(row | {"datasets": len(verdict.datasets)})
        columns = ["metric", "selection", "method", "rival", "outcome", "p_value", "holm_outcome", "holm_p_value"]
        columns += ["statistic", "datasets", "pairs", "zeros"]
        return pd.DataFrame(rows, columns=columns).astype({"pairs": "Int64", "zeros": "Int64"})

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Metrics down, rivals across; the corrected outcomes on a line of their own, unless there is one rival."""
        rows = []
        for metric in dict.fromkeys(metric for metric, _ in self.verdicts):
            verdicts = [self.verdicts[metric, rival] for rival in self.rivals]
            plain = [_cell(test.outcome, test.p_value) if (test := one.test) else Cell(NOTHING) for one in verdicts]
            rows.append((Cell(metric_title(metric)), *plain))
            if len(self.rivals) > 1:
                corrected = [_cell(verdict.corrected_outcome, verdict.corrected_p) for verdict in verdicts]
                rows.append((Cell("Holm-corrected"), *corrected))
        own = name_of(self.method, names)
        header = (f"{own} against", *(name_of(rival, names) for rival in self.rivals))
        return Grid(f"{own} against its rivals", header, tuple(rows), notes=tuple(self._notes()))

    def _notes(self) -> list[str]:
        sizes = sorted({len(verdict.datasets) for verdict in self.verdicts.values()})
        over = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
        notes = [
            f"Exact Wilcoxon signed-rank test over data sets' means (n = {over}), two-sided p in brackets; bold: "
            f"significant at {ALPHA:g}. Settings selected on {self.selection} validation labels. Holm's "
            "correction is over the rivals of one metric."
        ]
        if any(verdict.test is None for verdict in self.verdicts.values()):
            needed = statistics.fewest_pairs(ALPHA)
            notes.append(f"{NOTHING}: below {needed} data sets p < {ALPHA:g} cannot be reached, so none is tested.")
        return notes


def _cell(outcome: statistics.Outcome | None, p_value: float | None) -> Cell:
    if outcome is None or p_value is None:
        return Cell(NOTHING)
    return Cell(f"{outcome}[{p_text(p_value)}]", bold=outcome != "tie")


def significance(
    results: pd.DataFrame,
    *,
    method: str = "smile",
    rivals: Sequence[str] | None = None,
    metrics: Sequence[str] = METRICS,
    **which: Unpack[Which],
) -> Significance:
    """Test one method against its rivals at .05, over the data sets on which both have all their trials.

    ``method`` is the one whose wins and losses are counted. ``rivals`` are by default all other methods but full
    supervision. ``which`` are parameters of :func:`main_table`.

    Examples
    --------
    >>> from onepos_studies.study.tables import example_results
    >>> table = significance(example_results())
    >>> table.rivals, table.verdicts["coverage", "an"].test  # two data sets are too few for any test
    (('an',), None)
    """
    verdicts: dict[tuple[str, str], Verdict] = {}
    chosen: tuple[str, ...] = ()
    for metric in metrics:
        values = main_table(results, metric, **which)
        chosen = _rivals(values.methods, method, rivals)
        tested = [_test(values, method, rival) for rival in chosen]
        corrected = iter(statistics.holm([test.p_value for _, test in tested if test]).tolist())
        for rival, (names, test) in zip(chosen, tested, strict=True):
            verdicts[metric, rival] = Verdict(names, test, next(corrected) if test else None)
    return Significance(method, chosen, which.get("selection", "clean"), verdicts)


def _rivals(present: Sequence[str], method: str, asked: Sequence[str] | None) -> tuple[str, ...]:
    chosen = asked if asked is not None else [key for key in present if key != method and not is_full_supervision(key)]
    missing = [key for key in (method, *chosen) if key not in present]
    if missing or not chosen or method in chosen:
        raise ValueError(
            f"expected a method and other methods as rivals, among {', '.join(present)}; got {method} against "
            f"{', '.join(chosen) or 'none'}: name methods that have results"
        )
    return tuple(chosen)


def _test(values: MainTable, method: str, rival: str) -> tuple[tuple[str, ...], statistics.SignedRank | None]:
    """Return the data sets on which both methods are complete, and the test over them; None if they are too few."""
    means = values.complete_means([method, rival])
    if len(means) < statistics.fewest_pairs(ALPHA):
        return tuple(means.index), None
    better = higher_is_better(values.metric)
    return tuple(means.index), statistics.signed_rank(means[method], means[rival], higher_is_better=better, alpha=ALPHA)
