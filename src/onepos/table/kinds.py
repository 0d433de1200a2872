"""The kinds of columns, how cells are read as words, the columns of a frame, and what could not be read."""

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from onepos._utils.labels import cell_text, check_distinct
from onepos._utils.validation import shorten, similar
from onepos.exceptions import DataFileError

#: The kinds of a column. VALUES are words with many distinct values, LIST are cells that hold several words.
#: MEASURE are numbers with units.
NUMBER, BOOLEAN, CATEGORY, TEXT, DATE, OTHER = "number", "boolean", "category", "text", "date", "other"
VALUES, LIST, MEASURE, IMAGE = "values", "list", "measure", "image"
READABLE = 0.9  # Share of the cells that a kind must be able to read. The others become gaps, and are counted
#: What a column of yes and no may say, and what a file may say in place of it.
YES_NO = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
TRUTH = YES_NO | {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0}
#: A number whose dots may stand between thousands, 5.123.
THOUSANDS = r"[+-]?[1-9]\d{0,2}(\.\d{3})+"
#: The column of sets that predictions have, beside a column p(label) with a share for each label.
SUGGESTED, WRITTEN = "suggested", "has the name of a column that onepos complete writes"
#: Why a column of file names is left out that nobody called a column of pictures, and what such names end in.
PICTURES = "names picture files"
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_SHARE_OF = re.compile(r"p\(.+\)")
OTHER_SEPARATOR = "The file looks separated by something else than a comma: save it with commas, or as .tsv."
_NAMED_PICTURES = 5  # Broken pictures that a note names; the others are counted


def is_suggestion(name: str, column: "pd.Series[Any]") -> bool:
    """Whether an earlier completion wrote a column; learning from it would be circular.

    Its name tells: the labels may have changed since, and some of the columns may be gone.
    """
    if _SHARE_OF.fullmatch(name) is None:
        return name == SUGGESTED
    return bool(pd.to_numeric(column.dropna(), errors="coerce").between(0.0, 1.0).all())


def holds_dates(column: "pd.Series[Any]") -> bool:
    """Whether all cells are dates or times already, not words."""
    if types.is_datetime64_any_dtype(column.dtype):
        return True
    present = distinct_cells(column)[1] if column.dtype == object else ()
    return len(present) > 0 and all(isinstance(value, datetime.date) for value in present)


def distinct_cells(column: "pd.Series[Any]") -> tuple[NDArray[np.intp], list[Any]]:
    """Return the place of each row's cell in a list of cells, −1 for a gap; only rows with the same cell share a place.

    Cells of several types are all listed: True is 1 to Python, but not here.
    """
    if column.dtype == object and types.infer_dtype(column, skipna=True) not in ("string", "empty"):
        present = column.notna().to_numpy()
        return np.where(present, present.cumsum() - 1, -1), column[present].tolist()
    codes, cells = pd.factorize(column)
    return codes, cells.tolist()


class Words(NamedTuple):
    """The cells of a column as text (``cell_text``): each distinct word once, with the types of its cells.

    ``codes`` are the places of the rows' words, −1 where there is none. What is computed for each distinct word is what
    it is for each row: no row depends on others, and a column with few distinct words costs little.
    """

    codes: NDArray[np.intp]
    distinct: list[str]
    types: list[type]

    def rows(self, values: Any, gap: Any) -> NDArray[Any]:
        """Return the value of each row from those of the distinct words, ``gap`` where there is none."""
        return np.array([*values, gap], dtype=object if gap is None else type(gap))[self.codes]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have no word."""
        return self.codes < 0

    @property
    def counts(self) -> NDArray[np.intp]:
        """In how many rows each distinct word is."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))


def words_of(column: "pd.Series[Any]") -> Words:
    """Return the words of a column."""
    codes, cells = distinct_cells(column)
    places: dict[tuple[str, type], int] = {}
    keys = [(cell_text(cell), type(cell)) for cell in cells]
    word_of = [places.setdefault(key, len(places)) if key[0] else -1 for key in keys]
    return Words(np.array([*word_of, -1])[codes], [word for word, _ in places], [kind for _, kind in places])


def as_words(column: "pd.Series[Any]") -> NDArray[Any]:
    """Return the text of each cell, None where there is none."""
    words = words_of(column)
    return words.rows(words.distinct, None)


@dataclass
class Tally:
    """Counts the cells that were filled in or not recognised while encoding; chunks add up."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: dict[str, list[str]] = field(default_factory=dict)

    def count(self, column: str, cells: Any, what: str) -> None:
        """Add the number of true cells of a column; ``what`` ends the sentence about them."""
        number = int(np.sum(cells))
        if number:
            self.counts[column, what] += number

    def notes(self) -> list[str]:
        """Return one sentence for each column and each thing that was counted, sorted by column."""
        notes = [f"column {name!r}: {number:,} {what}" for (name, what), number in sorted(self.counts.items())]
        for name, reasons in self.broken.items():
            more = f"; and {len(reasons) - _NAMED_PICTURES:,} more" if len(reasons) > _NAMED_PICTURES else ""
            notes.append(f"column {name!r}: {'; '.join(reasons[:_NAMED_PICTURES])}{more}. Taken as the mean picture")
        return notes


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with strings as column names, each of them once."""
    if not hasattr(frame, "columns"):
        raise TypeError(
            f"a table must be a pandas DataFrame; got {type(frame).__name__}. pandas.DataFrame(array) makes one, and "
            "onepos.table.read_table reads a file."
        )
    names = [str(name) for name in frame.columns]
    check_distinct(names)
    return frame if all(isinstance(name, str) for name in frame.columns) else frame.set_axis(names, axis=1)


def as_list(names: str | Sequence[str]) -> list[str]:
    """Return one name or several as a list."""
    return [names] if isinstance(names, str) else list(names)


def require_columns(frame: pd.DataFrame, names: Sequence[str], what: str) -> None:
    """Raise DataFileError if one of the columns is not there."""
    for name in names:
        if name not in frame.columns:
            separated = len(frame.columns) == 1 and any(sign in str(frame.columns[0]) for sign in ";\t")
            hint = f" {OTHER_SEPARATOR}" if separated else ""
            raise DataFileError(
                f"there is no column {name!r} (named as {what}). {similar(name, frame.columns)} "
                f"The columns are: {shorten(frame.columns)}.{hint}"
            )
