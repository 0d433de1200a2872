"""The paper's Table 3: one method against each rival by the signed-rank test over data sets, metric by metric."""

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd

from onepos.metrics import METRICS, higher_is_better
from onepos.statistics import TooFewPairsError, holm, signed_rank
from onepos.tables.aggregate import Aggregate, aggregate
from onepos.tables.main_table import FULL_SUPERVISION
from onepos.tables.verdicts import Significance, Verdict


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
        As in :func:`onepos.tables.aggregate`.
    method : str, default="smile"
        Whose wins and losses are told.
    rivals : sequence of str, optional
        By default all other methods but full supervision. The paper's ablation: ``("smile-si",)``.
    metrics : sequence of str
        One line each.
    alpha : float, default=0.05
        Level of the outcomes.
    test : {"auto", "exact", "approx", "conditional"}, default="auto"
        The ``method`` of :func:`onepos.statistics.signed_rank`. For printed means, where rounding makes ties,
        "conditional" is the sharper one.

    Examples
    --------
    >>> from onepos.tables import example_results
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
