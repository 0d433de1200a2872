"""Any data file → one table: CSV, TSV, parquet as they are; ARFF, MAT, svmlight, npz with the labels they carry."""

from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos.columns._formats import (
    PARQUET,
    SEPARATED,
    SVMLIGHT,
    TableData,
    check_header,
    matrix_file,
    parquet_file,
    parquet_frame,
    parquet_pieces,
    readable,
    separated,
    separator_of,
)
from onepos.datasets._read import FORMATS
from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd

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
        frame = separated(source, words, plain)
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
            if len(piece):
                yield piece.set_axis(range(start, start + len(piece)))
                start += len(piece)
    finally:
        pieces.close()
    if not start:
        raise DataFileError(f"{source.name}: has a header and no row. Is the file complete?")


def read_as_written(path: Path) -> "pd.DataFrame":
    """Return the cells of a CSV or TSV file as the text that they are; other formats as ``read_table`` does."""
    import pandas as pd

    if path.suffix.lower() not in SEPARATED:
        return read_table(path).frame
    check_header(path)
    with readable(path):
        return pd.read_csv(path, sep=separator_of(path), index_col=False, dtype=str, keep_default_na=False)


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
