"""Columns of what is counted or measured as features: numbers, dates and times, numbers with units."""

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos.rows.scaling import single_precision
from onepos.table.features import FittedColumn
from onepos.table.kinds import DATE, MEASURE, Tally, as_numbers, as_words, holds_dates, is_sparse

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder

READABLE = 0.9  # Share of the cells that must be readable. The others become gaps, and are counted
_LOOKED_AT = 100  # Words by which the next format of dates is chosen
_NAMED_MONTHS = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y")
_DAYS = (*_NAMED_MONTHS, "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y")
#: Formats of dates that are tried.
FORMATS = ("ISO8601", *(day + time for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p")))
#: 3/4/2020 is a day in March or in April: a column has one of these orders, that of more cells.
_ORDERS = {"%m/%d": "month/day/year", "%d/%m": "day/month/year"}
#: A number alone is not a date. It may be a year or a count.
_DATE_LIKE = re.compile(r"\d[-/., ]\d|\d[- ][A-Za-z]{3,}[- ]\d|[A-Za-z]{3,} \d")
_CYCLE = 0.3  # Month and weekday weigh less than the place in the range: many tables have no seasons


class NumberColumns:
    """All numbers of a table, together because sparse files have many: what fills a gap, ``(x − shift) · factor``.

    Standardised here and not only by the estimator, which leaves sparse features as they are: beside words, a price in
    thousands would drown everything. A frame whose columns are all sparse is neither shifted nor scaled.
    """

    weight = 1.0

    def __init__(self, names: list[str], boolean: list[bool]) -> None:
        self.names, self.boolean = names, boolean

    def fit(self, frame: pd.DataFrame) -> Self:
        """Learn medians, means and spreads."""
        values = _matrix(frame, self.names, self.boolean)
        n_columns = len(self.names)
        self.fill, self.shift, self.factor = np.zeros(n_columns), np.zeros(n_columns), np.ones(n_columns)
        if sparse.issparse(values):
            by_column = values.tocsc()
            for j in np.unique(values.indices[np.isnan(values.data)]):
                self.fill[j] = np.nanmedian(by_column[:, [j]].toarray())
            return self
        for j in range(n_columns):
            # A column at a time: a median of the whole matrix would copy it.
            self.fill[j] = np.nanmedian(values[:, j])
        filled = np.where(np.isnan(values), self.fill, values)
        number = ~np.array(self.boolean, dtype=bool)
        self.shift[number] = filled.mean(axis=0)[number]
        spread = filled.std(axis=0)
        useful = number & (spread > 1e-10 * np.abs(self.shift))
        self.factor[useful] = 1.0 / spread[useful]
        return self

    def transform(self, frame: pd.DataFrame, tally: Tally) -> Any:
        """Return float32 columns, dense or CSR as the frame is."""
        values = _matrix(frame, self.names, self.boolean)
        if sparse.issparse(values):
            gaps = np.isnan(values.data)
            columns = values.indices[gaps]
            values.data[gaps] = self.fill[columns]
            counts, made = np.bincount(columns, minlength=len(self.names)), values.astype(np.float32)
        else:
            gaps = np.isnan(values)
            counts = gaps.sum(axis=0)
            with np.errstate(over="ignore"):  # single_precision reports it
                made = single_precision((np.where(gaps, self.fill, values) - self.shift) * self.factor)
        for j in np.flatnonzero(counts):
            filled = "taken as the more frequent one" if self.boolean[j] else "filled with the median"
            tally.count(self.names[j], counts[j], f"missing, {filled}")
        return made

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and facts."""
        arrays = {"fill": self.fill, "shift": self.shift, "factor": self.factor}
        return arrays, {"names": self.names, "boolean": self.boolean}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> Self:
        """Take back what ``state`` gave."""
        made = cls(facts["names"], facts["boolean"])
        made.fill, made.shift, made.factor = arrays["fill"], arrays["shift"], arrays["factor"]
        return made


def _matrix(frame: pd.DataFrame, names: list[str], boolean: list[bool]) -> Any:
    part = frame[names]
    if names and is_sparse(part):
        accessor: Any = part.sparse
        return accessor.to_coo().astype(np.float64).tocsr()
    values = np.empty((len(part), len(names)))
    for j, (name, is_boolean) in enumerate(zip(names, boolean, strict=True)):
        values[:, j] = as_numbers(part[name], name, boolean=is_boolean)
    return values


class DateColumn(FittedColumn):
    """Dates and times: place in the range of training, standardised, and month and weekday as points of a circle.

    Times without a zone are taken as UTC. A date outside the range of training counts as the nearest date inside it. A
    gap is all zeros. Up to a tenth of the cells may be unreadable; they count as gaps.
    """

    key, kinds = "dates", (DATE,)
    stored = ("formats", "first", "last", "mean", "spread")
    n_features = 5

    def fit(self, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Choose the formats and learn the range; None if the cells are no dates, or all the same."""
        self.formats = ["ISO8601"] if holds_dates(column) else _find_formats(as_words(column))
        days, missing = self.days(column)
        known = days[~np.isnan(days)]
        if len(known) < max(1.0, READABLE * (~missing).sum()) or known.min() == known.max():
            return None
        self.first, self.last = float(known.min()), float(known.max())
        self.mean, self.spread = float(known.mean()), float(known.std())
        return self

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return the place, then sine and cosine of month and weekday."""
        days, missing = self.days(column)
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

    def days(self, column: "pd.Series[Any]") -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return days since 1970, NaN where there is no date; and which cells are empty."""
        if holds_dates(column):
            return _parsed(column, None), column.isna().to_numpy(dtype=bool)
        codes, words = pd.factorize(as_words(column))
        days = np.full(len(words) + 1, np.nan)  # the last one is that of gaps
        for way in self.formats:
            unread = np.flatnonzero(np.isnan(days[:-1]))
            days[unread] = _parsed(pd.Series(words[unread], dtype=object), way)
        return days[codes], codes < 0


def _find_formats(cells: NDArray[Any]) -> list[str]:
    """Return the formats of the cells, the most frequent one first; empty if the cells are no dates."""
    words = pd.Series(pd.unique(cells), dtype=object).dropna()
    if sum(bool(_DATE_LIKE.search(word)) for word in words) < READABLE * len(words):
        return []
    ways, found = list(FORMATS), []
    while len(words):
        some = words.iloc[:: max(1, len(words) // _LOOKED_AT)]
        counts = {way: int((~np.isnan(_parsed(some, way))).sum()) for way in ways}
        best = max(ways, key=counts.__getitem__)
        if not counts[best]:
            break
        found.append(best)
        other_order = [order for order in _ORDERS if best[:5] in _ORDERS and order != best[:5]]
        ways = [way for way in ways if way != best and way[:5] not in other_order]
        words = words[np.isnan(_parsed(words, best))]
    return found


def _parsed(column: "pd.Series[Any]", way: str | None) -> NDArray[np.float64]:
    """Return days since 1970 of cells in one format (None: of dates), NaN where that fails."""
    found = pd.to_datetime(column, format=way, errors="coerce", utc=True).dt.tz_localize(None)
    seconds = found.to_numpy(dtype="datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / 86_400.0)


#: Groups of three digits between equal signs, then perhaps a decimal part after another sign; and other numbers.
_GROUPS = r"\d{1,3}(?P<sign>[,.'’\u00a0\u202f])\d{3}(?:(?P=sign)\d{3})*(?:(?!(?P=sign))[.,]\d+)?"
_SPACED = r"\d{1,3}(?: \d{3})+[.,]\d+"  # without a decimal part it may be a telephone number
_PLAIN = r"\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?"
_MEASURE = re.compile(rf"([+-]?)\s*([$€£¥₹]?)\s*([+-]?)({_GROUPS}|{_SPACED}|{_PLAIN})\s*([^\d,;|:]{{0,20}})")
_EITHER = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")  # 1,234 is a thousand, or one and a bit
_LARGEST = 1e30  # Larger ones are codes of something
_CODE = re.compile(r"0\d")  # 007 is a code, not a number
#: Units of so many rows get features, and a column has at most so many of them. Few distinct cells are categories.
_LEAST_ROWS, _MOST_UNITS, _LEAST_VALUES = 5, 20, 10


class MeasureColumn(FittedColumn):
    """Numbers with units: for each unit the standardised number, and whether it is the unit of the cell.

    ``1,200 km``, ``3.5kg``, ``$5``, ``7 %`` and numbers written as text are read; one with no unit has the unit "".
    ``decimal`` is the decimal sign of the column; it says what ``1.234`` is. A plural is the unit that it is the plural
    of. A number far outside the range of its unit is cut at 5 standard deviations. Gaps, and cells without a known
    unit, are all zeros.
    """

    key, kinds = "measures", (MEASURE,)
    stored = ("units", "means", "spreads", "decimal")
    decimal = "."

    def fit(self, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Find the units, and mean and spread of their numbers; None if the cells are no numbers with units."""
        words = [word for word in as_words(column) if word is not None]
        if len(set(words)) < _LEAST_VALUES or any(_CODE.match(word) for word in words):
            return None
        self.decimal = _find_decimal_sign([cell[4] for cell in map(_MEASURE.fullmatch, words) if cell is not None])
        read = [found for found in self._read(column) if found is not None]
        counts = Counter(unit for _, unit in read)
        for unit in [unit for unit in counts if unit + "s" in counts]:
            counts[unit] += counts.pop(unit + "s")
        frequent = [unit for unit, n in counts.most_common() if n >= _LEAST_ROWS]
        if not 0 < len(frequent) <= _MOST_UNITS or sum(counts[unit] for unit in frequent) < READABLE * len(words):
            return None
        self.units = frequent
        placed = [(self._place(unit), number) for number, unit in read]
        numbers = [[number for place, number in placed if place == j] for j in range(len(frequent))]
        self.means = [float(np.mean(found)) for found in numbers]
        self.spreads = [float(np.std(found)) or 1.0 for found in numbers]
        return self

    @property
    def n_features(self) -> int:
        """Two for each unit."""
        return 2 * len(self.units)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return the numbers of each unit, then which unit it is."""
        values = np.zeros((len(column), 2, len(self.units)))
        strange, missing = np.zeros(len(column), dtype=bool), np.array([word is None for word in as_words(column)])
        for row, found in enumerate(self._read(column)):
            place = None if found is None else self._place(found[1])
            if found is None or place is None:
                strange[row] = not missing[row]
                continue
            values[row, :, place] = (found[0] - self.means[place]) / self.spreads[place], 1.0
        tally.count(self.name, missing, "missing, taken as no number")
        tally.count(self.name, strange, "no number with a unit that training saw, taken as gaps")
        return np.clip(values, -5.0, 5.0).reshape(len(column), -1).astype(np.float32)

    def describe(self) -> str:
        """Return the units."""
        commas = ", with decimal commas" if self.decimal == "," else ""
        if self.units == [""]:
            return f"number written as text{commas} → 2 features (number, whether there is one)"
        units = ", ".join(unit or "none" for unit in self.units)
        return f"number with unit: {units}{commas} → {self.n_features} features (number for each unit, which unit)"

    def _read(self, column: "pd.Series[Any]") -> list[tuple[float, str] | None]:
        """Return number and unit of each cell. Numbers that are no text have no decimal sign to mistake."""
        signs = ["." if isinstance(cell, float) else self.decimal for cell in column]
        words = zip(as_words(column), signs, strict=True)
        return [None if word is None else _measure(word, sign) for word, sign in words]

    def _place(self, unit: str) -> int | None:
        ways = (unit, unit.removesuffix("s"), unit + "s")
        return next((self.units.index(way) for way in ways if way in self.units), None)


def _measure(word: str, decimal: str) -> tuple[float, str] | None:
    """Return number and unit of a cell, or None."""
    found = _MEASURE.fullmatch(word)
    if found is None:
        return None
    before, currency, after, digits, _, unit = found.groups()
    if before and after:
        return None
    number = _number(before + after + digits, decimal if _EITHER.fullmatch(digits) else _decimal_sign(digits))
    return (number, (currency + unit.strip()).casefold()) if abs(number) <= _LARGEST else None


def _number(digits: str, decimal: str) -> float:
    return float(re.sub(rf"[^\d{decimal}eE+-]", "", digits).replace(",", "."))


def _find_decimal_sign(numbers: list[str]) -> str:
    """Return the decimal sign that most numbers show; if none does, the one with which they are more alike.

    916 goes with 1.441 as a thousand, 3 goes with 1.441 as one and a bit.
    """
    signs = Counter(map(_decimal_sign, numbers))
    if signs["."] or signs[","]:
        return "," if signs[","] > signs["."] else "."
    if not any(map(_EITHER.fullmatch, numbers)):
        return "."
    spreads = {}
    for sign in ".,":
        values = np.clip([_number(number, sign) for number in numbers], 1e-9, _LARGEST)
        spreads[sign] = float(np.std(np.log(values)))
    return "," if spreads[","] < spreads["."] - 1e-9 else "."


def _decimal_sign(digits: str) -> str:
    """Return the decimal sign of a number, "" if it does not show."""
    if _EITHER.fullmatch(digits):
        return ""
    dots, commas = digits.count("."), digits.count(",")
    if dots and commas:
        return max(".,", key=digits.rindex)
    if dots + commas == 1:
        return "." if dots else ","
    return "" if dots == commas else "," if dots else "."  # 1.234.567
