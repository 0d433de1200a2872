"""A table as it is read, with the numbers behind it, and its writers: Markdown, LaTeX, CSV, terminal."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import fill
from typing import Any

import pandas as pd

from onepos.metrics import METRIC_TITLES, higher_is_better

#: Shown where there is no value.
NOTHING = "–"
#: Decimals of a measure, as in the paper.
DIGITS = 3
#: What :func:`render` writes.
FORMATS = ("markdown", "latex", "csv", "terminal")
#: The width of notes on a terminal of unknown width.
_NOTES_WIDTH = 100


@dataclass(frozen=True)
class Cell:
    """A text, whether it is bold, and a mark after it that is never bold."""

    text: str
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Grid:
    """A table to read: ``text_columns`` on the left hold words, the others numbers; notes explain both.

    ``data`` has every number in full precision, one row per cell of the table.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    text_columns: int = 1
    data: pd.DataFrame = field(default_factory=pd.DataFrame, compare=False)

    def named(self, names: Mapping[str, str]) -> "Grid":
        """Return the grid with the names of methods in place of their keys."""
        left = self.text_columns
        rows = [
            (*(replace(cell, text=names.get(cell.text, cell.text)) for cell in row[:left]), *row[left:])
            for row in self.rows
        ]
        return replace(self, header=tuple(names.get(text, text) for text in self.header), rows=tuple(rows))


def metric_title(metric: str) -> str:
    """Return the measure's name with the arrow that points to better."""
    return f"{METRIC_TITLES[metric]} {'↑' if higher_is_better(metric) else '↓'}"


def short(value: float, *, sign: bool = False) -> str:
    """Write a number as the paper does: without a zero before the point, and no sign on what rounds to zero."""
    if not math.isfinite(value):
        return NOTHING
    rounded = f"{abs(value):.{DIGITS}f}"
    prefix = "" if float(rounded) == 0 else "-" if value < 0 else "+" if sign else ""
    return prefix + rounded.removeprefix("0")


def mean_std(mean: float, std: float) -> str:
    """Write mean±std; a spread that is not known (one trial) is left out, a mean that is not known is a dash."""
    return short(mean) if math.isnan(mean) or math.isnan(std) else f"{short(mean)}±{short(std)}"


def p_text(p_value: float) -> str:
    """Write a p-value with four decimals, as the paper does."""
    return "<0.0001" if p_value < 0.00005 else f"{p_value:.4f}"


def rank_cells(ranks: Sequence[float | None]) -> list[Cell]:
    """Write average ranks with two decimals, the best of them in bold, and a dash for None."""
    shown = [None if rank is None else f"{rank:.2f}" for rank in ranks]
    best = min((float(text) for text in shown if text is not None), default=None)
    return [Cell(NOTHING) if text is None else Cell(text, bold=float(text) == best) for text in shown]


def render(
    grid: Grid, form: str = "markdown", *, names: Mapping[str, str] | None = None, width: int | None = None
) -> str:
    """Write a table in one of ``FORMATS``, with ``names`` in place of the keys of methods except in CSV."""
    if form == "csv":
        return str(grid.data.to_csv(index=False, lineterminator="\n"))
    named = grid.named(names or {})
    if form == "markdown":
        return f"**{_escape(named.title)}**\n\n{to_markdown(named)}"
    if form == "latex":
        return to_latex(named)
    if form == "terminal":
        return to_terminal(named, width)
    raise ValueError(f"expected a format among {', '.join(FORMATS)}; got {form!r}: choose one of these")


def to_markdown(grid: Grid) -> str:
    """Write a Markdown table with its notes, without its title."""
    align = ["---" if column < grid.text_columns else "---:" for column in range(len(grid.header))]
    rows = [
        [(f"**{_escape(cell.text)}**" if cell.bold else _escape(cell.text)) + _escape(cell.mark) for cell in row]
        for row in grid.rows
    ]
    lines = [[_escape(text) for text in grid.header], align, *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([table, *(_escape(note) for note in grid.notes)]) + "\n"


def to_latex(grid: Grid) -> str:
    """Write a LaTeX table with booktabs rules, for an engine that reads UTF-8."""
    texts = pd.DataFrame([[cell.text + cell.mark for cell in row] for row in grid.rows], columns=list(grid.header))
    bold = pd.DataFrame(
        [["bfseries:" if cell.bold else "" for cell in row] for row in grid.rows], columns=texts.columns
    )
    style: Any = texts.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis="columns")
    layout = "l" * grid.text_columns + "r" * (len(grid.header) - grid.text_columns)
    written = style.apply(lambda _: bold, axis=None).to_latex(hrules=True, column_format=layout)
    title, *notes = (re.sub(r"([&%$#_{}])", r"\\\1", text) for text in (grid.title, *grid.notes))
    below = "".join(f"\\par\\footnotesize {note}\n" for note in notes)
    # A hyphen before a number is a minus; an opening bracket would be an option of the line end before it.
    written = re.sub(r"^(?=\[)", "{}", re.sub(r"(?<![\w-])-(?=[.\d])", "$-$", written), flags=re.MULTILINE)
    return f"\\begin{{table}}\n\\centering\n\\caption{{{title}}}\n{written}{below}\\end{{table}}\n"


def to_terminal(grid: Grid, width: int | None = None) -> str:
    """Write plain text with a * after bold cells, in blocks of columns if ``width`` is too small for all."""
    cells = [[cell.text + "*" * cell.bold + cell.mark for cell in row] for row in grid.rows]
    frame = pd.DataFrame(cells, columns=list(grid.header)).set_index(list(grid.header[: grid.text_columns]))
    shown = "\n".join(line.rstrip() for line in frame.to_string(line_width=width, sparsify=False).splitlines())
    notes = [*grid.notes, *(["* stands for bold."] if "*" in shown else [])]
    return "\n\n".join([grid.title, shown, "\n".join(fill(note, width or _NOTES_WIDTH) for note in notes)]) + "\n"


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_|<>])", r"\\\1", " ".join(text.split()))
