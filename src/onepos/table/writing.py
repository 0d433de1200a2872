"""Tables written to files: whole or not at all, and without formulas in their cells."""

import csv
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from onepos._utils.files import check_regular, explained, replaced_when_done
from onepos.exceptions import DataFileError

SEPARATED, PARQUET = (".csv", ".tsv", ".tab"), (".parquet", ".pq")


class TableWriter:
    r"""A CSV, TSV or parquet file that grows by frames of the same columns; a context manager.

    Text files are opened by spreadsheets: with ``escape_formulas`` an apostrophe stands before each cell that these
    would compute. The readers of this package take it away again.
    """

    def __init__(self, path: str | Path, *, escape_formulas: bool = True) -> None:
        self.path = check_output(path)
        self.escape = escape_formulas
        self.rows = 0
        self.is_text = self.path.suffix.lower() in SEPARATED

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._part = self._stack.enter_context(replaced_when_done(self.path))
        with explained(self.path):
            self._part.touch()  # fails at once where nothing can be written, not after hours of work
        self._parquet: Any = None
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append the rows of a frame."""
        if self.is_text:
            cells = with_escapes(frame) if self.escape else frame
            layout: Any = {"sep": "," if self.path.suffix.lower() == ".csv" else "\t", "lineterminator": "\n"}
            layout |= {"index": False, "header": not self.rows}
            text = cells.to_csv(**layout)
            if "\r" in text:  # Python 3.11 leaves CR without quotes, and readers end a row there
                text = cells.to_csv(**layout, quoting=csv.QUOTE_NONNUMERIC)
            with self._part.open("a", encoding="utf-8", newline="") as stream:
                stream.write(text)
        else:
            schema = None if self._parquet is None else self._parquet.schema
            table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
            if self._parquet is None:
                self._parquet = self._stack.enter_context(pa.parquet.ParquetWriter(self._part, table.schema))
            self._parquet.write_table(table)
        self.rows += len(frame)

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


# What a spreadsheet takes for the beginning of a formula, perhaps behind apostrophes and blanks; and numbers, which may
# begin so.
_FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?[0-9.,]+([eE][+-]?[0-9]+)?%?")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would compute; numbers and other texts stay."""
    computed = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if computed else cell


def unescape_formula(cell: Any) -> Any:
    """Take back what ``escape_formula`` did."""
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and _FORMULA.match(cell) else cell


def with_escapes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with ``escape_formula`` applied to texts and column names."""
    escaped = frame.rename(columns=escape_formula)
    for place, dtype in enumerate(frame.dtypes):
        if dtype.kind == "O":  # objects, strings and categories
            escaped.isetitem(place, frame.iloc[:, place].astype(object).map(escape_formula, na_action="ignore").array)
    return escaped


def check_output(path: str | Path) -> Path:
    """Return the path if a table can be written to it; else say why not."""
    path, suffixes = Path(path), (*SEPARATED, *PARQUET)
    if path.suffix.lower() not in suffixes:
        raise DataFileError(f"a table is written to {', '.join(suffixes[:4])}; got {path.name!r}. Change its suffix.")
    return check_place(path)


def check_place(path: str | Path) -> Path:
    """Return the path if a file can be written there; else say why not, before any work is done for it."""
    path = Path(path)
    check_regular(path)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise DataFileError(f"cannot write {path}: {folder} is a file, not a folder. Choose another place.")
    if not os.access(folder, os.W_OK):
        raise DataFileError(f"cannot write {path}: no permission in {folder}. Choose another place.")
    return path
