"""The committed rows of the shipped studies that the pages are about."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from onepos_studies.study import Study, cells_of, load_results, read_study

#: The studies, and where their rows are.
FILES = {
    name: f"studies/rows/{name.replace('-', '_')}.parquet"
    for name in (
        *("smile-paper", "ablation", "sufficiency", "modern", "auto"),
        *("auto-300", "enhancement", "tables", "bias"),
    )
}


@dataclass(frozen=True, eq=False)
class Source:
    """A study as it is shipped now, and its rows: one for each of its cells."""

    study: Study
    rows: pd.DataFrame

    @property
    def datasets(self) -> tuple[str, ...]:
        """In the study's order."""
        return self.study.datasets

    @property
    def methods(self) -> tuple[str, ...]:
        """In the study's order."""
        return tuple(method.name for method in self.study.methods)

    def of(self, dataset: str, rule: str = "clean") -> pd.DataFrame:
        """Return the rows of a data set under a selection rule."""
        return self.rows[(self.rows["dataset"] == dataset) & (self.rows["selection"] == rule)]


def load_sources(root: Path) -> dict[str, Source]:
    """Return the studies by name; ValueError unless the rows of each are those of all its cells, and good."""
    sources = {}
    for name, file in FILES.items():
        study, cells = plan(name)
        rows = load_results(root / file)
        wrong = set(rows["cell"]) ^ cells
        if wrong or not (rows["status"] == "ok").all():
            raise ValueError(
                f"{file} does not hold the study {name} as it is now: {len(wrong)} cells are missing or strange, "
                f"{(rows['status'] != 'ok').sum()} failed. Run it and export the results again"
            )
        sources[name] = Source(study, rows)
    return sources


@cache
def plan(name: str) -> tuple[Study, set[str]]:
    """Return a shipped study and its cells; the names of these are hashes and take a second or two."""
    study, _ = read_study(name)
    return study, {cell.id for cell in cells_of(study)}
