"""The paper's Table 3: one method against each rival by the signed-rank test over data sets, metric by metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from onepos.metrics import METRICS, higher_is_better
from onepos.study.statistics import Outcome, SignedRank, TooFewPairsError, fewest_pairs, holm, signed_rank
from onepos.study.tables.aggregate import Aggregate, aggregate
from onepos.study.tables.formats import NOTHING, Cell, Grid, metric_title, name_of, p_text
from onepos.study.tables.main_table import FULL_SUPERVISION

_NOT_EXACT = {
    "approx": "the normal approximation, corrected for ties and continuity, because means or differences are equal",
    "conditional": "its form for tied ranks",
}


@dataclass(frozen=True)
class Verdict:
    """One test: over which data sets, its result (None: too few data sets), and its p-value after Holm."""

    datasets: tuple[str, ...]
    test: SignedRank | None
    corrected_p: float | None = None

    @property
    def corrected_outcome(self) -> Outcome | None:
        """The outcome by the corrected p-value."""
        if self.test is None or self.corrected_p is None:
            return None
        return self.test.outcome_for(self.corrected_p)


@dataclass(frozen=True)
class Significance:
    """The result of :func:`significance`; ``verdicts`` by (metric, rival)."""

    method: str
    rivals: tuple[str, ...]
    metrics: tuple[str, ...]
    selection: str
    alpha: float
    verdicts: Mapping[tuple[str, str], Verdict]

    def frame(self) -> pd.DataFrame:
        """One row per metric and rival: outcome and p-value, without and with Holm's correction, and how tested."""
        frame = pd.DataFrame([self._record(metric, rival) for metric, rival in self.verdicts])
        return frame.astype({"pairs": "Int64", "zeros": "Int64"})

    def _record(self, metric: str, rival: str) -> dict[str, object]:
        verdict = self.verdicts[metric, rival]
        test = verdict.test
        return {
            "metric": metric,
            "selection": self.selection,
            "method": self.method,
            "rival": rival,
            "outcome": test.outcome if test else None,
            "p_value": test.p_value if test else None,
            "holm_outcome": verdict.corrected_outcome,
            "holm_p_value": verdict.corrected_p,
            "statistic": test.statistic if test else None,
            "datasets": len(verdict.datasets),
            "pairs": test.pairs if test else None,
            "zeros": test.zeros if test else None,
            "test": test.method if test else None,
            "continuity": test.continuity if test else None,
        }

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Metrics down, rivals across; the corrected outcomes on a line of their own, unless there is one rival."""
        rows = []
        for metric in self.metrics:
            verdicts = [self.verdicts[metric, rival] for rival in self.rivals]
            tests = [verdict.test for verdict in verdicts]
            plain = [_cell(test.outcome, test.p_value) if test else Cell(NOTHING) for test in tests]
            rows.append((Cell(metric_title(metric)), *plain))
            if len(self.rivals) > 1:
                corrected = [_cell(verdict.corrected_outcome, verdict.corrected_p) for verdict in verdicts]
                rows.append((Cell("Holm-corrected"), *corrected))
        return Grid(
            title=f"{name_of(self.method, names)} against its rivals",
            header=(f"{name_of(self.method, names)} against", *(name_of(rival, names) for rival in self.rivals)),
            rows=tuple(rows),
            notes=tuple(self._notes(names)),
        )

    def _notes(self, names: Mapping[str, str] | None) -> list[str]:
        sizes = sorted({len(verdict.datasets) for verdict in self.verdicts.values()})
        over = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
        notes = [
            f"Wilcoxon signed-rank test over data sets' means (n = {over}), two-sided p in brackets; bold: significant "
            f"at {self.alpha:g}. Settings selected on {self.selection} validation labels. Holm's correction is over "
            "the rivals of one metric."
        ]
        for method, text in _NOT_EXACT.items():
            where = [
                f"{metric_title(metric)} {name_of(rival, names)}"
                for (metric, rival), verdict in self.verdicts.items()
                if verdict.test and verdict.test.method == method
            ]
            if where:
                notes.append(f"Not the exact test but {text}: {'; '.join(where)}.")
        if any(verdict.test is None for verdict in self.verdicts.values()):
            needed = fewest_pairs(self.alpha)
            notes.append(
                f"{NOTHING}: below {needed} data sets p < {self.alpha:g} cannot be reached, so none is tested."
            )
        return notes


def _cell(outcome: Outcome | None, p_value: float | None) -> Cell:
    if outcome is None or p_value is None:
        return Cell(NOTHING)
    return Cell(f"{outcome}[{p_text(p_value)}]", bold=outcome != "tie")


def significance(
    results: pd.DataFrame,
    *,
    method: str = "smile",
    rivals: Sequence[str] | None = None,
    metrics: Sequence[str] = METRICS,
    selection: str = "clean",
    datasets: Sequence[str] | None = None,
    alpha: float = 0.05,
    test: Literal["auto", "exact", "approx", "conditional"] = "auto",
    expected_trials: int | None = None,
) -> Significance:
    """Test one method against its rivals over the data sets on which both have all their trials.

    Parameters
    ----------
    results, selection, datasets, expected_trials
        As in :func:`onepos.study.tables.aggregate`.
    method : str, default="smile"
        Whose wins and losses are told.
    rivals : sequence of str, optional
        By default all other methods but full supervision. The paper's ablation: ``("smile-si",)``.
    metrics : sequence of str
        One line each.
    alpha : float, default=0.05
        Level of the outcomes.
    test : {"auto", "exact", "approx", "conditional"}, default="auto"
        The ``method`` of :func:`onepos.study.statistics`. For printed means, where rounding makes ties,
        "conditional" is the sharper one.

    Examples
    --------
    >>> from onepos.study.tables import example_results
    >>> table = significance(example_results())
    >>> table.rivals, table.verdicts["coverage", "an"].test  # two data sets are too few for any test
    (('an',), None)
    """
    verdicts: dict[tuple[str, str], Verdict] = {}
    chosen: tuple[str, ...] = ()
    for metric in metrics:
        values = aggregate(results, metric, selection=selection, datasets=datasets, expected_trials=expected_trials)
        chosen = _rivals(values.methods, method, rivals)
        tested = {rival: _verdict(values, method, rival, alpha, test) for rival in chosen}
        verdicts |= {(metric, rival): verdict for rival, verdict in _correct(tested).items()}
    return Significance(method, chosen, tuple(metrics), selection, alpha, verdicts)


def _rivals(present: Sequence[str], method: str, asked: Sequence[str] | None) -> tuple[str, ...]:
    chosen = asked if asked is not None else [key for key in present if key != method and key not in FULL_SUPERVISION]
    missing = [key for key in (method, *chosen) if key not in present]
    if missing or not chosen or method in chosen:
        raise ValueError(
            f"expected a method and other methods as rivals, among {', '.join(present)}; got {method} against "
            f"{', '.join(chosen) or 'none'}: name methods that have results"
        )
    return tuple(chosen)


def _verdict(
    values: Aggregate, method: str, rival: str, alpha: float, how: Literal["auto", "exact", "approx", "conditional"]
) -> Verdict:
    means = values.complete_means([method, rival])
    datasets = tuple(means.index)
    try:
        test = signed_rank(
            means[method].to_numpy(),
            means[rival].to_numpy(),
            higher_is_better=higher_is_better(values.metric),
            alpha=alpha,
            method=how,
        )
    except TooFewPairsError:
        return Verdict(datasets, None)
    return Verdict(datasets, test)


def _correct(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    made = [verdict.test.p_value for verdict in verdicts.values() if verdict.test]
    corrected = iter(holm(made).tolist())
    return {
        rival: Verdict(verdict.datasets, verdict.test, next(corrected) if verdict.test else None)
        for rival, verdict in verdicts.items()
    }
