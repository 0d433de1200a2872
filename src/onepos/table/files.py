"""Tables in files: read any format, whole or in pieces; write a file that appears only when it is whole."""

import os
import re
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd

from onepos._utils.files import existing, explained, replaced_when_done
from onepos._utils.machine import require
from onepos.datasets._delimited import csv_frame, parquet_file, parquet_frame, readable
from onepos.exceptions import DataFileError

SEPARATED, PARQUET = (".csv", ".tsv", ".tab"), (".parquet", ".pq")
CHUNK_ROWS = 10_000  # Rows held in memory at a time when a file is read in chunks
_BENCHMARK = (".arff", ".mat", ".npz")


@dataclass(frozen=True, eq=False)
class TableData:
    """A data file in memory."""

    frame: pd.DataFrame
    labels: pd.DataFrame | None = None


def read_table(
    path: str | Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] = (),
) -> TableData:
    """Read a data file; the format follows from the suffix.

    Columns of ``words`` are read as text, whatever they look like (``07`` stays ``07``); an empty cell, ``NA`` and the
    like are missing. Columns of ``plain`` are read as text in which only an empty cell is missing: tags, identifiers,
    free text.
    """
    source = _table_file(path)
    if source.suffix.lower() in SEPARATED:
        frame = csv_frame(source, words=words, plain=plain, column_name=unescape_formula, codes=True)
        frame = with_escapes(frame, unescape_formula)
    else:
        frame = parquet_frame(source)
    if not len(frame):
        raise _no_row(source)
    return TableData(frame)


def read_chunks(
    path: str | Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] = (),
    rows: int = CHUNK_ROWS,
) -> Generator[pd.DataFrame, None, None]:
    """Yield a data file piece by piece, so that its size does not matter; the rows are numbered through.

    Parameters as for ``read_table``; a piece has ``rows`` rows.
    """
    source = _table_file(path)
    is_text = source.suffix.lower() in SEPARATED
    if is_text:
        options: Any = {"column_name": unescape_formula, "codes": True, "chunksize": rows}
        pieces: Any = csv_frame(source, words=words, plain=plain, **options)
    else:
        pieces = parquet_pieces(source, rows)
    start = 0
    with closing(pieces):
        while True:
            with readable(source):
                piece = next(pieces, None)
            if piece is None:
                break
            if is_text:
                piece = with_escapes(piece, unescape_formula)
            if len(piece):
                yield piece.set_axis(range(start, start + len(piece)))
                start += len(piece)
    if not start:
        raise _no_row(source)


def parquet_pieces(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Yield a parquet file as frames of at most so many rows."""
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=rows):
            yield batch.to_pandas()


def parquet_rows(path: Path) -> int:
    """Return how many rows a parquet file has."""
    with parquet_file(path) as file:
        return int(file.metadata.num_rows)


def column_names(path: str | Path) -> list[str]:
    """Return the columns of a CSV, TSV or parquet file without reading it."""
    source = _table_file(path)
    if source.suffix.lower() in PARQUET:
        with parquet_file(source) as file:
            return [str(name) for name in file.schema_arrow.names]
    return [unescape_formula(str(name)) for name in csv_frame(source, column_name=unescape_formula, nrows=0)]


def has_integers(path: str | Path, column: str | None) -> bool:
    """Whether the column of a parquet file holds signed integers, with gaps or without."""
    source = _table_file(path)
    if source.suffix.lower() not in PARQUET:
        return False
    types = require("pyarrow", extra="data", purpose="reading parquet").types
    with parquet_file(source) as file:
        schema = file.schema_arrow
        return column in schema.names and bool(types.is_signed_integer(schema.field(column).type))


def read_as_written(path: Path) -> pd.DataFrame:
    """Return the cells of a CSV or TSV file as text, formulas not escaped; other formats as ``read_table`` does."""
    if path.suffix.lower() not in SEPARATED:
        return read_table(path).frame
    return with_escapes(csv_frame(path, plain=None).fillna(""), unescape_formula)


def guess_rows(path: str | Path) -> int:
    """Return about how many rows a file has, from its head or its metadata: for progress bars."""
    source = _table_file(path)
    if source.suffix.lower() in PARQUET:
        return parquet_rows(source)
    with source.open("rb") as stream:
        head = stream.read(1 << 20)
    return max(1, head.count(b"\n") * source.stat().st_size // max(1, len(head)))


def _table_file(path: str | Path) -> Path:
    """Return the path of a file that is there and holds a table."""
    if Path(path).suffix.lower() in _BENCHMARK:
        raise DataFileError(
            f"{Path(path).name} is no CSV, TSV or parquet file. `onepos datasets convert` of onepos-studies makes one "
            "of it: pip install onepos-studies."
        )
    return existing(path, (*SEPARATED, *PARQUET))


def _no_row(path: Path) -> DataFileError:
    return DataFileError(f"{path.name}: has a header and no row. Is the file complete?")


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
            cells = with_escapes(frame, escape_formula) if self.escape else frame
            layout: Any = {"sep": "," if self.path.suffix.lower() == ".csv" else "\t", "lineterminator": "\n"}
            cells.to_csv(self._part, mode="a" if self.rows else "w", header=not self.rows, index=False, **layout)
        else:
            arrow = require("pyarrow", extra="data", purpose="writing parquet")
            parquet = require("pyarrow.parquet", extra="data", purpose="writing parquet")
            schema = None if self._parquet is None else self._parquet.schema
            table = arrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
            if self._parquet is None:
                self._parquet = self._stack.enter_context(parquet.ParquetWriter(self._part, table.schema))
            self._parquet.write_table(table)
        self.rows += len(frame)

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


# What a spreadsheet takes for the beginning of a formula, perhaps behind apostrophes; and numbers, which may begin so.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9.,]+([eE][+-]?[0-9]+)?%?")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would compute; numbers and other texts stay."""
    computed = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if computed else cell


def unescape_formula(cell: Any) -> Any:
    """Take back what ``escape_formula`` did."""
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and _FORMULA.match(cell) else cell


def with_escapes(frame: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a frame with ``escape_formula`` or ``unescape_formula`` applied to texts and column names."""
    made = frame.rename(columns=change)
    for place, dtype in enumerate(frame.dtypes):
        if dtype.kind == "O":  # objects, strings and categories
            made.isetitem(place, frame.iloc[:, place].astype(object).map(change, na_action="ignore").array)
    return made


def check_output(path: str | Path) -> Path:
    """Return the path if a table can be written to it; else say why not."""
    path, suffixes = Path(path), (*SEPARATED, *PARQUET)
    if path.suffix.lower() not in suffixes:
        raise DataFileError(f"a table is written to {', '.join(suffixes[:4])}; got {path.name!r}. Change its suffix.")
    return check_place(path)


def check_place(path: str | Path) -> Path:
    """Return the path if a file can be written there; else say why not, before any work is done for it."""
    path = Path(path)
    if path.is_dir():
        raise DataFileError(f"{path} is a folder; name a file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise DataFileError(f"cannot write {path}: {folder} is a file, not a folder. Choose another place.")
    if not os.access(folder, os.W_OK):
        raise DataFileError(f"cannot write {path}: no permission in {folder}. Choose another place.")
    return path
