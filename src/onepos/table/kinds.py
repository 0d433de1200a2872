"""The kinds of columns, how cells are read as words, the columns of a frame, and what could not be read."""

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from onepos._utils.labels import cell_text, check_distinct
from onepos._utils.validation import shorten
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
    present = column.dropna() if column.dtype == object else ()
    return len(present) > 0 and all(isinstance(value, datetime.date) for value in present)


def as_words(column: "pd.Series[Any]") -> NDArray[Any]:
    """Return the text of each cell (``cell_text``), None where there is none."""
    if isinstance(column.dtype, pd.StringDtype):  # each distinct cell once
        codes, cells = pd.factorize(column)
        return np.array([*(cell_text(cell) or None for cell in cells), None], dtype=object)[codes]
    missing = column.isna().to_numpy()
    words = [None if gap else cell_text(value) or None for value, gap in zip(column, missing, strict=True)]
    return np.array(words, dtype=object)


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
                f"there is no column {name!r} (named as {what}); the columns are: {shorten(frame.columns)}.{hint}"
            )
