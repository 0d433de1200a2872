"""Run the examples and write the gallery: one page each with its code, what it printed and its pictures.

``python examples/gallery.py`` writes all pages to ``docs/gallery``; names after it (``table text``) only those. An
example is a script in cells, separated by ``# %%``; comments at the start of a cell are its text.
"""

import argparse
import ast
import io
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

EXAMPLES = Path(__file__).parent
PAGES = EXAMPLES.parent / "docs" / "gallery"
#: In the order of the overview. An example without cells is shown as a whole.
NAMES = ("table", "text", "images", "review_loop", "theory", "compare")


@dataclass
class Cell:
    """A piece of an example: its text, its code, and once it has run, what it printed and drew."""

    text: str
    code: str
    printed: str = ""
    pictures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Example:
    """A script: title and introduction from its docstring, then cells."""

    name: str
    title: str
    introduction: str
    cells: list[Cell]


def read_example(name: str) -> Example:
    """Read a script; its first cell begins at the first ``# %%``, or after the docstring if there is none."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    title, _, introduction = (ast.get_docstring(ast.parse(source)) or name).partition("\n\n")
    _, *parts = re.split(r"^# %%\n", source, flags=re.MULTILINE)
    cells = [_cell(part) for part in parts] or [Cell("", source.strip())]
    return Example(name, title.rstrip("."), introduction.strip(), cells)


def _cell(part: str) -> Cell:
    lines = part.splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end])
    return Cell(text, "\n".join(lines[end:]).strip())


def run_example(example: Example, folder: Path, arguments: Sequence[str] = ()) -> Example:
    """Run the cells in order, as the script would with ``--out folder``, and note what each prints and draws."""
    path = EXAMPLES / f"{example.name}.py"
    with patch.object(sys, "argv", [str(path), "--out", str(folder), *arguments]):
        if len(example.cells) == 1:
            with _noted(example.cells[0], folder):
                runpy.run_path(str(path), run_name="__main__")
            return example
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for cell in example.cells:
            with _noted(cell, folder):
                exec(compile(cell.code, str(path), "exec"), namespace)
    return example


@contextmanager
def _noted(cell: Cell, folder: Path) -> Iterator[None]:
    before = set(folder.glob("*.png"))
    with redirect_stdout(io.StringIO()) as printed:
        yield
    # Lines with times or folders differ from run to run.
    kept = [line.rstrip() for line in printed.getvalue().splitlines() if str(folder) not in line]
    cell.printed = "\n".join(kept).strip("\n")
    cell.pictures = sorted(path.name for path in set(folder.glob("*.png")) - before)


def write_page(example: Example) -> str:
    """Return the page of an example that has run."""
    parts = [f"# {example.title}", example.introduction, f"`python examples/{example.name}.py` runs it."]
    if len(example.cells) == 1:
        (cell,) = example.cells
        script = f"<details markdown>\n<summary>Show it</summary>\n\n```py\n{cell.code}\n```\n\n</details>"
        parts += [*_outcome(example, cell), "## The script", script]
        return "\n\n".join(parts) + "\n"
    for cell in example.cells:
        parts += [cell.text, f"```py\n{cell.code}\n```"] if cell.code else [cell.text]
        parts += _outcome(example, cell)
    return "\n\n".join(part for part in parts if part) + "\n"


def _outcome(example: Example, cell: Cell) -> list[str]:
    printed = [f"```text\n{cell.printed}\n```"] if cell.printed else []
    return printed + [f"![{example.title}]({picture})" for picture in cell.pictures]


def shrink(picture: Path) -> None:
    """Write a picture anew with 256 colours: drawings look the same and take a fraction of the space."""
    from PIL import Image

    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)


def write_overview(examples: Sequence[Example]) -> str:
    """Return the page with a picture and a sentence of every example; it needs their pages' first pictures."""
    parts = [
        "# Gallery",
        "Six scripts on embedded or generated data, with what they print and draw. `make gallery` runs them again.",
    ]
    for example in examples:
        page = (PAGES / f"{example.name}.md").read_text(encoding="utf-8")
        picture = re.findall(r"^!\[.*\]\((.*)\)$", page, re.MULTILINE)[0]
        parts += [f"## [{example.title}]({example.name}.md)", example.introduction.partition("\n\n")[0]]
        parts += [f"[![{example.title}]({picture})]({example.name}.md)"]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run the named examples, all by default, and write their pages."""
    parser = argparse.ArgumentParser(description="Run the examples and write the gallery.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NAMES))
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().names or NAMES:
        for old in PAGES.glob(f"{name}*.png"):
            old.unlink()
        example = run_example(read_example(name), PAGES)
        pictures = [picture for cell in example.cells for picture in cell.pictures]
        for picture in pictures:
            shrink(PAGES / picture)
        (PAGES / f"{name}.md").write_text(write_page(example), encoding="utf-8")
        print(f"docs/gallery/{name}.md: {', '.join(pictures)}", flush=True)
    overview = write_overview([read_example(name) for name in NAMES])
    (PAGES / "index.md").write_text(overview, encoding="utf-8")


if __name__ == "__main__":
    main()
