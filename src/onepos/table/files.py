"""Tables in files: a file is opened once, its cells are read as text, and columns of numbers become numbers."""

import csv
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd

from onepos._utils.files import existing
from onepos._utils.labels import check_distinct
from onepos._utils.machine import require
from onepos.exceptions import DataFileError, MissingDependencyError
from onepos.table.kinds import OTHER_SEPARATOR
from onepos.table.writing import PARQUET, SEPARATED, unescape_formula

CHUNK_ROWS = 10_000  # Rows held in memory at a time when a file is read in chunks
#: What an empty cell of a CSV file may say.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None")
_BENCHMARK = (".arff", ".mat", ".npz")


@dataclass(frozen=True, eq=False)
class TableData:
    """Rows of a table: its columns, numbers as numbers; and the same cells ``as_written`` in a file of text."""

    frame: pd.DataFrame
    as_written: pd.DataFrame | None = None


def read_table(path: str | Path, *, words: Collection[str] = (), plain: Collection[str] = ()) -> TableData:
    """Read a CSV, TSV or parquet file; the format follows from the suffix.

    Columns of ``words`` are read as text, whatever they look like (``07`` stays ``07``); an empty cell, ``NA`` and the
    like are missing. Columns of ``plain`` are read as text in which only an empty cell is missing: tags, identifiers,
    free text.
    """
    with open_table(path, words=words, plain=plain) as file:
        return next(file.batches(None))


def read_chunks(
    path: str | Path, *, words: Collection[str] = (), plain: Collection[str] = (), rows: int = CHUNK_ROWS
) -> Generator[pd.DataFrame, None, None]:
    """Yield a file piece by piece, so that its size does not matter; the rows are numbered through.

    Parameters as for ``read_table``; a piece has at most ``rows`` rows.
    """
    with open_table(path, words=words, plain=plain) as file:
        for data in file.batches(rows):
            yield data.frame


def open_table(path: str | Path, *, words: Collection[str] = (), plain: Collection[str] = ()) -> "TableFile":
    """Open a file; parameters as for ``read_table``."""
    if Path(path).suffix.lower() in _BENCHMARK:
        raise DataFileError(
            f"{Path(path).name} is no CSV, TSV or parquet file. `onepos datasets convert` of onepos-studies makes one "
            "of it: pip install onepos-studies."
        )
    source = existing(path, (*SEPARATED, *PARQUET))
    return (SeparatedFile if source.suffix.lower() in SEPARATED else ParquetFile)(source, words, plain)


def column_names(path: str | Path) -> list[str]:
    """Return the columns of a file without reading its rows."""
    with open_table(path) as file:
        return file.names


