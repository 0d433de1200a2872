"""A table as it is read (a grid of short texts), and its writers: Markdown, LaTeX, CSV, terminal."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from onepos._utils.machine import require
from onepos.metrics import METRIC_TITLES, higher_is_better

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text


#: Shown where there is no value.
NOTHING = "–"
#: Decimals of a measure, as in the paper.
DIGITS = 3


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
                raise ValueError(f"expected {len(self.header)} cells per row, as the header has; got {len(row)}: {row}")


class Table(Protocol):
    """What the writers of :mod:`onepos.study.tables.formats` take."""

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """Return the table as it is read, with ``names`` in place of the keys of methods."""

    def frame(self) -> pd.DataFrame:
        """Return every number in full precision, one row per cell of the table."""


def metric_title(metric: str) -> str:
    """Return the measure's name with the arrow that points to better."""
    return f"{METRIC_TITLES[metric]} {arrow(metric)}"


def arrow(metric: str) -> str:
    """Return "↑" if higher is better, else "↓"."""
    return "↑" if higher_is_better(metric) else "↓"


def short(value: float, *, sign: bool = False) -> str:
    """Write a number as the paper does: without a zero before the point, and no sign on what rounds to zero."""
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return ("-" if value < 0 else "+" if sign else "") + "∞"
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


def name_of(key: str, names: Mapping[str, str] | None) -> str:
    """Return the name to show for a method's key: the key itself if it has no other."""
    return (names or {}).get(key, key)


#: What :func:`render` writes, and the ending of a file that holds it.
FORMATS: Mapping[str, str] = {"markdown": ".md", "latex": ".tex", "csv": ".csv", "terminal": ".txt"}


def render(table: Table, form: str = "markdown", *, names: Mapping[str, str] | None = None, bare: bool = False) -> str:
    """Write a table in the format named ``form``; the other parameters as in :func:`to_markdown`.

    Examples
    --------
    >>> from onepos.study.tables import example_results, main_table
    >>> render(main_table(example_results(), "one_error"), "csv").splitlines()[0]
    'metric,selection,dataset,method,mean,std,count,best,incomplete,features'
    """
    if form not in FORMATS:
        raise ValueError(f"expected a format among {', '.join(FORMATS)}; got {form!r}: choose one of these")
    if form == "csv":  # one line per cell, every number in a column of its own with all its digits; keys stay keys
        return str(table.frame().to_csv(index=False, lineterminator="\n"))
    writer = {"markdown": to_markdown, "latex": to_latex, "terminal": to_terminal}[form]
    return writer(table, names=names, bare=bare)


def to_markdown(table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False) -> str:
    """Write a Markdown table.

    Parameters
    ----------
    table : MainTable, Significance, RankTable, Comparison or SelectionTable
    names : mapping of str to str, optional
        Names to show in place of the keys of methods.
    bare : bool, default=False
        Leave out the title and the notes.

    Examples
    --------
    >>> from onepos.study.tables import example_results, main_table
    >>> table = main_table(example_results(), "average_precision")
    >>> print(to_markdown(table, names={"smile": "SMILE"}, bare=True), end="")
    | data set | SMILE | an | bce |
    | --- | ---: | ---: | ---: |
    | scene | **.830±.014** | .805±.007 | .875±.007 |
    | yeast | **.755±.007** | .740†1 | .775±.007 |
    | average rank | **1.00** | 2.00 | – |
    """
    grid = table.grid(names)
    align = ["---" if column < grid.text_columns else "---:" for column in range(len(grid.header))]
    lines = [[_markdown_escape(text) for text in grid.header], align]
    # Markdown has no foot of a table: its lines follow the others.
    lines += [[_markdown_cell(cell) for cell in row] for row in (*grid.rows, *grid.footer)]
    parts = ["\n".join(f"| {' | '.join(line)} |" for line in lines)]
    if not bare:
        parts = [f"**{_markdown_escape(grid.title)}**", *parts, *(_markdown_escape(note) for note in grid.notes)]
    return "\n\n".join(parts) + "\n"


