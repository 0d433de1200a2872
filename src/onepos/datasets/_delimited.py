"""CSV, TSV and parquet: numeric feature columns, and labels as indicator columns or as one tag column."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos._utils.labels import cell_text, one_positive
from onepos._utils.machine import require
from onepos.datasets._table import Table, as_features, as_indicator, check_distinct
from onepos.exceptions import DataFileError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd


#: What an empty cell of a CSV file may say.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None")


def read_csv(
    path: Path,
    *,
    labels: Sequence[str] | None = None,
    label: str | None = None,
    drop: Sequence[str] = (),
    sep: str | None = None,
) -> Table:
    """Read a CSV or TSV file with a header line.

    The labels are the 0/1 or −1/1 columns ``labels``, or the one column ``label`` that holds a tag per row. ``drop``
    are columns to leave out. The separator is ``sep``; default: a tab for ``.tsv`` and ``.tab``, else a comma.
    """
    import pandas as pd

    if sep is None:
        sep = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
    try:
        check_names_once(path, sep)
        names = pd.read_csv(path, sep=sep, index_col=False, nrows=0).columns
        # A tag is text as it stands: by itself pandas reads "NA" and "None" as missing and "07" as 7.
        with warnings.catch_warnings():
            # Rows longer than the header: pandas warns, and drops the surplus columns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                path,
                sep=sep,
                index_col=False,
                dtype={label: str} if label is not None else None,
                keep_default_na=False,
                na_values={name: list(MISSING) for name in names if name != label},
                low_memory=False,
            )
    except DataFileError:
        raise
    except (
        ValueError,
        UnicodeError,
        pd.errors.ParserWarning,
    ) as error:  # pandas' ParserError, a ValueError, names the line
        raise DataFileError(f"{path.name}: not a readable table ({error}). Is the file complete?") from error
    return _to_table(frame, path, labels, label, drop)


def check_names_once(path: Path, sep: str) -> None:
    """Raise DataFileError if a column name comes twice: pandas would number the second, and a tag become a feature."""
    import pandas as pd

    head = pd.read_csv(path, sep=sep, index_col=False, header=None, nrows=1, dtype=str)
    check_distinct([str(name) for name in head.iloc[0] if not pd.isna(name)], path.name)


def read_parquet(
    path: Path, *, labels: Sequence[str] | None = None, label: str | None = None, drop: Sequence[str] = ()
) -> Table:
    """Read a parquet file; the parameters are those of ``read_csv``."""
    parquet = require("pyarrow.parquet", extra="data", purpose="reading parquet")
    with readable_parquet(path), parquet.ParquetFile(path) as file:
        check_parquet_size(file.metadata, path)
        check_distinct(file.schema_arrow.names, path.name)
        frame = file.read().to_pandas()
    return _to_table(frame, path, labels, label, drop)


@contextmanager
def readable_parquet(path: Path) -> Iterator[None]:
    """Turn the error about a broken parquet file into one line that names the file."""
    try:
        yield
    except (DataFileError, MissingDependencyError):
        raise
    except Exception as error:  # pyarrow, pandas and the JSON inside the file each raise errors of their own
        raise DataFileError(
            f"{path.name}: not a readable parquet file ({type(error).__name__}: {error}). Is it complete?"
        ) from error


def check_parquet_size(metadata: Any, path: Path) -> None:
    """Refuse a file that announces more cells than its size makes plausible, before any is made."""
    cells = metadata.num_rows * metadata.num_columns
    if cells * 8 > max(1 << 30, 1000 * path.stat().st_size):
        raise DataFileError(
            f"{path.name}: announces {metadata.num_rows:,} rows of {metadata.num_columns:,} columns in "
            f"{path.stat().st_size:,} bytes, which looks like an attack. If the file is yours, split it."
        )


def _to_table(
    frame: "pd.DataFrame", path: Path, labels: Sequence[str] | None, label: str | None, drop: Sequence[str]
) -> Table:
    if (labels is None) == (label is None):
        raise ValueError(
            "say which columns are the labels: labels=[names] (indicator columns) or label=name (one tag per row)."
        )
    if isinstance(labels, str):
        raise ValueError(f"labels= takes a list of column names; for one column of tags pass label={labels!r}.")
    chosen = [label] if label is not None else list(labels or ())
    missing = [name for name in (*chosen, *drop) if name not in frame.columns]
    if missing:
        raise DataFileError(
            f"{path.name}: has no column {missing[:5]}; its columns are {list(map(str, frame.columns[:10]))}…"
        )
    features = frame.drop(columns=[*chosen, *drop])
    words = [str(name) for name in features.columns if features[name].dtype.kind not in "biuf"]
    if words:
        raise DataFileError(
            f"{path.name}: feature columns must be numbers; these are not: {words[:5]}. "
            "Encode them, or leave them out with drop=."
        )
    Y, names = _tags(frame[label], path) if label is not None else _indicator(frame[chosen], path)
    X = features.to_numpy(dtype=np.float64, na_value=np.nan)
    return Table(as_features(X), Y, tuple(map(str, features.columns)), names)


def _tags(column: "pd.Series[Any]", path: Path) -> tuple[Any, tuple[str, ...]]:
    empty = np.flatnonzero((column.isna() | (column.astype(str).str.strip() == "")).to_numpy())
    if empty.size:
        raise DataFileError(
            f"{path.name}: {empty.size} rows have no tag in column {column.name!r} (first: row {empty[0]}, "
            "counted from 0). Fill in the label or drop these rows."
        )
    indicator = one_positive(column)
    return indicator.to_numpy(dtype=np.uint8), tuple(cell_text(name) for name in indicator.columns)


def _indicator(block: "pd.DataFrame", path: Path) -> tuple[Any, tuple[str, ...]]:
    words = [str(name) for name in block.columns if block[name].dtype.kind not in "biuf"]
    if words:
        raise DataFileError(
            f"{path.name}: label columns must be 0/1; these are not numbers: {words[:5]}. "
            "A column of tags is given as label=."
        )
    return as_indicator(block.to_numpy(dtype=np.float64, na_value=np.nan), path, "label columns"), tuple(
        map(str, block.columns)
    )
