"""Features and tags in the one form that the checks work with."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos.doctor.diagnosis import listed
from onepos.table import ColumnEncoder
from onepos.table.choice import Choice, judge
from onepos.table.kinds import BOOLEAN, CATEGORY, NUMBER, OTHER, TEXT, as_numbers, kind_of
from onepos.table.measures import DateColumn


@dataclass(frozen=True, eq=False)
class Column:
    """A column, read once.

    Attributes
    ----------
    name : hashable
    kind : str
        As in ``onepos.table``. "text" is also prose that was not named as text.
    choice : Choice
        What ``fit`` would make of it.
    codes : int64 array of shape (n_rows,)
        Place of each entry in ``distinct``; −1 where missing.
    distinct : object array
        Distinct values in the order in which they occur.
    values : float64 array of shape (n_rows,), or None
        Numbers, for numbers, yes/no and dates (days); NaN where missing.
    """

    name: Hashable
    kind: str
    choice: Choice
    codes: NDArray[np.int64]
    distinct: NDArray[Any]
    values: NDArray[np.float64] | None

    @property
    def missing(self) -> int:
        """Number of missing entries."""
        return int((self.codes < 0).sum())

    @property
    def whole(self) -> bool:
        """Whether all its numbers are finite whole numbers, and there is one."""
        if self.kind != NUMBER or self.values is None:
            return False
        present = self.values[self.codes >= 0]
        return bool(present.size and np.isfinite(present).all() and (present == np.floor(present)).all())


def read_column(name: Hashable, series: "pd.Series[Any]", wanted: ColumnEncoder | None = None) -> Column:
    """Read one column of a frame; ``wanted`` has the settings of ``fit``.

    Examples
    --------
    >>> column = read_column("size", pd.Series([3, None, 3]))
    >>> column.kind, column.codes.tolist(), column.missing
    ('number', [0, -1, 0], 1)
    """
    choice, kind = judge(series, wanted or ColumnEncoder()), kind_of(series)
    if kind in (TEXT, CATEGORY) and choice.kind not in ("", TEXT):
        kind = kind if choice.kind == CATEGORY else choice.kind  # prose is text, even if fit takes it as categories
    values = choice.part.days(series) if isinstance(choice.part, DateColumn) else None
    if kind in (NUMBER, BOOLEAN):
        values = _numbers(series, boolean=kind == BOOLEAN)
        if values is None:
            kind, choice = OTHER, Choice(reason="holds numbers that are too large")
    codes, distinct = factorize(pd.Series(values) if kind == BOOLEAN else series)
    return Column(name, kind, choice, codes, distinct, values)


def factorize(series: "pd.Series[Any]") -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the code of each entry (−1: missing) and the distinct values in the order in which they occur."""
    try:
        codes, found = pd.factorize(series)
    except TypeError:  # lists, arrays, dicts: compared by what they look like
        seen = [None if _is_missing(entry) else str(entry) for entry in series]
        codes, found = pd.factorize(pd.Series(seen, dtype=object))
    distinct = np.empty(len(found), dtype=object)
    distinct[:] = list(found)
    return np.asarray(codes, dtype=np.int64), distinct


def _is_missing(entry: object) -> bool:
    return entry is None or entry is pd.NA or entry is pd.NaT or (isinstance(entry, float) and entry != entry)


