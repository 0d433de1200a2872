"""Tables as they stand on the page: turned, method keys set as code."""

import re
from dataclasses import replace

from onepos.methods.registry import installed_methods
from onepos_studies.study.tables import Cell, Grid, to_markdown

_KEY = "|".join(sorted(map(re.escape, installed_methods()), key=len, reverse=True))
#: A cell that is the key of a method, or a list of them.
_KEYS = re.compile(rf"(?<=\| )(?:{_KEY})(?:, (?:{_KEY}))*(?= \|)")


def turned(grid: Grid, corner: str = "method") -> Grid:
    """Return the grid with rows and columns exchanged."""
    columns = [[row[place] for row in grid.rows] for place in range(1, len(grid.header))]
    rows = tuple((Cell(name), *cells) for name, cells in zip(grid.header[1:], columns, strict=True))
    return replace(grid, header=(corner, *(row[0].text for row in grid.rows)), rows=rows)


def write(header: tuple[str, ...], rows: list[tuple[str | Cell, ...]], *notes: str, text_columns: int = 1) -> str:
    """Write a table in Markdown, with notes below."""
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    return write_grid(Grid("", header, cells, notes, text_columns))


def write_grid(grid: Grid) -> str:
    """Write a grid in Markdown without its title; < is written as the site and GitHub both read it."""
    text = to_markdown(grid)
    return _KEYS.sub(lambda cell: re.sub(r"[^, ]+", r"`\g<0>`", cell[0]), text).replace("\\<", "&lt;").strip()
