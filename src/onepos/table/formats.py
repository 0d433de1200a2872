"""Formats of files: each is read once from its beginning, and yields the cells of some rows at a time as Arrow columns.

CSV, TSV and Excel files have no types: all cells are strings, as they stand in the file. Parquet and JSON lines have
types, and these are kept.
"""

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from onepos._utils.files import existing
from onepos._utils.labels import cell_text, check_distinct
from onepos._utils.machine import require
from onepos._utils.validation import shorten
from onepos.exceptions import DataFileError
from onepos.table.kinds import OTHER_SEPARATOR
from onepos.table.writing import PARQUET, SEPARATED, unescape_formula

JSON_LINES, EXCEL = (".jsonl", ".ndjson"), (".xlsx",)
READABLE = (*SEPARATED, *PARQUET, *JSON_LINES, *EXCEL)
_BENCHMARK = (".arff", ".mat", ".npz")
_BLOCK, _LARGEST_BLOCK = 1 << 22, 1 << 28  # Bytes of a text file that are parsed at a time; the second for longer rows
_INDEX = re.compile(r"__index_level_\d+__")  # How pandas stores an index without a name
_ROWS = 10_000  # Rows of other files that are converted at a time
_MOST_BYTES, _MOST_RATIO = 1 << 30, 1000  # A file that announces more of both is refused as an attack


@dataclass(frozen=True)
class Piece:
    """Some rows of a file; ``share`` of the file has been read with them.

    ``separator`` is that of a file of text; None: the file has types.
    """

    cells: pa.Table
    share: float = 1.0
    separator: str | None = None


def pieces_of(path: str | Path, sheet: str | None = None) -> Iterator[Piece]:
    """Yield the rows of a file in pieces, at least one; ``sheet`` is the name of the one of an Excel file."""
    suffix = Path(path).suffix.lower()
    if suffix in _BENCHMARK:
        raise DataFileError(
            f"{Path(path).name} is no CSV, TSV or parquet file. `onepos datasets convert` of onepos-studies makes one "
            "of it: pip install onepos-studies."
        )
    source = existing(path, READABLE)
    if suffix in EXCEL:
        return _read_excel(source, sheet)
    if sheet is not None:
        raise DataFileError(f"a sheet is named, and {source.name} is no Excel file: leave the sheet out.")
    return _FORMATS[suffix](source)


def _read_separated(path: Path) -> Iterator[Piece]:
    """Read a CSV or TSV file. In a CSV file semicolons separate cells if the header has more of them than commas."""
    with path.open("rb") as stream:
        with _text_explained(path, stream, ","):
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            lines = iter(text.readline, "")
            blank = 0
            first = ""
            for first in lines:
                if first.strip("\r\n"):
                    break
                blank, first = blank + 1, ""
            more_semicolons = first.count(";") > first.count(",")
            separator = "\t" if path.suffix.lower() != ".csv" else ";" if more_semicolons else ","
            header = next(csv.reader(chain([first], lines), delimiter=separator), [])
            text.detach()
        names = _names(header, path)
        size, n_read, block = max(1, path.stat().st_size), 0, _BLOCK
        with _text_explained(path, stream, separator):
            while True:
                batches = _open_csv(stream, names, separator, blank, n_read, block)
                try:
                    for batch in batches:
                        n_read, last = n_read + batch.num_rows, batch
                        share = min(1.0, os.lseek(stream.fileno(), 0, os.SEEK_CUR) / size)
                        yield Piece(_unescaped(pa.Table.from_batches([batch])), share, separator)
                    break
                except pa.ArrowInvalid as error:
                    if "straddling" not in str(error) or block == _LARGEST_BLOCK:
                        raise
                    block = _LARGEST_BLOCK  # a row is longer than a block
            if n_read and _ends_within_quotes(stream, last.column(len(names) - 1)[-1].as_py(), separator):
                raise ValueError("a quotation mark is never closed")
    if not n_read:
        yield Piece(pa.table(dict.fromkeys(names, pa.array([], pa.string()))), 1.0, separator)


