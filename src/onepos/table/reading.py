"""Any data file → one table: CSV, TSV, parquet as they are; ARFF, MAT, svmlight, npz with the labels they carry."""

import warnings
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from onepos._utils.machine import require
from onepos.datasets._delimited import MISSING, check_names_once, check_parquet_size, readable_parquet
from onepos.datasets._load import FORMATS, read
from onepos.datasets._table import check_distinct
from onepos.exceptions import DataFileError
from onepos.table.writing import unescape_formula, with_escapes

if TYPE_CHECKING:
    import pandas as pd


SVMLIGHT = (".svm", ".svmlight", ".libsvm")
#: A sparse column of a frame takes two kilobytes, however empty it is.
_MOST_COLUMNS = 1 << 18
SEPARATED, PARQUET = (".csv", ".tsv", ".tab"), (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class TableData:
    """A data file in memory.

    Attributes
    ----------
    frame : DataFrame
        Its columns, without labels that the format itself marks as such.
    labels : DataFrame or None
        Those labels as a 0/1 indicator, for ARFF, MAT, svmlight and npz.
    """

    frame: "pd.DataFrame"
    labels: "pd.DataFrame | None" = None


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what pandas says about a broken file into one line that names it."""
    import pandas as pd

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
        raise DataFileError(f"{path.name}: not a readable table ({error}). Is the file complete?") from error


def separator_of(path: Path) -> str:
    """Return what stands between the cells of a text file."""
    return "," if path.suffix.lower() == ".csv" else "\t"


def check_header(path: Path) -> None:
    """Raise DataFileError if a column name comes twice."""
    with readable(path):
        check_names_once(path, separator_of(path))


def separated(path: Path, words: Collection[str], plain: Collection[str], **options: Any) -> Any:
    """Return a CSV or TSV file as a frame, or with ``chunksize`` as an iterator of frames."""
    import pandas as pd

    check_header(path)
    with readable(path):
        names = list(pd.read_csv(path, sep=separator_of(path), index_col=False, nrows=0).columns)
        meant = {name: unescape_formula(name) for name in names}
        return pd.read_csv(
            path,
            sep=separator_of(path),
            index_col=False,
            dtype={name: str for name in names if meant[name] in words or meant[name] in plain},
            keep_default_na=False,
            na_values={name: [""] if meant[name] in plain else list(MISSING) for name in names},
            low_memory=False,
            **options,
        )


def parquet_frame(path: Path) -> Any:
    """Return a parquet file as a frame."""
    with parquet_file(path) as file, readable_parquet(path):
        check_parquet_size(file.metadata, path)
        check_distinct(file.schema_arrow.names, path.name)
        return file.read().to_pandas().reset_index(drop=True)


def parquet_pieces(path: Path, rows: int) -> Iterator[Any]:
    """Yield a parquet file as frames of at most so many rows."""
    with parquet_file(path) as file:
        check_distinct(file.schema_arrow.names, path.name)
        batches = file.iter_batches(batch_size=rows)
        while True:
            with readable_parquet(path):
                batch = next(batches, None)
                piece = None if batch is None else batch.to_pandas()
            if piece is None:
                return
            yield piece


def parquet_file(path: Path) -> Any:
    """Open a parquet file; a context manager."""
    parquet = require("pyarrow.parquet", extra="data", purpose="reading parquet")
    with readable_parquet(path):
        return parquet.ParquetFile(path)


def matrix_file(path: Path, options: dict[str, Any]) -> TableData:
    """Read a format that holds a matrix and labels; sparse features become sparse columns."""
    import pandas as pd

    table = read(path, **options)
    if table.X.shape[1] > _MOST_COLUMNS:
        raise DataFileError(
            f"{path.name}: {table.X.shape[1]:,} features are too many for a table, in which each is a column; up to "
            f"{_MOST_COLUMNS:,} are read. Use onepos.datasets.read and an estimator: they take sparse matrices as such."
        )
    if sparse.issparse(table.X):
        accessor: Any = pd.DataFrame.sparse
        frame = accessor.from_spmatrix(sparse.csr_matrix(table.X), columns=list(table.feature_names))
    else:
        frame = pd.DataFrame(table.X, columns=list(table.feature_names))
    return TableData(frame, pd.DataFrame(table.Y.astype(np.int8), columns=list(table.label_names)))


#: Rows held in memory at a time when a file is read in chunks.
CHUNK_ROWS = 10_000


def read_table(
    path: str | Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] = (),
    n_features: int | None = None,
    labels: Sequence[str] = (),
) -> TableData:
    """Read a data file; the format follows from the suffix.

    Parameters
    ----------
    path : str or Path
    words : collection of str
        Columns to read as text, whatever they look like (``07`` stays ``07``); an empty cell, ``NA`` and the like are
        missing.
    plain : collection of str
        Columns to read as text in which only an empty cell is missing: tags, identifiers, free text.
    n_features : int, optional
        For svmlight: how many features the rows have, where the file may not show the last ones.
    labels : sequence of str
        For ARFF: which attributes are the labels, if there is no XML file to say it.

    Returns
    -------
    TableData

    Raises
    ------
    DataFileError
        The file is not what its suffix says, or holds no row.
    """
    source = _existing(path)
    suffix = source.suffix.lower()
    if suffix in SEPARATED:
        frame = with_escapes(separated(source, words, plain), unescape_formula)
    elif suffix in PARQUET:
        frame = parquet_frame(source)
    else:
        options: dict[str, Any] = {}
        if suffix == ".arff" and labels:
            options["labels"] = list(labels)
        elif suffix in SVMLIGHT:
            options["n_features"] = n_features
        return matrix_file(source, options)
    if not len(frame):
        raise DataFileError(f"{source.name}: has a header and no row. Is the file complete?")
    return TableData(frame)


def read_chunks(
    path: str | Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] = (),
    n_features: int | None = None,
    rows: int = CHUNK_ROWS,
) -> Generator["pd.DataFrame", None, None]:
    """Yield a data file piece by piece, so that its size does not matter; the rows are numbered through.

    Parameters as for ``read_table``. CSV, TSV and parquet are read ``rows`` at a time; the other formats can only be
    read whole, and are yielded in pieces.
    """
    source = _existing(path)
    suffix = source.suffix.lower()
    if suffix in SEPARATED:
        pieces: Any = separated(source, words, plain, chunksize=rows)
    elif suffix in PARQUET:
        pieces = parquet_pieces(source, rows)
    else:
        frame = read_table(source, n_features=n_features).frame
        pieces = (frame.iloc[first : first + rows] for first in range(0, len(frame), rows))
    start = 0
    try:
        while True:
            with readable(source):
                piece = next(pieces, None)
            if piece is None:
                break
            if suffix in SEPARATED:
                piece = with_escapes(piece, unescape_formula)
            if len(piece):
                yield piece.set_axis(range(start, start + len(piece)))
                start += len(piece)
    finally:
        pieces.close()
    if not start:
        raise DataFileError(f"{source.name}: has a header and no row. Is the file complete?")


def read_as_written(path: Path) -> "pd.DataFrame":
    """Return the cells of a CSV or TSV file as text, formulas not escaped; other formats as ``read_table`` does."""
    import pandas as pd

    if path.suffix.lower() not in SEPARATED:
        return read_table(path).frame
    check_header(path)
    with readable(path):
        cells = pd.read_csv(path, sep=separator_of(path), index_col=False, dtype=str, keep_default_na=False)
    return with_escapes(cells, unescape_formula)


def guess_rows(path: str | Path) -> int:
    """Return about how many rows a file has, from its head or its metadata: for progress bars."""
    source = _existing(path)
    if source.suffix.lower() in PARQUET:
        with parquet_file(source) as file:
            return int(file.metadata.num_rows)
    with source.open("rb") as stream:
        head = stream.read(1 << 20)
    return max(1, head.count(b"\n") * source.stat().st_size // max(1, len(head)))


def _existing(path: str | Path) -> Path:
    source = Path(path)
    if source.suffix.lower() not in FORMATS:
        raise DataFileError(
            f"cannot tell the format of {source.name!r} from its suffix; expected one of {', '.join(FORMATS)}."
        )
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}. Check the path.")
    return source
