"""The committed results of a shipped study beside its plan: what there is, and what is missing."""

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pandas as pd

from onepos_studies.study import Study, cells_of, load_results, read_study

#: The shipped studies that the page is about, and where their rows are.
FILES = {
    "smile-paper": "studies/rows/smile_paper.parquet",
    "ablation": "studies/rows/ablation.parquet",
    "sufficiency": "studies/rows/sufficiency.parquet",
    "modern": "studies/rows/modern.parquet",
    "auto": "studies/rows/auto.parquet",
    "auto-300": "studies/rows/auto_300.parquet",
    "enhancement": "studies/rows/enhancement.parquet",
    "tables": "studies/rows/tables.parquet",
    "bias": "studies/rows/bias.parquet",
}


@dataclass(frozen=True, eq=False)
class Source:
    """A study and its finished rows; no rows if its file is not there.

    Attributes
    ----------
    study : Study
        As it is shipped now.
    planned : DataFrame
        One row per cell of the study: ``cell``, ``dataset``, ``method``, ``trial``, ``rule``, ``train_fraction``.
    file : str
        Where the rows are, from the repository's root.
    rows : DataFrame
        One row per finished cell, good or failed.
    """

    study: Study
    planned: pd.DataFrame
    file: str
    rows: pd.DataFrame

    @property
    def absent(self) -> str:
        """A sentence if there is no row, else nothing."""
        return "" if len(self.rows) else f"No results yet: `{self.file}` is not there."

    @property
    def datasets(self) -> tuple[str, ...]:
        """In the study's order."""
        return tuple(self.study.datasets)

    @property
    def methods(self) -> tuple[str, ...]:
        """In the study's order."""
        return tuple(method.name for method in self.study.methods)

    @cached_property
    def missing(self) -> pd.DataFrame:
        """The planned cells without a good row."""
        done: set[str] = set(self.rows.loc[self.rows["status"] == "ok", "cell"]) if len(self.rows) else set()
        return self.planned[~self.planned["cell"].isin(done)]

    def incomplete(self, dataset: str, rule: str = "clean") -> tuple[str, ...]:
        """Return the methods of which a cell of this data set is missing."""
        cells = self.missing[(self.missing["dataset"] == dataset) & (self.missing["rule"] == rule)]
        return tuple(method for method in self.methods if method in set(cells["method"]))

    def whole(self, dataset: str, rule: str = "clean") -> pd.DataFrame:
        """Return the good rows of a data set, of the methods of which none is missing."""
        rows = self.rows[self.rows["status"] == "ok"]
        rows = rows[(rows["dataset"] == dataset) & (rows["selection"] == rule)]
        return rows[~rows["method"].isin(self.incomplete(dataset, rule))]


def load_sources(root: Path) -> dict[str, Source]:
    """Return the studies by name; a file that is not there gives one without rows."""
    return {name: _load(root, name, file) for name, file in FILES.items()}


@cache
def plan(name: str) -> tuple[Study, pd.DataFrame]:
    """Return a shipped study and its cells; the names of these are hashes and take a second or two."""
    study, _ = read_study(name)
    columns = ["dataset", "method", "trial", "rule", "train_fraction"]
    cells = [(cell.id, *(getattr(cell, name) for name in columns)) for cell in cells_of(study)]
    return study, pd.DataFrame(cells, columns=["cell", *columns])


def _load(root: Path, name: str, file: str) -> Source:
    study, planned = plan(name)
    if not (root / file).is_file():
        return Source(study, planned, file, pd.DataFrame())
    rows = load_results(root / file)
    # Rows of the study as it was once must not pass for rows of the study as it is.
    strange = set(rows["cell"]) - set(planned["cell"])
    if strange:
        raise ValueError(
            f"{file}: {len(strange)} rows are no cells of the study {name} as it is now, for instance "
            f"{min(strange)}: export the results again"
        )
    return Source(study, planned, file, rows)
