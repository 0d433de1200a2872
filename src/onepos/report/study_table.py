"""A study's tables of results as plain data: mean and spread of each method on each data set, the best marked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onepos.metrics import METRICS, higher_is_better

if TYPE_CHECKING:
    import pandas as pd

#: Trained on every label: shown beside the others, never counted among them.
FULL_SUPERVISION = "bce"


@dataclass(frozen=True)
class StudyCell:
    """Mean and standard deviation over ``count`` trials; None where there is nothing to take it of."""

    mean: float | None
    std: float | None
    count: int
    best: bool = False


@dataclass(frozen=True)
class StudyRow:
    """A data set; ``n_train`` is given where the study trains on several sizes of it."""

    dataset: str
    cells: tuple[StudyCell, ...]
    features: str = "paper"
    n_train: int | None = None


@dataclass(frozen=True)
class StudyTable:
    """One measure under one selection rule.

    Attributes
    ----------
    metric : str
        A name in ``onepos.metrics.METRICS``.
    arrow : {"↑", "↓"}
        Which way is better.
    selection : str
        Which validation labels chose the setting: ``"clean"`` or ``"single-positive"``.
    columns : tuple of str
        Method keys; a row has one cell for each.
    rows : tuple of StudyRow
    ranks : tuple of (float or None)
        The average rank of each method; empty if unknown.
    trials : int
        How many trials make a cell complete. An incomplete cell is neither best nor ranked: a method that failed on
        the hard trials must not gain by it.
    """

    metric: str
    arrow: str
    selection: str
    columns: tuple[str, ...]
    rows: tuple[StudyRow, ...]
    ranks: tuple[float | None, ...] = ()
    trials: int = 0


def study_tables(
    frame: "pd.DataFrame", *, datasets: Sequence[str] | None = None, methods: Sequence[str] | None = None
) -> list[StudyTable]:
    """Return a table for each measure and selection rule in the results.

    Parameters
    ----------
    frame : DataFrame
        One row a finished cell. Cells that failed count as missing.
    datasets : sequence of str, optional
        The rows; default: all, in the order of the results.
    methods : sequence of str, optional
        The columns; default: all, in the order of the results.
    """
    # In a fixed order, so that equal results give equal means to the last bit however they were gathered.
    groups = _groups(frame.sort_values(["n_train", "trial"], kind="stable"))
    names = dict.fromkeys(datasets if datasets is not None else frame["dataset"].astype(str))
    columns = tuple(dict.fromkeys(methods if methods is not None else frame["method"].astype(str)))
    chosen = [(name, size, part) for wanted in names for name, size, part in groups if name == wanted]
    tables = []
    for selection in sorted({str(rule) for rule in frame["selection"]}):
        trials = int(frame.loc[frame["selection"] == selection, "trial"].nunique())
        tables += [_table(metric, selection, columns, chosen, trials) for metric in METRICS]
    return tables


def _groups(frame: "pd.DataFrame") -> list[tuple[str, int | None, "pd.DataFrame"]]:
    """Return the finished cells of each data set, by size of the training set where the study has several."""
    cell = ["dataset", "method", "trial", "selection"]
    finished = frame[frame["status"] == "ok"]
    if finished.duplicated([*cell, "n_train"]).any():
        twice = finished[finished.duplicated([*cell, "n_train"])].iloc[0]
        raise ValueError(
            f"expected one result for each cell; got two of {', '.join(str(twice[column]) for column in cell)}: "
            "give the results of one study"
        )
    groups: list[tuple[str, int | None, pd.DataFrame]] = []
    for name, part in finished.groupby("dataset"):
        if part.duplicated(cell).any():
            sizes = part.groupby("n_train")
            groups += [(str(name), int(str(size)), smaller) for size, smaller in sizes]
        else:
            groups.append((str(name), None, part))
    return groups


def _table(
    metric: str,
    selection: str,
    columns: tuple[str, ...],
    groups: Sequence[tuple[str, int | None, "pd.DataFrame"]],
    trials: int,
) -> StudyTable:
    higher = higher_is_better(metric)
    rows = []
    for name, size, part in groups:
        here = part[part["selection"] == selection]
        if here.empty:
            continue
        cells = [_cell(here.loc[here["method"] == method, metric]) for method in columns]
        features = "substitute" if (here["features"] == "substitute").any() else "paper"
        rows.append(StudyRow(name, _mark_best(columns, cells, higher, trials), features, size))
    ranks = _average_ranks(columns, rows, higher, trials)
    return StudyTable(metric, "↑" if higher else "↓", selection, columns, tuple(rows), ranks, trials)


def _cell(values: "pd.Series[float]") -> StudyCell:
    known = values.dropna().to_numpy(dtype=float)
    # The spread of one trial is unknown, not zero.
    return StudyCell(
        float(known.mean()) if known.size else None,
        float(known.std(ddof=1)) if known.size > 1 else None,
        int(known.size),
    )


def _mark_best(columns: Sequence[str], cells: Sequence[StudyCell], higher: bool, trials: int) -> tuple[StudyCell, ...]:
    """Mark the best as the reader sees it: equal at three decimals, equally best."""
    shown = [
        None if key == FULL_SUPERVISION or cell.mean is None or cell.count < trials else float(f"{cell.mean:.3f}")
        for key, cell in zip(columns, cells, strict=True)
    ]
    best = (max if higher else min)((value for value in shown if value is not None), default=None)
    return tuple(
        replace(cell, best=value is not None and value == best) for cell, value in zip(cells, shown, strict=True)
    )


def _average_ranks(
    columns: Sequence[str], rows: Sequence[StudyRow], higher: bool, trials: int
) -> tuple[float | None, ...]:
    """Return the mean rank of each competing method over the rows that have all of them; tied means share a rank."""
    import pandas as pd

    means = pd.DataFrame(
        [[cell.mean if cell.count >= trials else None for cell in row.cells] for row in rows],
        columns=list(columns),
        dtype=float,
    )
    # A method that was never completed is not ranked; it must not take every row out of the ranking.
    competing = [key for key in columns if key != FULL_SUPERVISION and means[key].notna().any()]
    complete = means[competing].dropna()
    ranks = complete.rank(axis=1, ascending=not higher).mean()
    return tuple(float(ranks[key]) if key in competing and len(complete) else None for key in columns)
