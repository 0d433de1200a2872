"""What a column holds, how its cells are read as words or as numbers, and how many could not be read."""

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
from onepos._utils.messages import shorten
from onepos.exceptions import DataFileError
from onepos.rows.stored import LARGEST

#: The kinds of a column. VALUES are words with many distinct values, LIST are cells that hold several words.
#: MEASURE are numbers with units.
NUMBER, BOOLEAN, CATEGORY, TEXT, DATE, OTHER = "number", "boolean", "category", "text", "date", "other"
VALUES, LIST, MEASURE, IMAGE = "values", "list", "measure", "image"
READABLE = 0.9  # Share of the cells that a kind must be able to read. The others become gaps, and are counted
TEXT_WORDS = 3.0  # Strings of so many words on average are text, not names of categories or lists of names
_TRUE, _FALSE = frozenset({"true", "yes"}), frozenset({"false", "no"})
# A boolean column of training that a file gives back as text may also say 1 and 0.
_TRUTH = dict.fromkeys((*_TRUE, "1", "1.0"), 1.0) | dict.fromkeys((*_FALSE, "0", "0.0"), 0.0)
_NUMBERS = (int, float, np.integer, np.floating)
#: The column of sets that predictions have, beside a column p(label) with a share for each label.
SUGGESTED, WRITTEN = "suggested", "has the name of a column that onepos complete writes"
_SHARE_OF = re.compile(r"p\(.+\)")
OTHER_SEPARATOR = "The file looks separated by something else than a comma: save it with commas, or as .tsv."
_NAMED_PICTURES = 5  # Broken pictures that a note names; the others are counted


def kind_of(column: "pd.Series[Any]") -> str:
    """Return the kind that the types of a column and its cells say; ``judge`` looks further at words."""
    dtype = column.dtype
    categorical = isinstance(dtype, pd.CategoricalDtype)
    if types.is_bool_dtype(dtype) and not categorical:
        return BOOLEAN
    if types.is_numeric_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return OTHER if types.is_complex_dtype(dtype) else NUMBER
    if holds_dates(column):
        return DATE
    words = types.is_object_dtype(dtype) or types.is_string_dtype(dtype) or categorical
    if not words or odd_value(column) is not None:
        return OTHER
    present = list(column.dropna().unique())
    if present and not categorical:
        if all(isinstance(value, bool | np.bool_) for value in present):
            return BOOLEAN
        if all(isinstance(value, _NUMBERS) for value in present):
            return NUMBER
    if present and {str(value).strip().lower() for value in present} <= _TRUE | _FALSE:
        return BOOLEAN
    some = present[:: max(1, len(present) // 1000)]
    is_text = some and all(isinstance(value, str) for value in present)
    return TEXT if is_text and np.mean([len(value.split()) for value in some]) >= TEXT_WORDS else CATEGORY


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


def odd_value(column: "pd.Series[Any]") -> Any:
    """Return the first value that is neither a string nor a real number; None if there is none."""
    legal = (str, np.bool_, *_NUMBERS)
    return next((value for value in column.dropna() if not isinstance(value, legal)), None)


def as_words(column: "pd.Series[Any]") -> NDArray[Any]:
    """Return the text of each cell (``cell_text``), None where there is none."""
    missing = column.isna().to_numpy()
    words = [None if gap else cell_text(value) or None for value, gap in zip(column, missing, strict=True)]
    return np.array(words, dtype=object)


def as_numbers(column: "pd.Series[Any]", name: str, *, boolean: bool) -> NDArray[np.float64]:
    """Return the values as float64 (durations in seconds), NaN where there is none; other cells are an error."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if types.is_timedelta64_dtype(column.dtype):
        column = column.dt.total_seconds()
    if boolean and not types.is_bool_dtype(column.dtype) and not types.is_numeric_dtype(column.dtype):
        words = column.map(lambda value: str(value).strip().lower(), na_action="ignore")
        numbers = pd.Series([_TRUTH.get(word, np.nan) for word in words], index=column.index, dtype=np.float64)
        missing = column.isna() | (words == "")
    else:
        numbers = pd.to_numeric(column, errors="coerce")
        missing = column.isna()
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(values) & ~missing.to_numpy(dtype=bool))
    if wrong.size:
        raise DataFileError(
            f"column {name!r} must hold {'yes/no values' if boolean else 'numbers'} as in training; got "
            f"{str(column.iloc[wrong[0]])[:40]!r} ({_row_of(column, wrong[0])}; {wrong.size} such rows). "
            "Correct them, or leave them empty."
        )
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if large.size:
        raise DataFileError(
            f"column {name!r} must hold finite numbers of at most {LARGEST:.2g} in magnitude; got {values[large[0]]} "
            f"({_row_of(column, large[0])}). Correct it, or leave it empty."
        )
    return values


def _row_of(column: "pd.Series[Any]", place: int) -> str:
    """Name a row: its number from 1 on, as in output files, or its index if that is no number of rows."""
    index, label = column.index, column.index[place]
    numbered = index.name is None and index.dtype.kind == "i" and index.is_monotonic_increasing
    return f"row {label + 1}, counted from 1" if numbered else f"row {label}"


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
