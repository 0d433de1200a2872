"""Rows that are run again: a sample, spread over methods and data sets, whose measures must come out as stored."""

import json
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from onepos._utils.machine import versions
from onepos.metrics import METRICS
from onepos_studies.study.cells import Cell
from onepos_studies.study.execute import run_cells
from onepos_studies.study.machine import machine
from onepos_studies.study.provenance import is_current

#: How far a measure may be from its row: with the processor and all versions of the row, and elsewhere, where numbers
#: are rounded differently and training makes more of it.
SAME_MACHINE, OTHER_MACHINE = 1e-9, 5e-3


@dataclass(frozen=True)
class Repeated:
    """A cell that was run again: each measure as stored and as now, how far apart they may be, and its error."""

    cell: str
    measures: dict[str, list[float]]
    tolerance: float
    error: str | None = None

    @property
    def holds(self) -> bool:
        """Whether every measure is within the tolerance; two that are undefined are equal."""
        return self.error is None and not self._far()

    def _far(self) -> dict[str, list[float]]:
        near = {name for name, (old, new) in self.measures.items() if abs(old - new) <= self.tolerance}
        return {name: pair for name, pair in self.measures.items() if name not in near and pair[0] == pair[0]}

    def __str__(self) -> str:
        far = [f"{name.replace('_', ' ')} {new:.6f}, stored {old:.6f}" for name, (old, new) in self._far().items()]
        return f"{self.cell}: {self.error or ', '.join(far) or 'equal'} (tolerance {self.tolerance:g})"


def sample(frame: pd.DataFrame, n: int, *, seed: int = 0, most_seconds: float = 60.0) -> pd.DataFrame:
    """Return up to ``n`` good rows of the present revisions, from as many methods and data sets as there are.

    Slow rows are left out. The shortest come first, so that a sample that is stopped has seen most of its rows.
    """
    good = frame[(frame["status"] == "ok") & is_current(frame) & (frame["seconds"] <= most_seconds)]
    mixed = good.sample(frac=1.0, random_state=seed)
    # The first row of each pair of method and data set, then the second of each; among these each method in turn.
    turn = mixed.groupby(["key", "dataset"]).cumcount()
    among = mixed.assign(turn=turn).sort_values("turn", kind="stable").groupby("key").cumcount()
    chosen = among.sort_values(kind="stable").index[:n]
    return cast("pd.DataFrame", good.loc[chosen].sort_values("seconds"))


def repeat_rows(rows: pd.DataFrame, plans: dict[str, list[Cell]]) -> list[Repeated]:
    """Run rows again and compare, but those that stop by the clock; ``plans`` are the cells by name of the study."""
    known = {(name, cell.id): cell for name, cells in plans.items() for cell in cells}
    pairs = [(row, known.get((row["study"], row["cell"]))) for row in rows.to_dict("records")]
    return [_repeat(row, cell) for row, cell in pairs if cell is not None and not cell.stops_by_clock]


def _repeat(row: dict[Any, Any], cell: Cell) -> Repeated:
    found = run_cells([cell], [json.loads(row["setting"]) if cell.takes_over is not None else None])[0]
    same = json.loads(row["versions"]) == versions() and json.loads(row["machine"]) == machine()
    error = found["error"]
    if error is None and found["data"] != row["data"]:
        error = f"the data set {cell.dataset} has changed since"
    pairs = {name: [float(row[name]), float(found[name])] for name in METRICS}
    return Repeated(cell.id, pairs, SAME_MACHINE if same else OTHER_MACHINE, error)
