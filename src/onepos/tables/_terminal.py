"""A grid as rich tables, for a terminal: in blocks of columns if it is wider than the terminal."""

from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

from onepos._optional import require
from onepos.tables.grid import Cell, Grid

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

_PURPOSE = "showing a table on a terminal"
#: What rich sets around a column's text in the box that is used here: a space on each side, and a line's place.
_AROUND = 3
#: Notes are not squeezed under a narrow table.
_NOTES_WIDTH = 100


def rich_group(grid: Grid, *, bare: bool, width: int | None = None, stars: bool = False) -> "Group":
    """Return title, tables and notes as one thing to print.

    Numbers are never cut: what does not fit into ``width`` goes into a further table below, with the same lines.
    ``stars`` put a * after what is bold, for places where bold cannot be seen.
    """
    group: type[Group] = _rich("console").Group
    tables = [_table(block, stars) for block in blocks(grid, width)]
    if bare:
        return group(*tables)
    text = _rich("text").Text
    notes = [text(note) for note in grid.notes]
    if stars and any(cell.bold for row in (*grid.rows, *grid.footer) for cell in row):
        notes.append(text("* stands for bold."))
    return group(text(grid.title, style="bold"), *tables, *notes)


def terminal(grid: Grid, *, bare: bool, width: int | None = None) -> str:
    """Return the table as plain text, with a * after what is bold; as wide as it needs to be without a ``width``."""
    needed = sum(_widths(grid)) + _AROUND
    out = StringIO()
    console = _rich("console").Console(
        file=out, width=max(width or max(needed, _NOTES_WIDTH), 1), color_system=None, force_terminal=False
    )
    console.print(rich_group(grid, bare=bare, width=width, stars=True))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n") + "\n"


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


def _table(grid: Grid, stars: bool) -> "Table":
    table: Table = _rich("table").Table(box=_rich("box").SIMPLE_HEAD, padding=(0, 1))
    for column, text in enumerate(grid.header):
        table.add_column(
            _text(Cell(text), False), justify="left" if column < grid.text_columns else "right", no_wrap=True
        )
    for row in grid.rows:
        table.add_row(*(_text(cell, stars) for cell in row))
    if grid.footer:
        table.add_section()
    for row in grid.footer:
        table.add_row(*(_text(cell, stars) for cell in row))
    return table


def _text(cell: Cell, stars: bool) -> "Text":
    # A Text and no str: the brackets of "win[0.0005]" are no markup.
    text: Text = _rich("text").Text(cell.text, style="bold" if cell.bold else "")
    return text.append("*" if stars and cell.bold else "").append(cell.mark)


def _rich(module: str) -> Any:
    return require(f"rich.{module}", extra="cli", purpose=_PURPOSE)
