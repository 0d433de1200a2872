"""A grid as a Markdown table."""

import re

from onepos.tables.grid import Cell, Grid

_SPECIAL = re.compile(r"([\\`*_|<>])")


def markdown(grid: Grid, *, bare: bool) -> str:
    """Return the table, with its title above and its notes below unless ``bare``."""
    align = ["---" if column < grid.text_columns else "---:" for column in range(len(grid.header))]
    lines = [_line([_escape(text) for text in grid.header]), _line(align)]
    # Markdown has no foot of a table: its lines follow the others.
    lines += [_line([_cell(cell) for cell in row]) for row in (*grid.rows, *grid.footer)]
    table = "\n".join(lines)
    if bare:
        return table + "\n"
    return "\n\n".join([f"**{_escape(grid.title)}**", table, *(_escape(note) for note in grid.notes)]) + "\n"


def _line(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _cell(cell: Cell) -> str:
    text = _escape(cell.text)
    return (f"**{text}**" if cell.bold and text else text) + _escape(cell.mark)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