def _numbers(series: "pd.Series[Any]", *, boolean: bool) -> NDArray[np.float64] | None:
    """Return the column in float64, NaN where missing; None if some number does not fit."""
    try:
        if boolean or series.dtype.kind == "m":
            return as_numbers(series, str(series.name), boolean=boolean)
        with np.errstate(all="ignore"):
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True, eq=False)
class Table:
    """Features, read once.

    Attributes
    ----------
    n_rows, names : int, list
    columns, texts : tuple and list of Column
        All columns (none of a sparse matrix, whose columns are looked at together), and those named as text.
    frame, matrix : DataFrame or None, CSR array or None
        The data. Column j of the frame is named ``str(j)``.
    named : bool
        Whether the names are the user's, not 0 … d−1.
    """

    n_rows: int
    names: list[Hashable]
    columns: tuple[Column, ...]
    frame: Any
    matrix: Any
    texts: list[Column]
    named: bool

    @property
    def kinds(self) -> list[str]:
        """Return the kind of every column."""
        return ["sparse"] * len(self.names) if self.matrix is not None else [column.kind for column in self.columns]

    def empty_rows(self) -> NDArray[np.bool_]:
        """Return the rows in which every entry is zero, missing or a blank string."""
        if self.matrix is not None:
            return np.asarray(np.diff(self.matrix.indptr) == 0)
        empty = np.ones(self.n_rows, dtype=np.bool_)
        for column in self.columns:
            if column.values is not None:
                empty &= (column.values == 0) | (column.codes < 0)
            else:
                blank = [isinstance(v, str) and not v.strip() for v in column.distinct]
                empty &= np.array([*blank, True], dtype=np.bool_)[column.codes]  # the last entry is that of −1, missing
        return empty


def read_table(features: Any, text: Any = None, role: str = "features") -> Table:
    """Read a DataFrame, a Series, an array or a sparse matrix; ``ValueError`` says what does not fit."""
    if sparse.issparse(features):
        return _read_sparse(features, text, role)
    named = isinstance(features, pd.DataFrame | pd.Series)
    frame = features.to_frame() if isinstance(features, pd.Series) else features
    if not isinstance(frame, pd.DataFrame):
        frame = _frame_of(frame, role)
    names: list[Hashable] = list(frame.columns)
    _check_shape(frame.shape, role)
    _check_distinct(names, f"the columns of {role} must have distinct names")
    texts = text if isinstance(text, list) else [] if text is None else [text]
    for one in texts:
        if one not in names:
            raise ValueError(f"text={one!r} is not a column of {role}; the columns are {listed(names)}.")
    dense = [np.asarray(one) if isinstance(one.dtype, pd.SparseDtype) else one for _, one in frame.items()]
    frame = pd.DataFrame({str(j): one for j, one in enumerate(dense)}, index=frame.index)
    wanted = ColumnEncoder(text=[str(names.index(one)) for one in texts])
    columns = tuple(read_column(name, frame[str(j)], wanted) for j, name in enumerate(names))
    return Table(len(frame), names, columns, frame, None, [columns[names.index(one)] for one in texts], named)


def _frame_of(features: Any, role: str) -> pd.DataFrame:
    try:
        array = np.asarray(features)
    except ValueError as error:  # rows of different length
        raise ValueError(f"{role} must be a table with rows of one length; got {type(features).__name__}.") from error
    if array.ndim != 2:
        raise ValueError(f"{role} must be a DataFrame, a 2-D array or a sparse matrix; got shape {array.shape}.")
    return pd.DataFrame(array)


def _read_sparse(features: Any, text: Any, role: str) -> Table:
    if text is not None:
        raise ValueError(f"text={text!r} needs {role} to be a DataFrame with that column; got a sparse matrix.")
    _check_shape(features.shape, role)
    matrix = sparse.csr_array(features)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{role} must hold real numbers; got a sparse matrix of {matrix.dtype}.")
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return Table(matrix.shape[0], list(range(matrix.shape[1])), (), None, matrix, [], named=False)


def _check_distinct(names: list[Hashable], rule: str) -> None:
    doubles = [name for name, count in Counter(names).items() if count > 1]
    if doubles:
        raise ValueError(f"{rule}; repeated: {listed(doubles)}. Rename them.")


