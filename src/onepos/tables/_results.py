"""The results frame: what must be in it, and the rows that a table is made from."""

from collections.abc import Sequence

import pandas as pd

from onepos.metrics import METRICS

#: The two rules by which a setting may be selected on the validation rows.
SELECTIONS = ("clean", "single-positive")

_KEY = ["dataset", "method", "trial", "selection"]
_KNOWN = {"selection": SELECTIONS, "status": ("ok", "failed"), "features": ("paper", "substitute")}


def finished(results: pd.DataFrame, metric: str, selection: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Check the frame and return its finished and its failed rows under one selection rule.

    Parameters
    ----------
    results : DataFrame
        One row a cell of the study: ``dataset``, ``features`` ("paper" or "substitute"), ``method``, ``trial``,
        ``selection`` ("clean" or "single-positive"), ``status`` ("ok" or "failed") and the measures; other
        columns are not looked at.
    metric : str
        Must be finite wherever the status is "ok".
    selection : str
        Which rows to take.
    """
    if metric not in METRICS:
        raise ValueError(f"expected a metric among {', '.join(METRICS)}; got {metric!r}: choose one of these")
    _check_columns(results, [*_KEY, "features", "status", metric])
    rows = results[results["selection"] == selection]
    if rows.empty:
        there = ", ".join(map(repr, results["selection"].unique())) or "none, the frame is empty"
        raise ValueError(f"expected rows with selection {selection!r}; there are: {there}. Run that selection first")
    ok = rows[rows["status"] == "ok"]
    if not ok[metric].abs().lt(float("inf")).all():
        bad = ok[~ok[metric].abs().lt(float("inf"))].iloc[0]
        raise ValueError(
            f"expected a finite {metric} in every row with status 'ok'; got {bad[metric]} for {bad['dataset']}, "
            f"{bad['method']}, trial {bad['trial']}: such a cell has the status 'failed'"
        )
    return ok, rows[rows["status"] == "failed"]


def _check_columns(results: pd.DataFrame, needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in results.columns]
    if missing:
        raise ValueError(
            f"expected the columns {', '.join(needed)}; {', '.join(missing)} missing: give one row a cell of a study"
        )
    for name, known in _KNOWN.items():
        other = set(results[name].unique()) - set(known)
        if other:
            raise ValueError(f"expected {name} among {', '.join(known)}; got {', '.join(sorted(map(repr, other)))}")
    twice = results[results.duplicated(_KEY)]
    if not twice.empty:
        cell = ", ".join(f"{name} {twice.iloc[0][name]}" for name in _KEY)
        raise ValueError(f"expected one row a cell; got two for {cell}: give one training size at a time")
    mixed = results.groupby("dataset")["features"].nunique()
    if (mixed > 1).any():
        raise ValueError(
            f"expected one kind of features a data set; {mixed.idxmax()} has both: give the substitute its own name"
        )
