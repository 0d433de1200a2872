"""One column of a table: its kind, its distinct values, and its numbers if it has any."""

from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: Strings with at least this many words on average are prose, not names of categories.
PROSE_WORDS = 3.0


@dataclass(frozen=True, eq=False)
class Column:
    """A column, read once.

    Attributes
    ----------
    name : hashable
    kind : str
        "numeric", "boolean", "datetime", "categorical", "text" (prose) or "other" (lists, complex numbers, a mixture).
    codes : int64 array of shape (n_rows,)
        Place of each entry in ``distinct``; −1 where missing.
    distinct : object array
        Distinct values in the order in which they occur.
    values : float64 array of shape (n_rows,), or None
        Numbers, for the first three kinds; NaN where missing.
    """

    name: Hashable
    kind: str
    codes: NDArray[np.int64]
    distinct: NDArray[Any]
    values: NDArray[np.float64] | None

    @property
    def missing(self) -> int:
        """Number of missing entries."""
        return int((self.codes < 0).sum())

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each distinct value occurs."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct)).astype(np.int64)

    @property
    def whole(self) -> bool:
        """Whether all its numbers are finite whole numbers, and there is one."""
        if self.kind != "numeric" or self.values is None:
            return False
        present = self.values[self.codes >= 0]
        return bool(present.size and np.isfinite(present).all() and (present == np.floor(present)).all())

    @property
    def binary(self) -> bool:
        """Whether it holds nothing but zeros and ones, and both."""
        return self.values is not None and len(self.distinct) == 2 and set(self.distinct) == {0, 1}


def read_column(name: Hashable, series: "pd.Series[Any]") -> Column:
    """Read one column of a frame.

    Examples
    --------
    >>> column = read_column("size", pd.Series([3, None, 3]))
    >>> column.kind, column.codes.tolist(), column.missing
    ('numeric', [0, -1, 0], 1)
    """
    if isinstance(series.dtype, pd.SparseDtype):
        series = pd.Series(np.asarray(series))
    try:
        codes, distinct = _factorize(series)
        kind = _kind(series, distinct)
    except TypeError:  # lists, arrays, dicts: compared by what they look like
        seen = [None if _is_missing(entry) else str(entry) for entry in series]
        codes, distinct = _factorize(pd.Series(seen, dtype=object))
        kind = "other"
    values = _numbers(series) if kind in ("numeric", "boolean", "datetime") else None
    if values is None and kind in ("numeric", "boolean", "datetime"):
        kind = "other"
    if kind == "boolean":
        distinct = distinct.astype(float).astype(object)
    return Column(name, kind, codes, distinct, values)


def _factorize(series: "pd.Series[Any]") -> tuple[NDArray[np.int64], NDArray[Any]]:
    codes, found = pd.factorize(series)
    distinct = np.empty(len(found), dtype=object)
    distinct[:] = list(found)
    return np.asarray(codes, dtype=np.int64), distinct


def _is_missing(entry: object) -> bool:
    return entry is None or entry is pd.NA or entry is pd.NaT or (isinstance(entry, float) and entry != entry)


def _kind(series: "pd.Series[Any]", distinct: NDArray[Any]) -> str:
    dtype = series.dtype
    if pd.api.types.is_bool_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return "boolean"
    if pd.api.types.is_complex_dtype(dtype):
        return "other"
    if pd.api.types.is_numeric_dtype(dtype):
        return "numeric"
    if pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return "datetime"
    if isinstance(dtype, pd.CategoricalDtype):
        return "categorical"
    if all(isinstance(value, str) for value in distinct):
        return "text" if len(distinct) and mean_words(distinct) >= PROSE_WORDS else "categorical"
    if all(isinstance(value, bool | np.bool_) for value in distinct):
        return "boolean"
    if all(isinstance(value, Real) and not isinstance(value, bool | np.bool_) for value in distinct):
        return "numeric"
    return "other"


def mean_words(texts: NDArray[Any]) -> float:
    """Mean number of words over up to 1,000 texts, evenly spread."""
    step = max(1, len(texts) // 1000)
    return float(np.mean([len(text.split()) for text in texts[::step]]))


def _numbers(series: "pd.Series[Any]") -> NDArray[np.float64] | None:
    """Return the column in float64, NaN where missing; None if some number does not fit."""
    if series.dtype.kind in "mM":
        values = np.full(len(series), np.nan)
        values[series.notna().to_numpy()] = series.dropna().astype("int64").to_numpy()
        return values
    try:
        with np.errstate(all="ignore"):
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