def to_latex(table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False) -> str:
    r"""Write a LaTeX table with booktabs rules, a ``tabular`` alone if ``bare``; parameters as in :func:`to_markdown`.

    Examples
    --------
    >>> from onepos.study.tables import example_results, main_table
    >>> table = main_table(example_results(), "average_precision", datasets=["scene"], methods=["smile", "bce"])
    >>> print(to_latex(table, bare=True).splitlines()[4])
    scene & \textbf{.830$\pm$.014} & .875$\pm$.007 \\
    """
    grid = table.grid(names)
    numbers = len(grid.header) - grid.text_columns
    lines = [rf"\begin{{tabular}}{{{'l' * grid.text_columns}{'r' * numbers}}}", r"\toprule"]
    lines += [_latex_line([_latex_escape(text) for text in grid.header]), r"\midrule"]
    lines += [_latex_line([_latex_cell(cell) for cell in row]) for row in grid.rows]
    if grid.footer:
        lines += [r"\midrule", *(_latex_line([_latex_cell(cell) for cell in row]) for row in grid.footer)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if not bare:
        notes = [rf"\par\footnotesize {_latex_escape(note)}" for note in grid.notes]
        caption = rf"\caption{{{_latex_escape(grid.title)}}}"
        lines = [r"\begin{table}", r"\centering", caption, *lines, *notes, r"\end{table}"]
    return "\n".join(lines) + "\n"


def to_terminal(
    table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False, width: int | None = None
) -> str:
    """Write plain text with a * after what is bold, in blocks of columns if ``width`` is too small for all.

    Parameters as in :func:`to_markdown`. Needs rich.

    Examples
    --------
    >>> from onepos.study.tables import example_results, main_table
    >>> print(to_terminal(main_table(example_results(), "average_precision", methods=["smile", "an"]), bare=True))
      data set            smile          an
     ───────────────────────────────────────
      scene          .830±.014*   .805±.007
      yeast          .755±.007*      .740†1
    <BLANKLINE>
      average rank        1.00*        2.00
    <BLANKLINE>
    """
    grid = table.grid(names)
    needed = sum(_widths(grid)) + _AROUND
    out = StringIO()
    console = _rich("console").Console(
        file=out, width=max(width or max(needed, _NOTES_WIDTH), 1), color_system=None, force_terminal=False
    )
    console.print(_rich_group(grid, bare=bare, width=width, stars=True))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n") + "\n"


def to_rich(
    table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False, width: int | None = None
) -> "Group":
    """Return what a rich console prints with real bold; parameters as in :func:`to_terminal`.

    Give the console's width: beyond it rich would cut the numbers.
    """
    return _rich_group(table.grid(names), bare=bare, width=width, stars=False)


# Parts of the writers.

_WORDS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
_SIGNS = {"<": "<", ">": ">", "²": "^2", "₁": "_1", "₂": "_2", "±": r"\pm", "χ": r"\chi", "√": r"\surd"}
_SIGNS |= {"↑": r"\uparrow", "↓": r"\downarrow", "∞": r"\infty", "†": r"\dagger"}
_CHARACTERS = {sign: f"\\{sign}" for sign in "&%$#_{}"} | _WORDS | {sign: f"${math}$" for sign, math in _SIGNS.items()}
# Where one formula ends and the next begins: together they are one. A dollar of the text has a backslash.
_ADJACENT = re.compile(r"(?<!\\)\$\$")
# A hyphen before a digit or a point, and after no word, is a minus.
_MINUS = re.compile(r"(?<![\w-])-(?=[.\d∞])")


def _latex_line(texts: list[str]) -> str:
    # An opening bracket at the start of a line would be read as the optional argument of the \\ before it.
    return " & ".join(f"{{}}{text}" if text.startswith("[") else text for text in texts) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = _latex_escape(cell.text)
    mark = rf"\textsuperscript{{{_latex_escape(cell.mark)}}}" if cell.mark else ""
    return (rf"\textbf{{{text}}}" if cell.bold and text else text) + mark


def _latex_escape(text: str) -> str:
    # The minus is marked with a character that no text has, and set after the escapes, which would spoil its $.
    marked = _MINUS.sub("\0", " ".join(text.split()))
    escaped = "".join(_CHARACTERS.get(character, character) for character in marked).replace("\0", "$-$")
    return _ADJACENT.sub("", escaped)


_SPECIAL = re.compile(r"([\\`*_|<>])")


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_escape(cell.text)
    return (f"**{text}**" if cell.bold and text else text) + _markdown_escape(cell.mark)


def _markdown_escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


_PURPOSE = "showing a table on a terminal"
#: What rich sets around a column's text in the box that is used here: a space on each side, and a line's place.
_AROUND = 3
#: Notes are not squeezed under a narrow table.
_NOTES_WIDTH = 100


def _rich_group(grid: Grid, *, bare: bool, width: int | None, stars: bool) -> "Group":
    """Title, tables and notes to print; ``stars`` put a * after what is bold, where bold cannot be seen."""
    group: type[Group] = _rich("console").Group
    tables = [_table(block, stars) for block in blocks(grid, width)]
    if bare:
        return group(*tables)
    text = _rich("text").Text
    notes = [text(note) for note in grid.notes]
    if stars and any(cell.bold for row in (*grid.rows, *grid.footer) for cell in row):
        notes.append(text("* stands for bold."))
    return group(text(grid.title, style="bold"), *tables, *notes)


def blocks(grid: Grid, width: int | None) -> list[Grid]:
    """Split the columns of numbers so that each part, with the columns of words before it, fits into ``width``."""
    widths = _widths(grid)
    words = list(range(grid.text_columns))
    room = None if width is None else width - _AROUND - sum(widths[column] for column in words)
    parts: list[list[int]] = [[]]
    for column in range(grid.text_columns, len(grid.header)):
        used = sum(widths[taken] for taken in parts[-1])
        if room is not None and parts[-1] and used + widths[column] > room:
            parts.append([])
        parts[-1].append(column)
    return [_columns(grid, words + part) for part in parts]


def _columns(grid: Grid, chosen: list[int]) -> Grid:
    rows, footer = (tuple(tuple(row[column] for column in chosen) for row in part) for part in (grid.rows, grid.footer))
    return replace(grid, header=tuple(grid.header[column] for column in chosen), rows=rows, footer=footer)


def _widths(grid: Grid) -> list[int]:
    texts = [[Cell(text) for text in grid.header], *grid.rows, *grid.footer]
    cell_len = _rich("cells").cell_len
    # One place more for the star.
    return [
        max(cell_len(cell.text + cell.mark) + cell.bold for cell in column) + _AROUND
        for column in zip(*texts, strict=True)
    ]


def _table(grid: Grid, stars: bool) -> "RichTable":
    table: RichTable = _rich("table").Table(box=_rich("box").SIMPLE_HEAD, padding=(0, 1))
    for column, text in enumerate(grid.header):
        table.add_column(
            _text(Cell(text), False), justify="left" if column < grid.text_columns else "right", no_wrap=True
        )
    for number, row in enumerate((*grid.rows, *grid.footer), start=1):
        table.add_row(*(_text(cell, stars) for cell in row), end_section=number == len(grid.rows) and bool(grid.footer))
    return table


def _text(cell: Cell, stars: bool) -> "Text":
    # A Text and no str: the brackets of "win[0.0005]" are no markup.
    text: Text = _rich("text").Text(cell.text, style="bold" if cell.bold else "")
    return text.append("*" if stars and cell.bold else "").append(cell.mark)


def _rich(module: str) -> Any:
    return require(f"rich.{module}", extra="cli", purpose=_PURPOSE)