def _open_csv(stream: Any, names: list[str], separator: str, blank: int, n_read: int, block: int) -> Any:
    """Return batches of a file's rows from the given one on, every cell a string."""
    stream.seek(0)
    # Lists of words for null, true and false, which strings do not need, would be copied for each column: 9 kB.
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=False,
        null_values=[],
        true_values=[],
        false_values=[],
    )
    reader = pa.csv.ReadOptions(column_names=names, skip_rows=blank, skip_rows_after_names=1 + n_read, block_size=block)
    return pa.csv.open_csv(
        stream,
        read_options=reader,
        parse_options=pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=convert,
    )


def _names(header: list[Any], path: Path) -> list[str]:
    """Return the names of columns, without escapes; each must have another one."""
    if not header:
        raise DataFileError(f"{path.name}: is empty. A header line and rows were expected.")
    names = [unescape_formula(name) or f"Unnamed: {place}" for place, name in enumerate(header)]
    check_distinct(names, path.name)
    return names


def _unescaped(cells: pa.Table) -> pa.Table:
    """Take back the escapes of formulas."""
    for place, column in enumerate(cells.columns):
        if pc.any(pc.starts_with(column, "'")).as_py():  # few files have any
            words = column.combine_chunks().dictionary_encode()
            words = words.chunk(0) if isinstance(words, pa.ChunkedArray) else words
            plain = pa.array([unescape_formula(word) for word in words.dictionary.to_pylist()], pa.string())
            cells = cells.set_column(place, cells.field(place), plain.take(words.indices))
    return cells


def _ends_within_quotes(stream: Any, cell: str, separator: str) -> bool:
    """Whether the file ends inside the quotes of its last cell. Arrow accepts that."""
    quoted = b'"' + cell.replace('"', '""').encode()
    size = stream.seek(0, os.SEEK_END)
    stream.seek(-min(size, len(quoted) + 100), os.SEEK_END)
    end = stream.read()
    before = (b"", b"\n", b"\r", separator.encode())  # what a cell may stand behind

    def is_last(cell: bytes, end: bytes) -> bool:
        return end.endswith(cell) and end[: -len(cell)][-1:] in before

    return is_last(quoted, end) and not is_last(quoted + b'"', end.rstrip(b"\r\n"))


@contextmanager
def _text_explained(path: Path, stream: Any, separator: str) -> Iterator[None]:
    """Turn what is wrong with a file of text into one line that names it."""
    try:
        yield
    except UnicodeError as error:
        raise DataFileError(f"{path.name}: is not UTF-8 text. Save it again as CSV in UTF-8.") from error
    except (ValueError, csv.Error) as error:
        if "invalid UTF8" in str(error):
            raise DataFileError(f"{path.name}: is not UTF-8 text. Save it again as CSV in UTF-8.") from error
        said = _wrong_row(stream, separator)
        if said is None:
            stream.seek(0)
            tabs = path.suffix.lower() == ".csv" and b"\t" in stream.readline()
            said = f"{str(error).strip().rstrip('.')}. {OTHER_SEPARATOR if tabs else 'Is the file complete?'}"
        raise DataFileError(f"{path.name}: not a readable table: {said}") from error


def _wrong_row(stream: Any, separator: str) -> str | None:
    """Return what is wrong with the first row that has not as many cells as the header; None if there is none."""
    stream.seek(0)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    rows = csv.reader(text, delimiter=separator)
    try:
        size = len(next(row for row in rows if row))
        wrong = next(row for row in rows if row and len(row) != size)
    except (csv.Error, StopIteration, UnicodeError):
        return None
    finally:
        text.detach()  # the wrapper would close the file
    return f"line {rows.line_num} has {len(wrong)} cells, the header {size}. Quote texts that hold the separator."


