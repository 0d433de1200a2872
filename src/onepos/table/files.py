"""Tables read from files: a folder or a file, whole, as a sample or piece by piece.

Columns of text become numbers if all cells are; the cells are also kept as they stand.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from onepos._utils.validation import shorten
from onepos.exceptions import DataFileError
from onepos.table.formats import READABLE, Piece, pieces_of
from onepos.table.kinds import THOUSANDS

CHUNK_ROWS = 10_000  # Rows held in memory at a time when a file is read in chunks
#: Bytes of cells that ``fit`` holds in memory. Of a larger table it takes a random half, quarter, … of the rows.
SAMPLE_BYTES = 1 << 30
#: What an empty cell of a file of text may say.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None")
_GAPS = pa.array(MISSING)
_EXACT = 1 << 53  # Larger whole numbers are rounded in floating point


@dataclass(frozen=True, eq=False)
class TableData:
    """Rows of a table: its columns, numbers as numbers; ``cells`` are the same as they stand in a file of text.

    The index of the frame has the numbers of the rows in the file, from 0 on. ``share`` of the file has been read with
    these rows; it has ``n_rows``. The file says that ``integers`` are columns of integers, and ``decimals`` show a
    decimal point.
    """

    frame: pd.DataFrame
    cells: pa.Table | None = None
    share: float = 1.0
    n_rows: int = 0
    integers: frozenset[str] = frozenset()
    decimals: frozenset[str] = frozenset()

    @property
    def as_written(self) -> pd.DataFrame | None:
        """The cells as they stand in a file of text; None if the file has types."""
        return None if self.cells is None else self.cells.to_pandas().set_axis(self.frame.index)

    @property
    def notes(self) -> list[str]:
        """What the user should know."""
        if len(self.frame) >= self.n_rows:
            return []
        return [
            f"{len(self.frame):,} of {self.n_rows:,} rows are used, drawn at random: more would not fit into memory"
        ]


def read_table(
    path: str | Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] = (),
    numbers: Collection[str] | None = None,
    sheet: str | None = None,
    most_bytes: int | None = None,
) -> TableData:
    """Read a CSV, TSV, parquet, JSON lines or Excel file, or the files of a folder; the format follows from the suffix.

    Columns of ``words`` are read as text, whatever they look like (``07`` stays ``07``); an empty cell, ``NA`` and the
    like are missing. Columns of ``plain`` are read as text in which only an empty cell is missing: tags, identifiers,
    free text. If a model knows which columns are ``numbers``, no others become numbers. ``sheet`` is the one of an
    Excel file; default: the first. If the cells have more than ``most_bytes``, a random half, quarter, … of the rows is
    returned; which rows depends on their number only.
    """
    sample, separator = _Sample(most_bytes), None
    for piece in _pieces(path, sheet):
        sample.add(piece.cells)
        separator = piece.separator
    rows, cells = sample.rows()
    data = _typed(Piece(cells, 1.0, separator), words, plain, numbers)
    return replace(data, frame=data.frame.set_axis(rows), n_rows=sample.n_rows)


def read_chunks(
    path: str | Path,
    *,
    words: Collection[str] = (),
    plain: Collection[str] = (),
    numbers: Collection[str] | None = None,
    sheet: str | None = None,
    rows: int = CHUNK_ROWS,
) -> Iterator[TableData]:
    """Yield a file piece by piece, so that its size does not matter; the rows are numbered through.

    Parameters as for ``read_table``; a piece has at most ``rows`` rows.
    """
    n_read = 0
    for piece in _pieces(path, sheet):
        for start in range(0, piece.cells.num_rows, rows):
            data = _typed(replace(piece, cells=piece.cells.slice(start, rows)), words, plain, numbers)
            index = pd.RangeIndex(n_read, n_read + len(data.frame))
            n_read += len(index)
            yield replace(data, frame=data.frame.set_axis(index), n_rows=n_read)


def column_names(path: str | Path, sheet: str | None = None) -> list[str]:
    """Return the columns of a file or a folder."""
    return [str(name) for name in next(_pieces(path, sheet)).cells.column_names]


def files_of(path: str | Path) -> list[Path]:
    """Return a file, or the files of a folder, which must be of one format."""
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in READABLE and file.is_file())
    if not files:
        raise DataFileError(f"{folder} holds no table: {', '.join(READABLE)} are read. Check the folder.")
    formats = sorted({file.suffix.lower() for file in files})
    if len(formats) > 1:
        raise DataFileError(f"{folder} holds files of several formats ({', '.join(formats)}): keep one of them.")
    return files


def _pieces(path: str | Path, sheet: str | None) -> Iterator[Piece]:
    """Yield the rows of a file, or of all files of a folder, which must have the same columns."""
    files, n_read, names = files_of(path), 0, list[str]()
    for number, file in enumerate(files):
        for piece in pieces_of(file, sheet):
            names = names or piece.cells.column_names
            if sorted(piece.cells.column_names) != sorted(names):
                strange = sorted({*names} ^ {*piece.cells.column_names})
                raise DataFileError(
                    f"{file.name} has other columns than {files[0].name}; they differ in {shorten(strange, 5)}."
                )
            n_read += piece.cells.num_rows
            if piece.cells.num_rows:  # a file may be empty, as long as others are not
                yield replace(piece, cells=piece.cells.select(names), share=(number + piece.share) / len(files))
    if not n_read:
        raise DataFileError(f"{Path(path).name}: has a header and no row. Is the file complete?")


class _Sample:
    """Rows of a table as they come; once these have too many bytes, the half of them whose draws are even, and so on.

    The draw of a row depends on its number only, so pieces of another size make the same sample.
    """

    def __init__(self, most_bytes: int | None) -> None:
        self.most_bytes, self.n_rows, self.halvings = most_bytes, 0, 0
        self._kept: list[tuple[NDArray[np.int64], pa.Table]] = []

    def add(self, cells: pa.Table) -> None:
        """Take the next rows."""
        rows = np.arange(self.n_rows, self.n_rows + cells.num_rows)
        self.n_rows += len(rows)
        self._kept.append(self._drawn(rows, cells))
        while self.most_bytes is not None and sum(part.nbytes for _, part in self._kept) > self.most_bytes:
            self.halvings += 1
            self._kept = [self._drawn(*part) for part in self._kept]

    def rows(self) -> tuple[NDArray[np.int64], pa.Table]:
        """Return the numbers of the rows of the sample, and their cells."""
        numbers = np.concatenate([rows for rows, _ in self._kept])
        try:
            cells = pa.concat_tables([part for _, part in self._kept], promote_options="permissive")
        except pa.ArrowException as error:
            raise DataFileError(
                f"the rows hold values of several types in one column: {error}. Make them alike."
            ) from error
        return numbers, cells

    def _drawn(self, rows: NDArray[np.int64], cells: pa.Table) -> tuple[NDArray[np.int64], pa.Table]:
        if not self.halvings:
            return rows, cells
        draws = rows.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        for factor, shift in ((0xBF58476D1CE4E5B9, 30), (0x94D049BB133111EB, 27)):
            draws = (draws ^ (draws >> np.uint64(shift))) * np.uint64(factor)
        kept = (draws ^ (draws >> np.uint64(31))) % np.uint64(1 << self.halvings) == 0
        return rows[kept], cells.filter(pa.array(kept))


def _typed(piece: Piece, words: Collection[str], plain: Collection[str], numbers: Collection[str] | None) -> TableData:
    """Return the columns of a piece; those of text become numbers if all cells are, as far as they may."""
    cells = piece.cells
    if piece.separator is None:
        integers = frozenset(field.name for field in cells.schema if pa.types.is_signed_integer(field.type))
        return TableData(_frame(cells), None, piece.share, integers=integers)
    columns: dict[str, Any] = {}
    decimals = set()
    for name, texts in zip(cells.column_names, cells.columns, strict=True):
        known = numbers is not None and name in numbers
        may_be_numbers = name not in plain and name not in words and (numbers is None or known)
        made = _numbers(texts, piece.separator, known=known) if may_be_numbers else None
        if made is None:
            gaps = pc.equal(texts, "") if name in plain else pc.is_in(texts, _GAPS)
            if pc.any(gaps).as_py():
                texts = pc.if_else(gaps, None, texts)
                made = _numbers(texts, piece.separator, known=known) if may_be_numbers else None
        if made is not None and made.dtype.kind == "f" and pc.any(pc.match_substring(texts, ".")).as_py():
            decimals.add(name)
        columns[name] = texts.to_pandas().array if made is None else made
    return TableData(pd.DataFrame(columns), cells, piece.share, decimals=frozenset(decimals))


def _numbers(texts: pa.ChunkedArray, separator: str, *, known: bool) -> Any:
    """Return the numbers of texts, NaN or missing in gaps; None if a text is none, or they are codes."""
    if texts.null_count == len(texts):
        return None
    try:
        values = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        texts = pc.ascii_trim_whitespace(texts)
        try:
            values = pc.cast(texts, pa.float64())
        except pa.ArrowInvalid:
            return None
    if _holds_codes(texts, separator, known=known):
        return None
    present: NDArray[Any] = values.drop_null().to_numpy()
    if np.isnan(present).any():  # written as Nan, say, which is none of the words for a gap
        return None
    if (np.floor(present) == present).all():
        whole = _whole_numbers(texts.drop_null())
        if whole is None and pc.any(pc.match_substring_regex(texts, r"^[+-]?\d{19,}$")).as_py():
            return None  # whole numbers of more than 64 bits are identifiers
        present = present if whole is None else whole
    if not texts.null_count:
        return present
    large = present.dtype.kind in "iu" and bool((present > _EXACT).any() or (present < -_EXACT).any())
    made = np.full(len(texts), 0 if large else np.nan, dtype=present.dtype if large else np.float64)
    gaps = texts.is_null().to_numpy()
    made[~gaps] = present
    return pd.arrays.IntegerArray(made, gaps) if large else made


def _whole_numbers(texts: pa.ChunkedArray) -> NDArray[Any] | None:
    """Return numbers that are written as integers of 64 bits, exactly; None if one is not."""
    for kind in (pa.int64(), pa.uint64()):
        with suppress(pa.ArrowInvalid):
            return np.asarray(pc.cast(texts, kind))
    return None


def _holds_codes(texts: pa.ChunkedArray, separator: str, *, known: bool) -> bool:
    """Whether a column would be misread as numbers: of one width that begin with 0, or 1.234 for a thousand."""
    if pc.any(pc.starts_with(texts, "0")).as_py():
        widths = pc.min_max(pc.utf8_length(texts)).as_py()
        if widths["min"] == widths["max"] and pc.all(pc.match_substring_regex(texts, r"^\d{3,}$")).as_py():
            return True
    if separator != ";":
        return False
    # Dots between groups of three digits, and nowhere else, mean thousands only where semicolons separate cells.
    dotted = texts.filter(pc.match_substring(texts, "."))
    dots = pc.match_substring_regex(dotted, rf"^{THOUSANDS}$")
    return bool(len(dotted)) and bool((pc.any(dots) if known else pc.all(dots)).as_py())


def _frame(cells: pa.Table) -> pd.DataFrame:
    """Return typed columns; whole numbers with gaps in types that hold them exactly."""
    types: dict[Any, Any] = {}
    if any(pa.types.is_integer(column.type) and column.null_count for column in cells.columns):
        names = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
        types = {getattr(pa, name.lower())(): pd.api.types.pandas_dtype(name) for name in names}
    frame: pd.DataFrame = cells.to_pandas(types_mapper=types.get)
    return frame
