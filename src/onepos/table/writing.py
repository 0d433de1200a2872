"""Tables written to files: whole or not at all, and without formulas in their cells."""

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from onepos._utils.files import check_regular, explained, replaced_when_done
from onepos.exceptions import DataFileError
from onepos.table.kinds import distinct_cells

SEPARATED, PARQUET = (".csv", ".tsv", ".tab"), (".parquet", ".pq")
WRITABLE = (*SEPARATED, *PARQUET)


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
        self._separator = "," if self.path.suffix.lower() == ".csv" else "\t"

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
            with self._part.open("a", encoding="utf-8", newline="") as stream:
                if not self.rows:
                    stream.write(_lines([pa.array([name]) for name in cells.columns], self._separator))
                stream.write(_lines([_texts(cells.iloc[:, place]) for place in range(cells.shape[1])], self._separator))
        else:
            schema = None if self._parquet is None else self._parquet.schema
            table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
            if self._parquet is None:
                self._parquet = self._stack.enter_context(pa.parquet.ParquetWriter(self._part, table.schema))
            self._parquet.write_table(table)
        self.rows += len(frame)

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


def _texts(column: "pd.Series[Any]") -> pa.Array:
    """Return the cells of a column as they stand in a file of text."""
    if column.dtype.kind in "fiu" or isinstance(column.dtype, pd.StringDtype):
        cells = pa.array(column, from_pandas=True)
        return cells.cast(pa.string()) if isinstance(cells, pa.Array) else cells.cast(pa.string()).combine_chunks()
    missing = column.isna()
    texts = [None if gap else str(cell) for cell, gap in zip(column, missing, strict=True)]
    return pa.array(texts, pa.string())


def _lines(columns: list[pa.Array], separator: str) -> str:
    """Return the lines of a file of text; cells that hold a separator, a quotation mark or a line break are quoted."""
    quoted = []
    for column in columns:
        special = pc.match_substring_regex(column, f'["\r\n{separator}]')
        if pc.any(special).as_py():
            doubled = pc.replace_substring(column, '"', '""')
            column = pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), column)
        quoted.append(column)
    gap = "" if len(columns) > 1 else '""'  # readers skip an empty line
    lines = pc.binary_join_element_wise(*quoted, separator, null_handling="replace", null_replacement=gap)
    return "".join(f"{line}\n" for line in lines.to_pylist())


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
            codes, cells = distinct_cells(frame.iloc[:, place])
            safe = np.array([*map(escape_formula, cells), None], dtype=object)
            escaped.isetitem(place, safe[codes])
    return escaped


def check_output(path: str | Path) -> Path:
    """Return the path if a table can be written to it; else say why not."""
    path, suffixes = Path(path), WRITABLE
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