def _read_parquet(path: Path) -> Iterator[Piece]:
    with _explained(path, "parquet file"):
        file = pa.parquet.ParquetFile(path)
    with file:
        names = file.schema_arrow.names
        check_distinct(names, path.name)
        n_rows, n_columns, size = int(file.metadata.num_rows), file.metadata.num_columns, path.stat().st_size
        if n_rows * n_columns * 8 > max(_MOST_BYTES, _MOST_RATIO * size):
            raise DataFileError(
                f"{path.name}: announces {n_rows:,} rows of {n_columns:,} columns in {size:,} bytes, which looks like "
                "an attack. If the file is yours, split it."
            )
        batches = file.iter_batches(batch_size=max(1, min(1 << 16, (1 << 22) // max(1, n_columns))))
        n_read = 0
        while True:
            with _explained(path, "parquet file"):
                batch = next(batches, None)
            if batch is None:
                break
            n_read += batch.num_rows
            cells = pa.Table.from_batches([batch]).replace_schema_metadata(
                None
            )  # pandas' notes may contradict the types
            yield Piece(cells.drop_columns([name for name in names if _INDEX.fullmatch(name)]), n_read / max(1, n_rows))
        if not n_read:
            yield Piece(file.schema_arrow.empty_table())


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Turn the errors of a library, and of what it calls, into one line that names the file."""
    try:
        yield
    except DataFileError:
        raise
    except Exception as error:  # each library has errors of its own
        raise DataFileError(
            f"{path.name}: not a readable {what} ({type(error).__name__}: {error}). Is it complete?"
        ) from error


def _read_json_lines(path: Path) -> Iterator[Piece]:
    """Read one object per line. The first pass collects the names of columns: a line may lack some."""
    with path.open("rb") as stream:
        names = list(dict.fromkeys(name for row in _objects(stream, path) for name in row))
        if not names:
            raise DataFileError(f"{path.name}: is empty. Lines with one JSON object each were expected.")
        size = path.stat().st_size
        stream.seek(0)
        rows, n_read = _objects(stream, path), 0
        while some := list(islice(rows, _ROWS)):
            columns = {name: _json_column([row.get(name) for row in some], name, path, n_read) for name in names}
            n_read += len(some)
            yield Piece(pa.table(columns), min(1.0, stream.tell() / size))


def _objects(stream: Any, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file's lines."""
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_distinct, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise DataFileError(f"{path.name}: line {number} is no JSON object: {error}. Is it complete?") from error
        if not isinstance(row, dict):
            raise DataFileError(f"{path.name}: line {number} holds {type(row).__name__}; a JSON object was expected.")
        yield row


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose names differ."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name comes twice")
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _json_column(values: list[Any], name: str, path: Path, n_before: int) -> pa.Array:
    """Return a column of one type. Whole numbers of more than 64 bits are text, as in CSV files: they identify."""
    if any(type(value) is int and value.bit_length() > 63 for value in values):
        values = [str(value) if type(value) is int else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        raise DataFileError(
            f"{path.name}: column {name!r} holds values of several types in rows {n_before + 1:,} to "
            f"{n_before + len(values):,}: write all as numbers or all as text."
        ) from error


def _read_excel(path: Path, sheet: str | None) -> Iterator[Piece]:
    """Read a sheet of an Excel file as text: what is a number there may be text in the next row."""
    calamine = require("python_calamine", extra="excel", purpose="reading Excel files")
    with _explained(path, "Excel file"):
        with ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
        if size > max(_MOST_BYTES, _MOST_RATIO * path.stat().st_size):
            raise DataFileError(f"{path.name}: unpacks to {size:,} bytes, which looks like an attack. Split the file.")
        book = calamine.CalamineWorkbook.from_path(str(path))
        if sheet is not None and sheet not in book.sheet_names:
            raise DataFileError(f"{path.name} has no sheet {sheet!r}; it has: {shorten(book.sheet_names)}.")
        cells = iter(book.get_sheet_by_name(sheet or book.sheet_names[0]).to_python())
    names = _names([cell_text(name) for name in next((row for row in cells if any(row)), [])], path)
    texts = [[_sheet_text(cell, path) for cell in row] for row in cells]
    rows = [row for row in texts if any(row)]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(column, pa.string()) for column in columns]
    yield Piece(_unescaped(pa.table(arrays, names)), 1.0, ",")


def _sheet_text(cell: Any, path: Path) -> str:
    """Return a cell of a sheet as it would stand in a CSV file."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, float) and abs(cell) >= 1 << 53:
        raise DataFileError(
            f"{path.name}: holds the number {cell:.0f}. Excel keeps 15 digits, so it may be another one: write it as "
            "text, or save the table as CSV."
        )
    return cell_text(cell)


_FORMATS: dict[str, Callable[[Path], Iterator[Piece]]] = {
    **dict.fromkeys(SEPARATED, _read_separated),
    **dict.fromkeys(PARQUET, _read_parquet),
    **dict.fromkeys(JSON_LINES, _read_json_lines),
}
