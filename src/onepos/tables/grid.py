"""What every table is before it is written: a grid of short texts, some of them bold."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from onepos.metrics import METRIC_TITLES, higher_is_better

#: Shown where there is no value.
NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """A text, whether it is set in bold, and a mark that is set after it and not in bold."""

    text: str
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Grid:
    """A table as it is read: ``text_columns`` on the left are words, the others numbers; notes say what is what."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footer: tuple[tuple[Cell, ...], ...] = ()
    notes: tuple[str, ...] = ()
    text_columns: int = 1

    def __post_init__(self) -> None:
        for row in (*self.rows, *self.footer):
            if len(row) != len(self.header):
                raise ValueError(f"expected {len(self.header)} cells a row, as the header has; got {len(row)}: {row}")


class Table(Protocol):
    """What the writers of :mod:`onepos.tables.formats` take."""

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Return the table as it is read, with ``names`` in place of the keys of methods."""

    def frame(self) -> pd.DataFrame:
        """Return every number in full precision, one row a cell of the table."""


def metric_title(metric: str) -> str:
    """Return the measure's name with the arrow that points to better.

    Examples
    --------
    >>> metric_title("one_error")
    'One-error ↓'
    """
    return f"{METRIC_TITLES[metric]} {arrow(metric)}"


def arrow(metric: str) -> str:
    """Return "↑" if higher is better, else "↓"."""
    return "↑" if higher_is_better(metric) else "↓"


def short(value: float, digits: int = 3, *, sign: bool = False) -> str:
    """Write a number as the paper does: without a zero before the point, and no sign on what rounds to zero.

    Examples
    --------
    >>> short(0.4331), short(-0.0121), short(1.0), short(0.012, sign=True), short(-0.0001, sign=True)
    ('.433', '-.012', '1.000', '+.012', '.000')
    """
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return ("-" if value < 0 else "+" if sign else "") + "∞"
    digits_only = f"{abs(value):.{digits}f}"
    prefix = "" if float(digits_only) == 0 else "-" if value < 0 else "+" if sign else ""
    return prefix + digits_only.removeprefix("0")


def mean_std(mean: float, std: float, digits: int = 3) -> str:
    """Write mean±std; a spread that is not known (one trial) is left out, a mean that is not known is a dash.

    Examples
    --------
    >>> mean_std(0.4331, 0.0228), mean_std(0.5, float("nan"))
    ('.433±.023', '.500')
    """
    text = short(mean, digits)
    return text if math.isnan(mean) or math.isnan(std) else f"{text}±{short(std, digits)}"


def p_text(p_value: float) -> str:
    """Write a p-value with four decimals, as the paper does.

    Examples
    --------
    >>> p_text(0.00048828125), p_text(1e-7)
    ('0.0005', '<0.0001')
    """
    return "<0.0001" if p_value < 0.00005 else f"{p_value:.4f}"


def rank_cells(ranks: Sequence[float | None]) -> list[Cell]:
    """Write average ranks with two decimals, the best of them in bold, and a dash for None."""
    shown = [None if rank is None else f"{rank:.2f}" for rank in ranks]
    best = min((float(text) for text in shown if text is not None), default=None)
    return [Cell(NOTHING) if text is None else Cell(text, bold=float(text) == best) for text in shown]


def name_of(key: str, names: Mapping[str, str] | None) -> str:
    """Return the name to show for a method's key: the key itself if it has no other."""
    return (names or {}).get(key, key)
