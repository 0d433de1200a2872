"""A table as it is read (a grid of short texts), and its writers: Markdown, LaTeX, CSV, terminal."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any, Protocol

import pandas as pd

from onepos.metrics import METRIC_TITLES, higher_is_better

#: Shown where there is no value.
NOTHING = "–"
#: Decimals of a measure, as in the paper.
DIGITS = 3


@dataclass(frozen=True)
class Cell:
    """A text, whether it is bold, and a mark after it that is never bold."""

    text: str
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Grid:
    """A table to read: ``text_columns`` on the left hold words, the others numbers; notes explain both."""

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
    """What the writers below take."""

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
    >>> from onepos_studies.study.tables import example_results, main_table
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

    ``table`` is what a function of this package returned. ``names`` are shown in place of the keys of methods. ``bare``
    leaves out the title and the notes.

    Examples
    --------
    >>> from onepos_studies.study.tables import example_results, main_table
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
    # Markdown has no foot of a table: its lines follow the others.
    rows = [[_markdown_cell(cell) for cell in row] for row in (*grid.rows, *grid.footer)]
    lines = [[_markdown_escape(text) for text in grid.header], align, *rows]
    parts = ["\n".join(f"| {' | '.join(line)} |" for line in lines)]
    if not bare:
        parts = [f"**{_markdown_escape(grid.title)}**", *parts, *(_markdown_escape(note) for note in grid.notes)]
    return "\n\n".join(parts) + "\n"


def to_latex(table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False) -> str:
    r"""Write a LaTeX table with booktabs rules, a ``tabular`` alone if ``bare``; parameters as in :func:`to_markdown`.

    Examples
    --------
    >>> from onepos_studies.study.tables import example_results, main_table
    >>> table = main_table(example_results(), "average_precision", datasets=["scene"], methods=["smile", "bce"])
    >>> print(to_latex(table, bare=True).splitlines()[4])
    scene & \bfseries .830$\pm$.014 & .875$\pm$.007 \\
    """
    grid = table.grid(names)
    lines = (*grid.rows, *grid.footer)
    texts = pd.DataFrame([[cell.text + cell.mark for cell in line] for line in lines], columns=list(grid.header))
    bold = pd.DataFrame([["bfseries:" if cell.bold else "" for cell in line] for line in lines], columns=texts.columns)
    style: Any = texts.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis="columns")
    layout = "l" * grid.text_columns + "r" * (len(grid.header) - grid.text_columns)
    written = style.apply(lambda _: bold, axis=None).to_latex(hrules=True, column_format=layout)
    if not bare:
        title, *notes = (re.sub(r"([&%$#_{}])", r"\\\1", text) for text in (grid.title, *grid.notes))
        below = "".join(f"\\par\\footnotesize {note}\n" for note in notes)
        written = f"\\begin{{table}}\n\\centering\n\\caption{{{title}}}\n{written}{below}\\end{{table}}\n"
    # A hyphen before a number is a minus; an opening bracket would be an option of the line end before it.
    written = re.sub(r"^(?=\[)", "{}", re.sub(r"(?<![\w-])-(?=[.\d∞])", "$-$", written), flags=re.MULTILINE)
    written = "".join(_SIGNS.get(sign, sign) for sign in written)
    return re.sub(r"(?<!\\)\$\$", "", written)  # two formulas side by side are one


def to_terminal(
    table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False, width: int | None = None
) -> str:
    """Write plain text with a * after bold cells, in blocks of columns if ``width`` is too small for all.

    Parameters as in :func:`to_markdown`.

    Examples
    --------
    >>> from onepos_studies.study.tables import example_results, main_table
    >>> print(to_terminal(main_table(example_results(), "average_precision", methods=["smile", "an"]), bare=True))
                       smile         an
    data set
    scene         .830±.014*  .805±.007
    yeast         .755±.007*     .740†1
    average rank       1.00*       2.00
    <BLANKLINE>
    """
    grid = table.grid(names)
    cells = [[cell.text + "*" * cell.bold + cell.mark for cell in row] for row in (*grid.rows, *grid.footer)]
    frame = pd.DataFrame(cells, columns=list(grid.header)).set_index(list(grid.header[: grid.text_columns]))
    shown = "\n".join(line.rstrip() for line in frame.to_string(line_width=width, sparsify=False).splitlines())
    if bare:
        return shown + "\n"
    notes = [*grid.notes, *(["* stands for bold."] if "*" in shown else [])]
    return "\n\n".join([grid.title, shown, "\n".join(fill(note, width or _NOTES_WIDTH) for note in notes)]) + "\n"


#: Signs that LaTeX does not have outside of formulas.
_SIGNS = {
    "<": "$<$",
    ">": "$>$",
    "²": "$^2$",
    "±": r"$\pm$",
    "χ": r"$\chi$",
    "√": r"$\surd$",
    "–": "--",
    "₁": "$_1$",
    "₂": "$_2$",
}
_SIGNS |= {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "∞": r"$\infty$", "†": r"$\dagger$"}
_SPECIAL = re.compile(r"([\\`*_|<>])")
#: The width of notes on a terminal of unknown width.
_NOTES_WIDTH = 100


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_escape(cell.text)
    return (f"**{text}**" if cell.bold and text else text) + _markdown_escape(cell.mark)


def _markdown_escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
