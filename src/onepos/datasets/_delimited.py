"""CSV, TSV and parquet files as frames."""

import csv
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from onepos._utils.labels import check_distinct
from onepos._utils.machine import require
from onepos.exceptions import DataFileError, MissingDependencyError

#: Cells by which columns of codes are told from columns of numbers.
_LOOKED_AT, _LEAST_ROWS = 1_000_000, 100
#: What an empty cell of a CSV file may say.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None")

OTHER_SEPARATOR = "The file looks separated by something else than a comma: save it with commas, or as .tsv."


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what pandas says about a broken file into one line that names it."""
    try:
        with warnings.catch_warnings():
            # Rows longer than the header: pandas warns, and drops the surplus cells.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except DataFileError:
        raise
    except pd.errors.EmptyDataError as error:
        raise DataFileError(f"{path.name}: is empty. A header line and rows were expected.") from error
    except UnicodeError as error:
        raise DataFileError(f"{path.name}: is not UTF-8 text. Save it again as CSV in UTF-8.") from error
    except (ValueError, pd.errors.ParserWarning) as error:
        commas = path.suffix.lower() != ".csv" or b"\t" not in _header(path)
        said = f"{str(error).strip().rstrip('.')}. {'Is the file complete?' if commas else OTHER_SEPARATOR}"
        raise DataFileError(f"{path.name}: not a readable table: {_long_row(path) or said}") from error


def _header(path: Path) -> bytes:
    with path.open("rb") as file:  # the file may be no text at all
        return file.readline(1 << 20)


def _sign(path: Path) -> str:
    """Return what separates cells: in a CSV file a semicolon if the header has more of them than commas."""
    if path.suffix.lower() != ".csv":
        return "\t"
    header = _header(path)
    return ";" if header.count(b";") > header.count(b",") else ","


def _long_row(path: Path) -> str | None:
    """Return what is wrong with the first row that has more cells than the header; None if there is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter=_sign(path))
            size = len(next(rows))
            found = next(((rows.line_num, len(row)) for row in rows if len(row) > size), None)
    except (csv.Error, StopIteration, UnicodeError):
        return None
    if found is None:
        return None
    return f"line {found[0]} has {found[1]} cells, the header {size}. Quote texts that hold the separator."


def csv_frame(
    path: Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] | None = (),
    column_name: Callable[[str], str] = str,
    codes: bool = False,
    **options: Any,
) -> Any:
    """Return a CSV or TSV file as a frame, or with ``chunksize`` as an iterator of frames.

    Columns of ``words`` and ``plain`` (None: all) are read as text. In ``plain`` only an empty cell is missing.
    ``column_name`` turns a name of the header into the one that the caller uses. With ``codes``, columns of codes
    (``_is_ambiguous``) are read as text, too; the first rows tell.
    """
    layout: dict[str, Any] = {"sep": _sign(path), "index_col": False}
    with readable(path):
        head = pd.read_csv(path, **layout, header=None, nrows=1, dtype=str).iloc[0]
        # pandas would number the second column of a name, and a tag become a feature.
        check_distinct([str(name) for name in head if not pd.isna(name)], path.name)
        names = {name: column_name(name) for name in pd.read_csv(path, **layout, nrows=0).columns}
        as_written = {name for name, column in names.items() if plain is None or column in plain}
        as_text = as_written | {name for name, column in names.items() if column in words}
        others = [name for name in names if name not in as_text]
        if codes and others:
            n_rows = max(_LEAST_ROWS, _LOOKED_AT // len(others))
            some = pd.read_csv(path, **layout, dtype=str, nrows=n_rows, usecols=others)
            as_text |= {name for name in others if _is_ambiguous(some[name].dropna().str.strip(), layout["sep"])}
        return pd.read_csv(
            path,
            dtype=dict.fromkeys(as_text, str),
            keep_default_na=False,
            na_values={name: [""] if name in as_written else list(MISSING) for name in names},
            low_memory=False,
            **layout,
            **options,
        )


def _is_ambiguous(cells: "pd.Series[str]", separator: str) -> bool:
    """Whether pandas would misread a column: numbers of one width that begin with 0, or 1.234 for a thousand.

    Dots between groups of three digits, and nowhere else, mean thousands only where semicolons separate cells.
    """
    if not len(cells):
        return False
    if cells.str.startswith("0").any() and cells.str.fullmatch(r"\d{3,}").all() and cells.str.len().nunique() == 1:
        return True
    dots = cells[cells.str.contains(".", regex=False)] if separator == ";" else cells[:0]
    return len(dots) > 0 and bool(dots.str.fullmatch(r"[+-]?[1-9]\d{0,2}(\.\d{3})+").all())


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """Open a parquet file with distinct columns; errors in the body become one line that names the file."""
    parquet = require("pyarrow.parquet", extra="data", purpose="reading parquet")
    try:
        with parquet.ParquetFile(path) as file:
            check_distinct(file.schema_arrow.names, path.name)
            yield file
    except (DataFileError, MissingDependencyError):
        raise
    except Exception as error:  # pyarrow, pandas and the JSON inside the file each raise errors of their own
        raise DataFileError(
            f"{path.name}: not a readable parquet file ({type(error).__name__}: {error}). Is it complete?"
        ) from error


def parquet_frame(path: Path) -> pd.DataFrame:
    """Return a parquet file as a frame; one with implausibly many cells for its size is refused before it is read."""
    with parquet_file(path) as file:
        rows, columns, size = file.metadata.num_rows, file.metadata.num_columns, path.stat().st_size
        if rows * columns * 8 > max(1 << 30, 1000 * size):
            raise DataFileError(
                f"{path.name}: announces {rows:,} rows of {columns:,} columns in {size:,} bytes, which looks like an "
                "attack. If the file is yours, split it."
            )
        frame: pd.DataFrame = file.read().to_pandas().reset_index(drop=True)
        return frame
