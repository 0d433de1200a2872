"""Tables in files, read and written.

A file is opened once, its cells are read as text, and columns of numbers become numbers. A file that is written appears
when it is whole, and has no formulas in its cells.
"""

import csv
import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.context import other_warnings
from onepos._utils.files import check_regular, existing, explained, replaced_when_done
from onepos._utils.labels import check_distinct
from onepos._utils.machine import require
from onepos.exceptions import DataFileError
from onepos.table.kinds import OTHER_SEPARATOR, THOUSANDS

SEPARATED, PARQUET = (".csv", ".tsv", ".tab"), (".parquet", ".pq")
CHUNK_ROWS = 10_000  # Rows held in memory at a time when a file is read in chunks
#: What an empty cell of a CSV file may say.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None")
_GAPS = frozenset(MISSING)
_BENCHMARK = (".arff", ".mat", ".npz")
_EXACT = 1 << 53  # Larger whole numbers are rounded in floating point
#: What a column of a text file holds: words, the numbers of a trained column, or what its cells say.
_WORDS, _NUMBERS, _EITHER = "words", "numbers", "either"


@dataclass(frozen=True, eq=False)
class TableData:
    """Rows of a table: its columns, numbers as numbers; and the same cells ``as_written`` in a file of text.

    ``share`` of the file has been read with these rows. The file itself says that ``integers`` are columns of integers.
    """

    frame: pd.DataFrame
    as_written: pd.DataFrame | None = None
    share: float = 1.0
    integers: frozenset[str] = frozenset()


def read_table(
    path: str | Path, *, words: Collection[str] = (), plain: Collection[str] = (), numbers: Collection[str] = ()
) -> TableData:
    """Read a CSV, TSV or parquet file; the format follows from the suffix.

    Columns of ``words`` are read as text, whatever they look like (``07`` stays ``07``); an empty cell, ``NA`` and the
    like are missing. Columns of ``plain`` are read as text in which only an empty cell is missing: tags, identifiers,
    free text. Columns of ``numbers`` stay text if a cell may be a thousand (``5.123`` in a file with semicolons),
    whatever other cells show: the model knows what they are.
    """
    return next(read_chunks(path, words=words, plain=plain, numbers=numbers, rows=None))


def read_chunks(
    path: str | Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] = (),
    numbers: Collection[str] = (),
    rows: int | None = CHUNK_ROWS,
) -> Iterator[TableData]:
    """Yield a file piece by piece, so that its size does not matter; the rows are numbered through.

    Parameters as for ``read_table``; a piece has at most ``rows`` rows (None: all).
    """
    if Path(path).suffix.lower() in _BENCHMARK:
        raise DataFileError(
            f"{Path(path).name} is no CSV, TSV or parquet file. `onepos datasets convert` of onepos-studies makes one "
            "of it: pip install onepos-studies."
        )
    source = existing(path, (*SEPARATED, *PARQUET))
    if source.suffix.lower() in SEPARATED:
        pieces = _read_separated(source, rows, words, plain, numbers)
    else:
        pieces = _read_parquet(source, rows)
    n_read = 0
    for piece in pieces:
        index = range(n_read, n_read + len(piece.frame))
        written = piece.as_written
        n_read += len(index)
        yield replace(
            piece,
            frame=piece.frame.set_axis(index),
            as_written=None if written is None else written.set_axis(index),
        )
    if not n_read:
        raise DataFileError(f"{source.name}: has a header and no row. Is the file complete?")


def column_names(path: str | Path) -> list[str]:
    """Return the columns of a file; of its rows only the first is read."""
    return [str(name) for name in next(read_chunks(path, rows=1)).frame.columns]


def count_rows(path: Path) -> int:
    """Return how many rows a parquet file says that it has."""
    parquet = require("pyarrow.parquet", extra="data", purpose="reading parquet")
    with _parquet_explained(path):
        return int(parquet.read_metadata(path).num_rows)