def _check_shape(shape: tuple[int, ...], role: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{role} must have at least one row and one column; got shape {tuple(shape)}.")


@dataclass(frozen=True, eq=False)
class Tags:
    """Observed labels, read once.

    Attributes
    ----------
    names : object array of shape (n_labels,)
    codes : int64 array of shape (n_rows,)
        The label of a row that has exactly one; −1 for other rows.
    per_row : int64 array of shape (n_rows,)
        Number of observed labels.
    counts : int64 array of shape (n_labels,)
        Rows in which each label is observed.
    indicator : bool
        Whether an indicator came, so that labels may be known without being observed.
    """

    names: NDArray[Any]
    codes: NDArray[np.int64]
    per_row: NDArray[np.int64]
    counts: NDArray[np.int64]
    indicator: bool

    @property
    def single(self) -> NDArray[np.bool_]:
        """Return the rows with exactly one observed label."""
        return self.codes >= 0


def read_tags(tags: Any, n_rows: int, role: str = "tags") -> Tags:
    """Read one tag per row (missing allowed) or an indicator; ``ValueError`` says what does not fit."""
    if tags is None:
        raise ValueError(f"{role} is None: pass one tag per row, or an indicator of 1, 0 and −1.")
    if isinstance(tags, pd.DataFrame) and tags.shape[1] == 1:
        tags = tags.iloc[:, 0]
    values = tags if isinstance(tags, pd.Series | pd.DataFrame) or sparse.issparse(tags) else _array(tags)
    if values.ndim not in (1, 2):
        raise ValueError(f"{role} must be 1-D (one tag per row) or 2-D (an indicator); got shape {values.shape}.")
    if values.shape[0] != n_rows:
        raise ValueError(f"features have {n_rows} rows, {role} {values.shape[0]}: they must be of the same rows.")
    if values.ndim == 2 and values.shape[1] == 1 and not sparse.issparse(values):
        values = values[:, 0]
    return _from_vector(values) if values.ndim == 1 else _from_indicator(values, role)


def _array(tags: Any) -> NDArray[Any]:
    if isinstance(tags, np.ndarray):
        return tags
    entries = list(tags) if hasattr(tags, "__iter__") else None
    if entries is None:
        raise ValueError(f"tags must be a column or an indicator; got {type(tags).__name__}.")
    if any(isinstance(entry, list | tuple | np.ndarray) for entry in entries):
        try:
            return np.asarray(entries)
        except ValueError as error:
            raise ValueError("tags must be one tag per row or an indicator with rows of one length.") from error
    vector = np.empty(len(entries), dtype=object)  # np.asarray would turn 1 and "a" both into strings
    vector[:] = entries
    return vector


def _from_vector(values: Any) -> Tags:
    series = values if isinstance(values, pd.Series) else pd.Series(values)
    codes, distinct = factorize(series)
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct)).astype(np.int64)
    return Tags(distinct, codes, (codes >= 0).astype(np.int64), counts, indicator=False)


def _from_indicator(values: Any, role: str) -> Tags:
    names: list[Hashable] = list(values.columns) if isinstance(values, pd.DataFrame) else list(range(values.shape[1]))
    if not names:
        raise ValueError(f"{role} must have at least one label; got shape {values.shape}.")
    _check_distinct(names, f"the labels (columns of {role}) must be distinct")
    dense = values.toarray() if sparse.issparse(values) else np.asarray(values)
    try:
        numbers = dense.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"an indicator holds 1, 0 and −1 only; {role} hold {dense.dtype}.") from error
    bad = ~np.isin(numbers, (-1.0, 0.0, 1.0))
    if bad.any():
        raise ValueError(f"an indicator holds 1, 0 and −1 only; {role} hold {numbers[bad][0]}. Write unknown as 0.")
    observed = numbers > 0
    per_row = observed.sum(axis=1).astype(np.int64)
    codes = np.where(per_row == 1, observed.argmax(axis=1), -1).astype(np.int64)
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    return Tags(labels, codes, per_row, observed.sum(axis=0).astype(np.int64), indicator=True)
