"""A grid as a LaTeX table; the preamble needs the package booktabs and nothing else."""

import re

from onepos.tables.grid import Cell, Grid

_CHARACTERS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "∞": r"$\infty$",
    "†": r"$\dagger$",
    "√": r"$\surd$",
    "χ": r"$\chi$",
    "²": r"$^2$",
    "₁": r"$_1$",
    "₂": r"$_2$",
    "–": "--",
}
# Where one formula ends and the next begins: together they are one. A dollar of the text has a backslash.
_ADJACENT = re.compile(r"(?<!\\)\$\$")
# A hyphen before a digit or a point, and after no word, is a minus.
_MINUS = re.compile(r"(?<![\w-])-(?=[.\d∞])")


def latex(grid: Grid, *, bare: bool) -> str:
    """Return a ``tabular``, in a ``table`` with the title as caption and the notes below unless ``bare``."""
    numbers = len(grid.header) - grid.text_columns
    lines = [rf"\begin{{tabular}}{{{'l' * grid.text_columns}{'r' * numbers}}}", r"\toprule"]
    lines += [_line([_escape(text) for text in grid.header]), r"\midrule"]
    lines += [_line([_cell(cell) for cell in row]) for row in grid.rows]
    if grid.footer:
        lines += [r"\midrule", *(_line([_cell(cell) for cell in row]) for row in grid.footer)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if not bare:
        notes = [rf"\par\footnotesize {_escape(note)}" for note in grid.notes]
        caption = rf"\caption{{{_escape(grid.title)}}}"
        lines = [r"\begin{table}", r"\centering", caption, *lines, *notes, r"\end{table}"]
    return "\n".join(lines) + "\n"


def _line(texts: list[str]) -> str:
    # An opening bracket at the start of a line would be read as the optional argument of the \\ before it.
    return " & ".join(f"{{}}{text}" if text.startswith("[") else text for text in texts) + r" \\"


def _cell(cell: Cell) -> str:
    text = _escape(cell.text)
    mark = rf"\textsuperscript{{{_escape(cell.mark)}}}" if cell.mark else ""
    return (rf"\textbf{{{text}}}" if cell.bold and text else text) + mark


def _escape(text: str) -> str:
    # The minus is marked with a character that no text has, and set after the escapes, which would spoil its $.
    marked = _MINUS.sub("\0", " ".join(text.split()))
    escaped = "".join(_CHARACTERS.get(character, character) for character in marked).replace("\0", "$-$")
    return _ADJACENT.sub("", escaped)
