"""Where output goes: results to standard output, progress and complaints to standard error."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from onepos.exceptions import OneposError

#: The option that every command takes.
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on standard output.")]


class InputError(OneposError):
    """A mistake in the options or the data; ends the command with exit code 2 and one line."""


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn a ValueError into an InputError; for calls that only pass on what the user gave."""
    try:
        yield
    except ValueError as error:
        raise InputError(str(error)) from error


def print_line(text: str = "") -> None:
    """Print plain text: brackets in it are not markup, and no line is wrapped."""
    Console(highlight=False).print(text, markup=False, soft_wrap=True)


def print_prose(text: str) -> None:
    """Print sentences: broken between words on a terminal, one line for a program that reads them."""
    console = Console(highlight=False)
    console.print(text, markup=False, soft_wrap=not console.is_terminal)


def print_note(text: str) -> None:
    """Print something that the user should know beside the result."""
    print_prose(f"note: {text}")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Print a table; the columns named in ``numbers`` are set flush right."""
    made = Table(box=None, padding=(0, 1), header_style="bold", show_edge=False)
    for name in columns:
        if name in numbers:
            made.add_column(name, justify="right", no_wrap=True)
        else:
            made.add_column(name, overflow="fold")
    for row in rows:
        made.add_row(*row)
    Console(highlight=False).print(made)


def print_json(value: Any) -> None:
    """Print JSON that any parser reads: ASCII only, null for what is not a number."""
    sys.stdout.write(json.dumps(_plain(value), indent=2, allow_nan=False) + "\n")


def answer(as_json: bool, value: dict[str, Any], line: str) -> None:
    """Print JSON for a program, or one line for people."""
    if as_json:
        print_json(value)
    else:
        print_line(line)


def _plain(value: Any) -> Any:
    """Turn NumPy values, paths, missing and non-finite numbers into what JSON knows."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return None if str(value) in ("<NA>", "NaT") else str(value)


def check_page(option: str, path: Path) -> None:
    """Raise before the work, not after it, if a page cannot be written to ``path``."""
    from onepos.pages import require_report
    from onepos.table.writing import check_place

    check_place(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{option} writes a page, to a file that ends in .html; got {path.name!r}.")
    if option == "--report":
        require_report()


def check_apart(read: dict[str, Path | None], written: dict[str, Path | None]) -> None:
    """Raise if a file to write is one of those that are read, or is written twice; keys are names of options."""
    names: dict[Path, str] = {}
    for name, path in (*read.items(), *written.items()):
        if path is None:
            continue
        known = names.setdefault(path.resolve(), name)
        if known != name and name in written:
            does = "is read as" if known in read else "is written as"
            raise InputError(f"{name} would replace {path}, which {does} {known}: name another file.")