def _read_separated(
    path: Path, rows: int | None, words: Collection[str], plain: Collection[str], numbers: Collection[str]
) -> Iterator[TableData]:
    """Read a CSV or TSV file. In a CSV file semicolons separate cells if the header has more of them than commas."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        with _text_explained(path, stream, ","):
            lines = iter(stream.readline, "")
            first = next((line for line in lines if line.strip("\r\n")), "")
            more_semicolons = first.count(";") > first.count(",")
            separator = "\t" if path.suffix.lower() != ".csv" else ";" if more_semicolons else ","
            header = next(csv.reader(chain([first], lines), delimiter=separator), [])
        if not header:
            raise DataFileError(f"{path.name}: is empty. A header line and rows were expected.")
        names = [unescape_formula(name) or f"Unnamed: {place}" for place, name in enumerate(header)]
        check_distinct(names, path.name)
        layout: Any = {"sep": separator, "header": None, "names": names, "index_col": False}
        with _text_explained(path, stream, separator):
            reader = pd.read_csv(stream, **layout, dtype=str, keep_default_na=False, na_values=[""], iterator=True)
        size = max(1, path.stat().st_size)
        while True:
            with _text_explained(path, stream, separator):
                try:
                    cells = reader.read(rows)
                except StopIteration:
                    return
            if not len(cells):
                return
            typed: dict[str, Any] = {}
            for place, name in enumerate(names):
                column = cells.iloc[:, place].array
                texts = column.tolist()
                if any(isinstance(text, str) and text[:1] == "'" for text in texts):
                    texts = [unescape_formula(text) for text in texts]
                    column = pd.Series(texts, dtype=column.dtype).array
                    cells.isetitem(place, column)
                how = _WORDS if name in words else _NUMBERS if name in numbers else _EITHER
                typed[name] = column if name in plain else _typed(column, texts, separator, how)
            yield TableData(pd.DataFrame(typed), cells, os.lseek(stream.fileno(), 0, os.SEEK_CUR) / size)


@contextmanager
def _text_explained(path: Path, stream: Any, separator: str) -> Iterator[None]:
    """Turn what is wrong with a file of text into one line that names it."""
    try:
        # Rows longer than the header: pandas warns, and drops the surplus cells.
        with other_warnings("error", pd.errors.ParserWarning):
            yield
    except UnicodeError as error:
        raise DataFileError(f"{path.name}: is not UTF-8 text. Save it again as CSV in UTF-8.") from error
    except (ValueError, csv.Error, pd.errors.ParserWarning) as error:
        said = _long_row(stream, separator)
        if said is None:
            stream.seek(0)
            tabs = path.suffix.lower() == ".csv" and "\t" in stream.readline()
            said = f"{str(error).strip().rstrip('.')}. {OTHER_SEPARATOR if tabs else 'Is the file complete?'}"
        raise DataFileError(f"{path.name}: not a readable table: {said}") from error


def _long_row(stream: Any, separator: str) -> str | None:
    """Return what is wrong with the first row that has more cells than the header; None if there is none."""
    stream.seek(0)
    rows = csv.reader(stream, delimiter=separator)
    try:
        size = len(next(row for row in rows if row))
        long = next(row for row in rows if len(row) > size)
    except (csv.Error, StopIteration, UnicodeError):
        return None
    return f"line {rows.line_num} has {len(long)} cells, the header {size}. Quote texts that hold the separator."


def _typed(column: Any, texts: list[Any], separator: str, how: str) -> Any:
    """Return numbers if all cells are, unless the column is text or holds codes."""
    # Plain Python: with a column of pandas for each step, a table of 60,000 columns takes minutes.
    gaps = [not isinstance(text, str) or text in _GAPS for text in texts]
    present = [text for text, gap in zip(texts, gaps, strict=True) if not gap]
    if present and how != _WORDS and not _holds_codes(present, separator, how):
        with suppress(ValueError, TypeError):
            numbers = pd.to_numeric(np.array(present, dtype=object))
            if numbers.dtype != object:  # whole numbers of more than 64 bits are identifiers
                return numbers if len(present) == len(texts) else _with_gaps(numbers, np.array(gaps))
    if sum(gaps) > pd.isna(column).sum():
        column = column.copy()
        column[np.array(gaps)] = None
    return column


def _with_gaps(numbers: NDArray[Any], gaps: NDArray[np.bool_]) -> Any:
    """Put numbers between gaps; whole numbers that floating point does not hold stay whole numbers."""
    large = numbers.dtype.kind in "iu" and bool((numbers > _EXACT).any() or (numbers < -_EXACT).any())
    made = np.full(len(gaps), 0 if large else np.nan, dtype=numbers.dtype if large else np.float64)
    made[~gaps] = numbers
    return pd.arrays.IntegerArray(made, gaps) if large else made


def _holds_codes(cells: list[str], separator: str, how: str) -> bool:
    """Whether a column would be misread as numbers: of one width that begin with 0, or 1.234 for a thousand."""
    if any(cell.lstrip().startswith("0") for cell in cells):
        stripped = [cell.strip() for cell in cells]
        if len(set(map(len, stripped))) == 1 and all(re.fullmatch(r"\d{3,}", cell) for cell in stripped):
            return True
    # Dots between groups of three digits, and nowhere else, mean thousands only where semicolons separate cells.
    dots = [re.fullmatch(THOUSANDS, cell.strip()) for cell in cells if "." in cell] if separator == ";" else []
    return any(dots) if how == _NUMBERS else bool(dots) and all(dots)


def _read_parquet(path: Path, rows: int | None) -> Iterator[TableData]:
    """Read a parquet file, which says itself of which type its columns are."""
    arrow = require("pyarrow", extra="data", purpose="reading parquet")
    parquet = require("pyarrow.parquet", extra="data", purpose="reading parquet")
    with _parquet_explained(path):
        file = parquet.ParquetFile(path)
    with file:
        schema, n_rows = file.schema_arrow, int(file.metadata.num_rows)
        check_distinct(schema.names, path.name)
        integers = frozenset(field.name for field in schema if arrow.types.is_signed_integer(field.type))
        n_columns, size = file.metadata.num_columns, path.stat().st_size
        if rows is None and n_rows * n_columns * 8 > max(1 << 30, 1000 * size):
            raise DataFileError(
                f"{path.name}: announces {n_rows:,} rows of {n_columns:,} columns in {size:,} bytes, which looks like "
                "an attack. If the file is yours, split it."
            )
        pieces = file.iter_batches(batch_size=rows) if rows else (file.read() for _ in range(1))
        n_read = 0
        while True:
            with _parquet_explained(path):
                piece = next(pieces, None)
                frame = None if piece is None else piece.to_pandas(types_mapper=_exact_types(piece))
            if frame is None:
                return
            n_read += len(frame)
            if len(frame):
                yield TableData(frame, None, n_read / n_rows, integers)


def _exact_types(piece: Any) -> Any:
    """Return types that hold whole numbers with gaps exactly, if there are such columns."""
    arrow = require("pyarrow", extra="data", purpose="reading parquet")
    columns = zip(piece.schema.types, piece.columns, strict=True)
    if not any(arrow.types.is_integer(kind) and column.null_count for kind, column in columns):
        return None
    names = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    types = {getattr(arrow, name.lower())(): pd.api.types.pandas_dtype(name) for name in names}
    return types.get


@contextmanager
def _parquet_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # pyarrow, pandas and the JSON inside the file each raise errors of their own
        raise DataFileError(
            f"{path.name}: not a readable parquet file ({type(error).__name__}: {error}). Is it complete?"
        ) from error


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
