"""Tables as they stand on the page: turned, cut to a width that can be read, method keys set as code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from onepos.methods.registry import METHODS
from onepos.study.tables import Cell, Grid, to_markdown

_KEY = "|".join(sorted(map(re.escape, METHODS), key=len, reverse=True))
#: A cell that is the key of a method, or a list of them.
_KEYS = re.compile(rf"(?<=\| )(?:{_KEY})(?:, (?:{_KEY}))*(?= \|)")


@dataclass(frozen=True)
class _Laid:
    """A grid in the form that the writers of ``onepos.study.tables`` take."""

    made: Grid

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        return self.made

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame([[cell.text for cell in row] for row in self.made.rows], columns=list(self.made.header))


def turned(grid: Grid, corner: str = "method") -> Grid:
    """Return the grid with rows and columns exchanged; the lines of its foot become the last columns."""
    lines = (*grid.rows, *grid.footer)
    columns = [[row[place] for row in lines] for place in range(1, len(grid.header))]
    return replace(
        grid,
        header=(corner, *(row[0].text for row in lines)),
        rows=tuple((Cell(name), *cells) for name, cells in zip(grid.header[1:], columns, strict=True)),
        footer=(),
    )


def write(grid: Grid, widths: Sequence[int] = ()) -> str:
    """Write a grid in Markdown without its title, which the page has as a heading, with its notes below.

    ``widths`` cut it into tables below each other, each with the first column and so many of the others; what is
    left goes into the last.
    """
    ends = [sum(widths[:place]) for place in range(len(widths) + 1)]
    spans = list(zip(ends, [*ends[1:], len(grid.header) - 1], strict=True))
    parts = [_columns(grid, [0, *range(start + 1, end + 1)]) for start, end in spans if start < end]
    tables = [to_markdown(_Laid(part), bare=True) for part in parts]
    # The notes are written with the last part, where the writer escapes them; its title is the first paragraph.
    tables[-1] = to_markdown(_Laid(parts[-1])).partition("\n\n")[2]
    return _on_the_page("\n".join(tables))


def write_bare(grid: Grid) -> str:
    """Write a grid in Markdown without title and notes."""
    return _on_the_page(to_markdown(_Laid(grid), bare=True))


def _on_the_page(text: str) -> str:
    """Set method keys as code; write < as the site and GitHub both read it."""
    return _KEYS.sub(lambda cell: re.sub(r"[^, ]+", r"`\g<0>`", cell[0]), text).replace("\\<", "&lt;").strip()


def _columns(grid: Grid, chosen: Sequence[int]) -> Grid:
    rows, footer = (tuple(tuple(row[place] for place in chosen) for row in part) for part in (grid.rows, grid.footer))
    return replace(grid, header=tuple(grid.header[place] for place in chosen), rows=rows, footer=footer)
