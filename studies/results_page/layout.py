"""Tables as they stand on the page: turned, method keys set as code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from onepos.methods.registry import installed_methods
from onepos_studies.study.tables import Cell, Grid, to_markdown

_KEY = "|".join(sorted(map(re.escape, installed_methods()), key=len, reverse=True))
#: A cell that is the key of a method, or a list of them.
_KEYS = re.compile(rf"(?<=\| )(?:{_KEY})(?:, (?:{_KEY}))*(?= \|)")


@dataclass(frozen=True)
class _Laid:
    """A grid in the form that the writers of ``onepos_studies.study.tables`` take."""

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


def write(grid: Grid) -> str:
    """Write a grid in Markdown without its title, which the page has as a heading, with its notes below."""
    return _on_the_page(to_markdown(_Laid(grid)).partition("\n\n")[2])  # the title is the first paragraph


def write_bare(grid: Grid) -> str:
    """Write a grid in Markdown without title and notes."""
    return _on_the_page(to_markdown(_Laid(grid), bare=True))


def _on_the_page(text: str) -> str:
    """Set method keys as code; write < as the site and GitHub both read it."""
    return _KEYS.sub(lambda cell: re.sub(r"[^, ]+", r"`\g<0>`", cell[0]), text).replace("\\<", "&lt;").strip()
