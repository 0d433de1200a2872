"""What the demo returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos.metrics import METRICS
from onepos.report import Example
from onepos.training import History

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes
    ----------
    scores : DataFrame
        One row a run: method, name, full_labels, seed, seconds, and the five measures on the test pictures.
    histories : mapping of method key to the histories of its runs
        For the methods trained epoch by epoch.
    examples : tuple of Example
        The first training pictures as they come, with what SMILE's first run recovered.
    facts : dict
        Sizes, settings, how much was recovered.
    seconds : float
        Time of the whole, without imports.
    report : Path
        The HTML file.
    """

    scores: "pd.DataFrame"
    histories: Mapping[str, tuple[History, ...]]
    examples: tuple[Example, ...]
    facts: Mapping[str, Any]
    seconds: float
    report: Path

    @property
    def table(self) -> "pd.DataFrame":
        """The five measures by method, columns (measure, "mean" or "std"); a single run has no std (NaN)."""
        return self.scores.groupby("method", sort=False)[list(METRICS)].agg(["mean", "std"])
