"""Columns of dates and times as features."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils import storage
from onepos.table.columns import FittedColumn
from onepos.table.kinds import DATE, READABLE, Tally, as_words, holds_dates

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder

_LOOKED_AT = 100  # Words by which the next format of dates is chosen
_NAMED_MONTHS = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y")
_DAYS = (*_NAMED_MONTHS, "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y")
#: Formats of dates that are tried. pandas' own guess knows no AM and PM, and takes "May" for a full name.
FORMATS = ("ISO8601", *(day + time for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p")))
#: 3/4/2020 is a day in March or in April: a column has one of these orders, that of more cells.
_ORDERS = {"%m/%d": "month/day/year", "%d/%m": "day/month/year"}
#: A number alone is not a date. It may be a year or a count.
_DATE_LIKE = re.compile(r"\d[-/., ]\d|\d[- ][A-Za-z]{3,}[- ]\d|[A-Za-z]{3,} \d")
_CYCLE = 0.3  # Month and weekday weigh less than the place in the range: many tables have no seasons


@dataclass(kw_only=True, eq=False)
class DateColumn(FittedColumn):
    """Dates and times: place in the range of training, standardised, and month and weekday as points of a circle.

    Times without a zone are taken as UTC. A date outside the range of training counts as the nearest date inside it. A
    gap is all zeros. Up to a tenth of the cells may be unreadable; they count as gaps.
    """

    kinds = (DATE,)
    n_features = 5
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
        formats = ["ISO8601"] if holds_dates(column) else _find_formats(as_words(column))
        days, missing = days_of(column, formats)
        known = days[~np.isnan(days)]
        if len(known) < max(1.0, READABLE * (~missing).sum()) or known.min() == known.max():
            return None
        first, last = float(known.min()), float(known.max())
        return cls(
            name=str(column.name),
            formats=formats,
            first=first,
            last=last,
            mean=float(known.mean()),
            spread=float(known.std()),
        )

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return the place, then sine and cosine of month and weekday."""
        days, missing = days_of(column, self.formats)
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
        return days_of(column, self.formats)[0]


def days_of(column: "pd.Series[Any]", formats: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return days since 1970, NaN where there is no date in one of the formats; and which cells are empty."""
    if holds_dates(column):
        return _parsed(column, None), column.isna().to_numpy(dtype=bool)
    codes, words = pd.factorize(as_words(column))
    days = np.full(len(words) + 1, np.nan)  # the last one is that of gaps
    for way in formats:
        unread = np.flatnonzero(np.isnan(days[:-1]))
        days[unread] = _parsed(pd.Series(words[unread], dtype=object), way)
    return days[codes], codes < 0


def _find_formats(cells: NDArray[Any]) -> list[str]:
    """Return the formats of the cells, the most frequent one first; empty if the cells are no dates."""
    words = pd.Series(pd.unique(cells), dtype=object).dropna()
    if sum(bool(_DATE_LIKE.search(word)) for word in words) < READABLE * len(words):
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
    dates = pd.to_datetime(column, format=way, errors="coerce", utc=True).dt.tz_localize(None)
    seconds = dates.to_numpy(dtype="datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / 86_400.0)
