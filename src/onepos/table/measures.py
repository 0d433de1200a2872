"""Columns of numbers with units as features."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils import storage
from onepos.table.columns import FittedColumn
from onepos.table.kinds import MEASURE, READABLE, Tally, Words, words_of

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder

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


@dataclass(kw_only=True, eq=False)
class MeasureColumn(FittedColumn):
    """Numbers with units: for each unit the standardised number, and whether it is the unit of the cell.

    ``1,200 km``, ``3.5kg``, ``$5``, ``7 %`` and numbers written as text are read; one with no unit has the unit "".
    ``decimal`` is the decimal sign of the column; it says what ``1.234`` is. The plural of a unit of two letters or
    more is the same unit. A number far outside the range of its unit is cut at 5 standard deviations. Gaps, and cells
    without a known unit, are all zeros.
    """

    kinds = (MEASURE,)
    _stored: ClassVar[storage.Rules] = {
        "units": storage.List(storage.TEXT, "units"),
        "means": storage.List(storage.FINITE, "units"),
        "spreads": storage.List(storage.POSITIVE, "units"),
        "decimal": storage.one_of(".", ","),
    }
    units: list[str]
    means: list[float]
    spreads: list[float]
    decimal: str

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Find the units, and mean and spread of their numbers; None if the cells are no numbers with units."""
        words = words_of(column)
        if len(words.distinct) < _LEAST_VALUES or any(map(_CODE.match, words.distinct)):
            return None
        cells = list(zip(map(_MEASURE.fullmatch, words.distinct), words.counts.tolist(), strict=True))
        if sum(n for cell, n in cells if cell is not None) < READABLE * words.counts.sum():
            return None
        decimal = _find_decimal_sign([cell[4] for cell, n in cells if cell is not None for _ in range(n)])
        measures = _read(words, decimal)
        seen = {measure[1] for measure in measures if measure is not None}
        numbers: dict[str, list[float]] = {}
        for measure, (_, n) in zip(measures, cells, strict=True):
            if measure is not None:
                number, unit = measure
                numbers.setdefault(_singular(unit) if _singular(unit) in seen else unit, []).extend([number] * n)
        numbers = {unit: values for unit, values in numbers.items() if len(values) >= _LEAST_ROWS}
        units = sorted(numbers, key=lambda unit: -len(numbers[unit]))
        if not 0 < len(units) <= _MOST_UNITS or sum(map(len, numbers.values())) < READABLE * words.counts.sum():
            return None
        means = [float(np.mean(numbers[unit])) for unit in units]
        spreads = [float(np.std(numbers[unit])) or 1.0 for unit in units]
        return cls(name=str(column.name), units=units, means=means, spreads=spreads, decimal=decimal)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return the numbers of each unit, then which unit it is."""
        words = words_of(column)
        values = np.zeros((len(words.distinct) + 1, 2, len(self.units)))  # the last one is that of gaps
        strange = np.ones(len(words.distinct), dtype=bool)
        for row, measure in enumerate(_read(words, self.decimal)):
            place = None if measure is None else _place(measure[1], self.units)
            if measure is not None and place is not None:
                values[row, :, place] = (measure[0] - self.means[place]) / self.spreads[place], 1.0
                strange[row] = False
        tally.count(self.name, words.missing, "missing, taken as no number")
        tally.count(self.name, words.rows(strange, False), "no number with a unit that training saw, taken as gaps")
        return np.clip(values, -5.0, 5.0).reshape(len(values), -1).astype(np.float32)[words.codes]

    def describe(self) -> str:
        """Return the units."""
        commas = ", with decimal commas" if self.decimal == "," else ""
        if self.units == [""]:
            return f"number written as text{commas} → 2 features (number, whether there is one)"
        units = ", ".join(unit or "none" for unit in self.units)
        return f"number with unit: {units}{commas} → {self.n_features} features (number for each unit, which unit)"


def _read(words: Words, decimal: str) -> list[tuple[float, str] | None]:
    """Return number and unit of each distinct word. Only texts have a decimal sign to mistake."""
    signs = [decimal if issubclass(kind, str) else "." for kind in words.types]
    return list(map(_measure, words.distinct, signs))


def _singular(unit: str) -> str:
    """Return a unit without the s of a plural; ms is none of m."""
    return unit[:-1] if unit.endswith("s") and len(unit) > 2 else unit


def _place(unit: str, units: list[str]) -> int | None:
    ways = (unit, _singular(unit), unit + "s" if len(unit) > 1 else unit)
    return next((units.index(way) for way in ways if way in units), None)


def _measure(word: str, decimal: str) -> tuple[float, str] | None:
    """Return number and unit of a cell, or None."""
    match = _MEASURE.fullmatch(word)
    if match is None:
        return None
    before, currency, after, digits, _, unit = match.groups()
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
    logarithms = {sign: np.log(np.clip([_number(number, sign) for number in numbers], 1e-9, _LARGEST)) for sign in ".,"}
    return "," if np.std(logarithms[","]) < np.std(logarithms["."]) - 1e-9 else "."


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
