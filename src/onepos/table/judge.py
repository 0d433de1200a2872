"""Decide what becomes of a column, and why one is left out; for ``fit`` and the doctor."""

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types

from onepos._utils.context import option
from onepos.exceptions import DataFileError
from onepos.table.columns import DateColumn, FittedColumn, FlagColumn, NumberColumn
from onepos.table.kinds import (
    BOOLEAN,
    CATEGORY,
    DATE,
    IMAGE,
    NUMBER,
    OTHER,
    PICTURE_SUFFIXES,
    PICTURES,
    READABLE,
    TEXT,
    WRITTEN,
    YES_NO,
    distinct_cells,
    holds_dates,
    is_suggestion,
)
from onepos.table.measures import MeasureColumn
from onepos.table.words import LEAST_ROWS, BagColumn, CategoryColumn, TextColumn

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder

_EMPTY, _CONSTANT = "is empty", "is the same in every row"
_IDENTIFIER = "has another value in every row, as identifiers do (as text its words would be used)"
_INDEX = "has no name and numbers the rows, as the index of a DataFrame that was written with its index"
_RARE = f"few rows have one that is in {LEAST_ROWS} rows or more"
_CODES = "most have digits but are no dates or numbers with units (as categories the frequent ones would be used)"
_ROWS_TO_TELL = 20  # With fewer rows, words that all differ may be chance
_TEXT_WORDS = 3.0  # Strings of so many words on average are text, not names of categories or lists of names
_NUMBERS = (int, float, np.integer, np.floating)


class ColumnChoice(NamedTuple):
    """What becomes of a column: its kind, and the fitted column if judging fitted it; or why it is left out."""

    kind: str = ""
    part: FittedColumn | None = None
    reason: str = ""

    def describe(self) -> str:
        """Return it in one line."""
        if self.reason:
            return f"left out: {self.reason}"
        lines = {NUMBER: NumberColumn.line, BOOLEAN: FlagColumn.line, TEXT: "text", IMAGE: "picture"}
        return self.part.describe() if self.part is not None else lines[self.kind]


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
    _, present = distinct_cells(column)
    if not words or _odd_value(present) is not None:
        return OTHER
    if not present:
        return CATEGORY
    are_flags = [isinstance(value, bool | np.bool_) for value in present]
    if not categorical and all(are_flags):
        return BOOLEAN
    if not categorical and not any(are_flags) and all(isinstance(value, _NUMBERS) for value in present):
        return NUMBER
    if all(str(value).strip().lower() in YES_NO for value in present):
        return BOOLEAN
    some = present[:: max(1, len(present) // 1000)]
    is_text = all(isinstance(value, str) for value in present)
    return TEXT if is_text and np.mean([len(value.split()) for value in some]) >= _TEXT_WORDS else CATEGORY


def _odd_value(cells: list[Any]) -> Any:
    """Return the first cell that is neither a string nor a real number; None if there is none."""
    legal = (str, np.bool_, *_NUMBERS)
    return next((cell for cell in cells if not isinstance(cell, legal)), None)


def judge(column: "pd.Series[Any]", wanted: "ColumnEncoder") -> ColumnChoice:
    """Decide what becomes of a column; one that the user names is what the user says."""
    name = str(column.name)
    if name in wanted.text or name == wanted.image:
        return ColumnChoice(IMAGE if name == wanted.image else TEXT)
    if column.isna().all():
        return ColumnChoice(reason=_EMPTY)
    asked = name in wanted.categories
    if not asked and is_suggestion(name, column):
        return ColumnChoice(reason=WRITTEN)
    kind = CATEGORY if asked else kind_of(column)
    if kind in (NUMBER, BOOLEAN):
        if column.notna().all() and column.nunique() == 1:
            return ColumnChoice(reason=_CONSTANT)
        return ColumnChoice(reason=_INDEX) if kind == NUMBER and _is_index(column) else ColumnChoice(kind)
    if kind == OTHER:
        odd = _odd_value(distinct_cells(column)[1]) if column.dtype == object else None
        held = column.dtype if odd is None else f"values of type {type(odd).__name__}"
        return ColumnChoice(reason=f"holds {held}, which is neither numbers nor words")
    measured = None if asked else DateColumn.fit(column, wanted) or MeasureColumn.fit(column, wanted)
    if measured is not None:
        return ColumnChoice(measured.kind, measured)
    category = CategoryColumn.fit(column, wanted)
    n_values = len(category.values)
    if n_values == 1 and column.notna().all():
        return ColumnChoice(reason=_CONSTANT)
    different = n_values == len(column) > _ROWS_TO_TELL
    many = different or n_values > wanted.max_categories
    if many and not asked and _are_pictures(column):
        return ColumnChoice(reason=f"{PICTURES} ({option('image', name)} embeds them)")
    if n_values > wanted.max_categories or (different and kind == TEXT):
        return _judge_many(column, wanted, n_values, kind, asked=asked)
    return ColumnChoice(reason=_IDENTIFIER) if different and not asked else ColumnChoice(CATEGORY, category)


def _are_pictures(column: "pd.Series[Any]") -> bool:
    """Whether nearly all cells end as the names of picture files do."""
    return bool(np.mean([str(name).lower().endswith(PICTURE_SUFFIXES) for name in column.dropna()]) >= READABLE)


def _is_index(column: "pd.Series[Any]") -> bool:
    """Whether a column without a name, "Unnamed: 0" in pandas, has another whole number in every row."""
    if not re.fullmatch(r"(Unnamed: \d+)?", str(column.name).strip()) or column.isna().any():
        return False
    values = column.to_numpy(dtype=np.float64)
    return column.is_unique and bool((values == np.floor(values)).all())


def _judge_many(
    column: "pd.Series[Any]", wanted: "ColumnEncoder", n_values: int, kind: str, *, asked: bool
) -> ColumnChoice:
    """Decide about a column of words with more values than categories may have, or of another text in every row."""
    bag = BagColumn.fit(column, wanted) if wanted.max_values else None
    if bag is not None and (asked or not bag.measured) and not (kind == TEXT and bag.length > _TEXT_WORDS):
        return ColumnChoice(bag.kind, bag)
    words = TextColumn.fit(column, wanted) if kind == TEXT and wanted.max_values else None
    if words is not None:
        return ColumnChoice(TEXT, words)
    if asked:
        raise DataFileError(
            f"column {str(column.name)!r} has {n_values:,} categories, and {_RARE}. Merge rare ones, or leave the "
            "column out."
        )
    if bag is None and n_values == len(column):
        return ColumnChoice(reason=_IDENTIFIER)
    why = f"{_RARE} (as text its words would be used)" if bag is None else _CODES
    return ColumnChoice(reason=f"has {n_values:,} different values, and {why}")