class TableFile(ABC):
    """A table in a file, opened once: the names of its columns, and its rows in batches. A context manager."""

    names: list[str]

    def __init__(self, path: Path, words: Collection[str] = (), plain: Collection[str] = ()) -> None:
        self.path, self.words, self.plain = path, frozenset(words), frozenset(plain)
        self.n_read = 0
        try:
            with self._explained():
                self._open()
            check_distinct(self.names, path.name)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def batches(self, rows: int | None = CHUNK_ROWS) -> Iterator[TableData]:
        """Yield the rows, at most so many at a time (None: all), numbered through."""
        while True:
            with self._explained():
                batch = self._next(rows)
            if batch is None:
                break
            numbers = range(self.n_read, self.n_read + len(batch.frame))
            self.n_read += len(batch.frame)
            written = batch.as_written
            yield TableData(batch.frame.set_axis(numbers), None if written is None else written.set_axis(numbers))
        if not self.n_read:
            raise DataFileError(f"{self.path.name}: has a header and no row. Is the file complete?")

    def has_integers(self, column: str | None) -> bool:
        """Whether the file itself says that a column holds signed integers, with gaps or without."""
        return False

    @abstractmethod
    def share(self) -> float:
        """Return about which share of the file was read."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @abstractmethod
    def _open(self) -> None:
        """Open the file and read the names of its columns."""

    @abstractmethod
    def _next(self, rows: int | None) -> TableData | None:
        """Return the next rows, None after the last ones."""

    @abstractmethod
    def _explained(self) -> Any:
        """Return a context that turns what the reader says about a broken file into one line that names it."""


class SeparatedFile(TableFile):
    """A CSV or TSV file. In a CSV file semicolons separate cells if the header has more of them than commas."""

    _stream: Any = None

    def _open(self) -> None:
        self._stream = self.path.open(encoding="utf-8-sig", newline="")
        lines = iter(self._stream.readline, "")
        self._first = next((line for line in lines if line.strip("\r\n")), "")
        more_semicolons = self._first.count(";") > self._first.count(",")
        self.separator = "\t" if self.path.suffix.lower() != ".csv" else ";" if more_semicolons else ","
        header = next(csv.reader(_chained(self._first, lines), delimiter=self.separator), [])
        if not header:
            raise DataFileError(f"{self.path.name}: is empty. A header line and rows were expected.")
        self.names = [unescape_formula(name) or f"Unnamed: {place}" for place, name in enumerate(header)]
        self._reader: Any = None

    def _next(self, rows: int | None) -> TableData | None:
        if self._reader is None:
            self._reader = pd.read_csv(
                self._stream,
                sep=self.separator,
                header=None,
                names=self.names,
                index_col=False,
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                iterator=True,
            )
        try:
            cells = self._reader.read(rows)
        except StopIteration:
            return None
        for name, column in cells.items():
            if column.str.startswith("'").any():
                cells[name] = column.map(unescape_formula, na_action="ignore")
        frame = pd.DataFrame({name: self._typed(column) for name, column in cells.items()})
        return TableData(frame, cells) if len(cells) else None

    def _typed(self, cells: "pd.Series[Any]") -> "pd.Series[Any]":
        """Return numbers if all cells are, unless the column is named as text or holds codes."""
        if cells.name in self.plain:
            return cells
        cells = cells.mask(cells.isin(MISSING))
        if cells.name in self.words or cells.isna().all():
            return cells
        try:
            numbers = pd.to_numeric(cells)
        except (ValueError, TypeError):
            return cells
        # Objects are whole numbers of more than 64 bits: they are identifiers.
        return cells if numbers.dtype == object or holds_codes(cells.dropna().str.strip(), self.separator) else numbers

    def share(self) -> float:
        """Return which share of the bytes was read."""
        return float(self._stream.buffer.tell() / max(1, self.path.stat().st_size))

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with warnings.catch_warnings():
                # Rows longer than the header: pandas warns, and drops the surplus cells.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                yield
        except DataFileError:
            raise
        except UnicodeError as error:
            raise DataFileError(f"{self.path.name}: is not UTF-8 text. Save it again as CSV in UTF-8.") from error
        except (ValueError, csv.Error, pd.errors.ParserWarning) as error:
            tabs = self.path.suffix.lower() == ".csv" and "\t" in self._first
            said = f"{str(error).strip().rstrip('.')}. {OTHER_SEPARATOR if tabs else 'Is the file complete?'}"
            raise DataFileError(f"{self.path.name}: not a readable table: {self._long_row() or said}") from error

    def _long_row(self) -> str | None:
        """Return what is wrong with the first row that has more cells than the header; None if there is none."""
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as stream:
                rows = csv.reader(stream, delimiter=self.separator)
                size = len(next(rows))
                long = next(((rows.line_num, len(row)) for row in rows if len(row) > size), None)
        except (csv.Error, StopIteration, UnicodeError):
            return None
        if long is None:
            return None
        return f"line {long[0]} has {long[1]} cells, the header {size}. Quote texts that hold the separator."


def _chained(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def holds_codes(cells: "pd.Series[Any]", separator: str) -> bool:
    """Whether a column would be misread as numbers: of one width that begin with 0, or 1.234 for a thousand.

    Dots between groups of three digits, and nowhere else, mean thousands only where semicolons separate cells.
    """
    if cells.str.startswith("0").any() and cells.str.fullmatch(r"\d{3,}").all() and cells.str.len().nunique() == 1:
        return True
    dots = cells[cells.str.contains(".", regex=False)] if separator == ";" else cells[:0]
    return len(dots) > 0 and bool(dots.str.fullmatch(r"[+-]?[1-9]\d{0,2}(\.\d{3})+").all())


class ParquetFile(TableFile):
    """A parquet file; the file says of which type its columns are."""

    _file: Any = None

    def _open(self) -> None:
        parquet = require("pyarrow.parquet", extra="data", purpose="reading parquet")
        self._file = parquet.ParquetFile(self.path)
        self.names = [str(name) for name in self._file.schema_arrow.names]
        self.n_rows = int(self._file.metadata.num_rows)
        self._batches: Any = None

    def _next(self, rows: int | None) -> TableData | None:
        if rows is not None:
            self._batches = self._batches or self._file.iter_batches(batch_size=rows)
            batch = next((batch for batch in self._batches if batch.num_rows), None)
            return None if batch is None else TableData(batch.to_pandas())
        if self.n_read or not self.n_rows:
            return None
        n_columns, size = self._file.metadata.num_columns, self.path.stat().st_size
        if self.n_rows * n_columns * 8 > max(1 << 30, 1000 * size):
            raise DataFileError(
                f"{self.path.name}: announces {self.n_rows:,} rows of {n_columns:,} columns in {size:,} bytes, which "
                "looks like an attack. If the file is yours, split it."
            )
        return TableData(self._file.read().to_pandas().reset_index(drop=True))

    def has_integers(self, column: str | None) -> bool:
        """Whether the schema says so."""
        types = require("pyarrow", extra="data", purpose="reading parquet").types
        schema = self._file.schema_arrow
        return column in schema.names and bool(types.is_signed_integer(schema.field(column).type))

    def share(self) -> float:
        """Return which share of the rows was read."""
        return self.n_read / max(1, self.n_rows)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (DataFileError, MissingDependencyError):
            raise
        except Exception as error:  # pyarrow, pandas and the JSON inside the file each raise errors of their own
            raise DataFileError(
                f"{self.path.name}: not a readable parquet file ({type(error).__name__}: {error}). Is it complete?"
            ) from error
