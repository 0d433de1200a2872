"""What a column of one kind becomes: the base of all kinds, numbers, yes/no and dates."""

import datetime
import numbers
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from onepos._utils import storage
from onepos.exceptions import DataFileError
from onepos.rows.scaling import single_precision
from onepos.rows.stored import LARGEST
from onepos.table.kinds import (
    BOOLEAN,
    DATE,
    NUMBER,
    READABLE,
    THOUSANDS,
    TRUTH,
    Tally,
    distinct_cells,
    holds_dates,
    words_of,
)

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder

#: What a column of numbers held in training. Beside whole numbers the text 5.123 may be a thousand.
WHOLE, DECIMAL, DURATIONS, FLAGS = "whole numbers", "numbers", "durations", "yes/no values"

_CORRECT = "Correct them, or leave them empty."
_LOOKED_AT = 100  # Words by which the next format of dates is chosen
_NAMED_MONTHS = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y")
_DAYS = (*_NAMED_MONTHS, "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y")
#: Formats of dates that are tried. pandas' own guess knows no AM and PM, and takes "May" for a full name.
ISO = "ISO8601"
FORMATS = (ISO, *(day + time for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p")))
#: 3/4/2020 is a day in March or in April: a column has one of these orders, that of more cells.
_ORDERS = {"%m/%d": "month/day/year", "%d/%m": "day/month/year"}
#: A number alone is not a date. It may be a year or a count.
_DATE_LIKE = r"\d[-/., ]\d|\d[- ][A-Za-z]{3,}[- ]\d|[A-Za-z]{3,} \d"
_FRACTION = r"(?<=:\d\d)[.,]\d+"  # of a second
_CYCLE = 0.3  # Month and weekday weigh less than the place in the range: many tables have no seasons


@dataclass(kw_only=True, eq=False)
class FittedColumn(ABC):
    """What a column became: the fields of the class determine it, and are what a model file holds.

    A new kind of column is a class like this in ``COLUMNS`` of ``encoder.py``, and a rule in ``judge``.
    """

    #: The kinds that the class encodes, as in ``ColumnEncoder.kinds_``.
    kinds: ClassVar[tuple[str, ...]]
    line: ClassVar[str] = ""
    #: The rules of these fields.
    _stored: ClassVar[storage.Rules] = {"name": storage.TEXT, "weight": storage.NOT_NEGATIVE}
    name: str
    weight: float = 1.0  # A factor of the features; the encoder sets it

    @classmethod
    @abstractmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Learn from the training rows; None if the column is not of this kind."""

    @abstractmethod
    def transform(self, column: "pd.Series[Any]", tally: Tally) -> Any:
        """Return float32 features, dense or CSR; a cell gives the same ones whatever other cells there are."""

    @property
    def n_features(self) -> int:
        """Columns of the result of ``transform``, which a gap shows."""
        return int(self.transform(pd.Series([None], dtype=object), Tally()).shape[1])

    def describe(self) -> str:
        """Return in one line what the column became."""
        return self.line

    @property
    def kind(self) -> str:
        """The kind of the column."""
        return self.kinds[0]


@dataclass(kw_only=True, eq=False)
class NumberColumn(FittedColumn):
    """Numbers: a gap is the median, then ``(x − shift) · factor`` standardises.

    This is done here and not only by the estimator, which leaves sparse features as they are: beside words, a price in
    thousands would drown everything.
    """

    kinds = (NUMBER,)
    line = "number → 1 feature, standardised"
    gap: ClassVar[str] = "missing, filled with the median"
    _stored: ClassVar[storage.Rules] = {
        "fill": storage.FINITE,
        "shift": storage.FINITE,
        "factor": storage.POSITIVE,
        "holds": storage.one_of(WHOLE, DECIMAL, DURATIONS, FLAGS),
    }
    fill: float
    shift: float = 0.0
    factor: float = 1.0
    holds: str = DECIMAL

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self:
        """Learn median, mean and spread."""
        holds = DURATIONS if types.is_timedelta64_dtype(column.dtype) else DECIMAL
        values = as_numbers(column, holds)
        fill = float(np.nanmedian(values))
        if holds == DECIMAL and column.name not in wanted.decimals and (values[~np.isnan(values)] % 1 == 0).all():
            holds = WHOLE
        values = np.where(np.isnan(values), fill, values)
        shift, spread = float(values.mean()), float(values.std())
        factor = 1.0 / spread if spread > 1e-10 * abs(shift) else 1.0
        return cls(name=str(column.name), fill=fill, shift=shift, factor=factor, holds=holds)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return one column."""
        values = as_numbers(column, self.holds)
        gaps = np.isnan(values)
        tally.count(self.name, gaps, self.gap)
        with np.errstate(over="ignore"):  # single_precision reports it
            scaled = (np.where(gaps, self.fill, values) - self.shift) * self.factor
        made: NDArray[np.float32] = single_precision(scaled[:, None])
        return made


@dataclass(kw_only=True, eq=False)
class FlagColumn(NumberColumn):
    """Yes or no, as 1 and 0; a gap is the more frequent one."""

    kinds = (BOOLEAN,)
    line = "yes/no → 1 feature"
    gap = "missing, taken as the more frequent one"

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self:
        """Learn which one is more frequent."""
        return cls(name=str(column.name), fill=float(np.nanmedian(as_numbers(column, FLAGS))), holds=FLAGS)


def as_numbers(column: "pd.Series[Any]", holds: str) -> NDArray[np.float64]:
    """Return the values as float64 (yes as 1, durations in seconds), NaN in gaps; other cells are an error."""
    dtype, missing = column.dtype, column.isna().to_numpy(dtype=bool)
    seen = True
    if holds == FLAGS:
        words = words_of(column)
        missing = words.missing
        values = words.rows([TRUTH.get(word.lower(), np.nan) for word in words.distinct], np.nan)
    elif types.is_timedelta64_dtype(dtype):
        seen, values = holds == DURATIONS, column.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan)
    elif types.is_numeric_dtype(dtype) and not (types.is_bool_dtype(dtype) or types.is_complex_dtype(dtype)):
        seen, values = holds != DURATIONS, column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, cells = distinct_cells(column)
        values = np.append(_numbers_of(cells, holds), np.nan)[codes]
    wrong = (np.isnan(values) | (not seen)) & ~missing
    dotted = holds == WHOLE and any(re.fullmatch(THOUSANDS, str(cell).strip()) for cell in column[wrong].head(1))
    advice = "Write thousands without dots." if dotted else _CORRECT
    _refuse(column, wrong, f"{DECIMAL if holds == WHOLE else holds} as in training", advice)
    values = np.where(missing, np.nan, values)
    _refuse(column, np.abs(values) > LARGEST, f"finite numbers of at most {LARGEST:.2g} in magnitude", _CORRECT)
    return values


def _numbers_of(cells: list[Any], holds: str) -> NDArray[np.float64]:
    """Return the numbers of cells, NaN for cells that are none or of a type that training did not see."""
    if holds == DURATIONS:
        return np.array([cell.total_seconds() if isinstance(cell, datetime.timedelta) else np.nan for cell in cells])
    legal = pd.Series([cell if _is_number(cell, holds) else None for cell in cells], dtype=object)
    return pd.to_numeric(legal, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _is_number(cell: Any, holds: str) -> bool:
    """Whether training saw such cells. A text that is no number at all is found later."""
    if isinstance(cell, str):
        return holds != WHOLE or "." not in cell or re.fullmatch(THOUSANDS, cell.strip()) is None
    return isinstance(cell, numbers.Real | Decimal) and not isinstance(cell, bool)


def _refuse(column: "pd.Series[Any]", wrong: NDArray[np.bool_], expected: str, advice: str) -> None:
    """Raise DataFileError if there are wrong cells. Rows are counted from 1 on, as in output files."""
    if not wrong.any():
        return
    index, place = column.index, int(wrong.argmax())
    numbered = index.name is None and index.dtype.kind == "i" and index.is_monotonic_increasing
    where = f"row {index[place] + 1}, counted from 1" if numbered else f"row {index[place]}"
    more = f"; {wrong.sum():,} such rows" if wrong.sum() > 1 else ""
    raise DataFileError(
        f"column {str(column.name)!r} must hold {expected}; got {str(column.iloc[place])[:40]!r} ({where}{more}). "
        f"{advice}"
    )


@dataclass(kw_only=True, eq=False)
class DateColumn(FittedColumn):
    """Dates and times: place in the range of training, standardised, and month and weekday as points of a circle.

    Times without a zone are taken as UTC. A date outside the range of training counts as the nearest date inside it. A
    gap is all zeros. Up to a tenth of the cells may be unreadable; they count as gaps.
    """

    kinds = (DATE,)
    _stored: ClassVar[storage.Rules] = {
        "formats": storage.List(storage.one_of(*FORMATS)),
        "first": storage.FINITE,
        "last": storage.FINITE,
        "mean": storage.FINITE,
        "spread": storage.POSITIVE,
    }
    formats: list[str]
    first: float  # Days since 1970
    last: float
    mean: float
    spread: float

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Choose the formats and learn the range; None if the cells are no dates, or all the same."""
        formats = [ISO] if holds_dates(column) else _find_formats(words_of(column).distinct)
        days, missing = _days_of(column, formats)
        known = days[~np.isnan(days)]
        if len(known) < max(1.0, READABLE * (~missing).sum()) or known.min() == known.max():
            return None
        first, last, mean, spread = (float(value) for value in (known.min(), known.max(), known.mean(), known.std()))
        return cls(name=str(column.name), formats=formats, first=first, last=last, mean=mean, spread=spread)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return the place, then sine and cosine of month and weekday."""
        days, missing = _days_of(column, self.formats)
        gap, outside = np.isnan(days), (days < self.first) | (days > self.last)
        tally.count(self.name, missing, "missing, taken as the mean date")
        tally.count(self.name, gap & ~missing, "no date, or of a format that training never saw, taken as gaps")
        tally.count(self.name, outside, "outside the range of training, taken as its nearest end")
        place = (np.clip(days, self.first, self.last) - self.mean) / self.spread
        whole = np.floor(np.where(gap, 0.0, days)).astype(np.int64)
        months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        turns = 2 * np.pi * np.stack([months / 12, whole / 7])
        circles = [_CYCLE * wave(turn) for turn in turns for wave in (np.sin, np.cos)]
        return np.where(gap[:, None], 0.0, np.column_stack([place, *circles])).astype(np.float32)

    def describe(self) -> str:
        """Return the range and how cells were read."""
        first, last = (np.datetime64(int(np.floor(day)), "D") for day in (self.first, self.last))
        how = f", in {len(self.formats)} formats" if len(self.formats) > 1 else ""
        how += next((f", read as {_ORDERS[way[:5]]}" for way in self.formats if way[:5] in _ORDERS), "")
        return f"date: {first} to {last}{how} → 5 features (place in this range, month, weekday)"

    def days(self, column: "pd.Series[Any]") -> NDArray[np.float64]:
        """Return days since 1970, NaN where there is no date."""
        return _days_of(column, self.formats)[0]


def _days_of(column: "pd.Series[Any]", formats: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return days since 1970, NaN where there is no date in one of the formats; and which cells are empty."""
    if types.is_datetime64_any_dtype(column.dtype):
        return _parsed(column, None), column.isna().to_numpy(dtype=bool)
    words = words_of(column)
    cells, days = pd.Series(words.distinct, dtype=object), np.full(len(words.distinct), np.nan)
    are_texts, are_dates = ([issubclass(kind, legal) for kind in words.types] for legal in (str, datetime.date))
    for way, legal in ((ISO, are_dates), *((way, are_texts) for way in formats)):
        unread = np.flatnonzero(np.isnan(days) & np.array(legal, dtype=bool))
        days[unread] = _parsed(cells.iloc[unread], way)
    return words.rows(days, np.nan), words.missing


def _find_formats(distinct: list[str]) -> list[str]:
    """Return the formats of distinct words, the most frequent one first; empty if these are no dates."""
    words = pd.Series(distinct, dtype=object)
    if words.empty or words.str.contains(_DATE_LIKE).mean() < READABLE:
        return []
    ways, chosen = list(FORMATS), []
    while len(words):
        some = words.iloc[:: max(1, len(words) // _LOOKED_AT)]
        counts = {way: int((~np.isnan(_parsed(some, way))).sum()) for way in ways}
        best = max(ways, key=counts.__getitem__)
        if not counts[best]:
            break
        chosen.append(best)
        other_order = [order for order in _ORDERS if best[:5] in _ORDERS and order != best[:5]]
        ways = [way for way in ways if way != best and way[:5] not in other_order]
        words = words[np.isnan(_parsed(words, best))]
    return chosen


def _parsed(column: "pd.Series[Any]", way: str | None) -> NDArray[np.float64]:
    """Return days since 1970 of cells in one format (None: of dates), NaN where that fails."""
    if way == ISO:  # with nanoseconds in one cell, pandas reads none of them beyond the year 2262
        column = column.str.replace(_FRACTION, "", regex=True)
    dates = pd.to_datetime(column, format=way, errors="coerce", utc=True).dt.tz_localize(None)
    seconds = dates.to_numpy(dtype="datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / 86_400.0)
