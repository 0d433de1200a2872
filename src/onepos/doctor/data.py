"""Features and tags in the one form that the checks work with."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos.doctor.diagnosis import listed
from onepos.table import ColumnEncoder
from onepos.table.columns import DURATIONS, FLAGS, DateColumn, as_numbers
from onepos.table.judge import ColumnChoice, judge, kind_of
from onepos.table.kinds import BOOLEAN, CATEGORY, NUMBER, OTHER, TEXT, WRITTEN, is_suggestion


@dataclass(frozen=True, eq=False)
class Column:
    """A column, read once; ``kind`` is as in ``onepos.table``, but "text" is also prose that was not named as text."""

    name: Hashable
    kind: str
    choice: ColumnChoice  # What ``fit`` would make of it.
    codes: NDArray[np.int64]  # Place of each entry in ``distinct``; −1 where missing.
    distinct: NDArray[Any]  # Distinct values in the order in which they occur.
    #: Numbers, for numbers, yes/no and dates (days); NaN where missing. None for other kinds.
    values: NDArray[np.float64] | None

    @property
    def missing(self) -> int:
        """Number of missing entries."""
        return int((self.codes < 0).sum())


def read_column(name: Hashable, series: "pd.Series[Any]", wanted: ColumnEncoder | None = None) -> Column:
    """Read one column of a frame; ``wanted`` has the settings of ``fit``."""
    wanted, kind = wanted or ColumnEncoder(), kind_of(series)
    # The series has a number as its name.
    written = str(series.name) not in wanted.text and is_suggestion(str(name), series)
    choice = ColumnChoice(reason=WRITTEN) if written else judge(series, wanted)
    if kind in (TEXT, CATEGORY) and choice.kind not in ("", TEXT):
        kind = kind if choice.kind == CATEGORY else choice.kind  # prose is text, even if fit takes it as categories
    values = choice.part.days(series) if isinstance(choice.part, DateColumn) else None
    if kind in (NUMBER, BOOLEAN):
        values = _numbers(series, boolean=kind == BOOLEAN)
        if values is None:
            kind, choice = OTHER, ColumnChoice(reason="holds numbers that are too large")
    codes, distinct = factorize(pd.Series(values) if kind == BOOLEAN else series)
    return Column(name, kind, choice, codes, distinct, values)


def factorize(series: "pd.Series[Any]") -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the code of each entry (−1: missing) and the distinct values in the order in which they occur."""
    try:
        codes, distinct = pd.factorize(series)
    except TypeError:  # lists, arrays, dicts: compared by what they look like
        texts = [None if pd.api.types.is_scalar(entry) and pd.isna(entry) else str(entry) for entry in series]
        codes, distinct = pd.factorize(pd.Series(texts, dtype=object))
    return np.asarray(codes, dtype=np.int64), _objects(list(distinct))


def _objects(entries: list[Any]) -> NDArray[Any]:
    """Return a vector of the entries as they are: np.asarray would turn 1 and "a" both into strings."""
    vector = np.empty(len(entries), dtype=object)
    vector[:] = entries
    return vector


def _numbers(series: "pd.Series[Any]", *, boolean: bool) -> NDArray[np.float64] | None:
    """Return the column in float64, NaN where missing; None if some number does not fit."""
    try:
        if boolean or series.dtype.kind == "m":
            return as_numbers(series, FLAGS if boolean else DURATIONS)
        with np.errstate(all="ignore"):
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True, eq=False)
class Table:
    """Features, read once: a frame, or a sparse matrix."""

    n_rows: int
    names: list[Hashable]
    columns: tuple[Column, ...]  # None for a sparse matrix.
    frame: Any  # The frame, its columns named by their places; None for a sparse matrix.
    matrix: Any  # A CSR array, or None.
    texts: list[Column]  # The columns named as text.
    named: bool  # Whether the names are the user's, not 0 … d−1.

    def empty_rows(self) -> NDArray[np.bool_]:
        """Return the rows in which every entry is zero, missing or a blank string."""
        if self.matrix is not None:
            return np.asarray(np.diff(self.matrix.indptr) == 0)
        empty = np.ones(self.n_rows, dtype=np.bool_)
        for column in self.columns:
            if column.values is not None:
                empty &= (column.values == 0) | (column.codes < 0)
            else:
                blank = [isinstance(value, str) and not value.strip() for value in column.distinct]
                empty &= np.array([*blank, True], dtype=np.bool_)[column.codes]  # the last entry is that of −1, missing
        return empty


def read_table(features: Any, text: Any = None, role: str = "features") -> Table:
    """Read a DataFrame, a Series, an array or a sparse matrix; ``ValueError`` says what does not fit."""
    if sparse.issparse(features):
        return _read_sparse(features, text, role)
    named = isinstance(features, pd.DataFrame | pd.Series)
    frame = features.to_frame() if isinstance(features, pd.Series) else features
    if not named:
        frame = pd.DataFrame(_matrix(features, f"{role} must be a DataFrame, a 2-D array or a sparse matrix"))
    _check_shape(frame.shape, role)
    names = _distinct(frame.columns, f"the columns of {role} must have distinct names")
    texts = text if isinstance(text, list) else [] if text is None else [text]
    for one in texts:
        if one not in names:
            raise ValueError(f"text={one!r} is not a column of {role}; the columns are {listed(names)}.")
    dense = [np.asarray(one) if isinstance(one.dtype, pd.SparseDtype) else one for _, one in frame.items()]
    frame = pd.DataFrame({str(j): one for j, one in enumerate(dense)}, index=frame.index)
    wanted = ColumnEncoder(text=[str(names.index(one)) for one in texts])
    columns = tuple(read_column(name, frame[str(j)], wanted) for j, name in enumerate(names))
    return Table(len(frame), names, columns, frame, None, [columns[names.index(one)] for one in texts], named)


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


def _matrix(rows: Any, rule: str) -> NDArray[Any]:
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise ValueError(f"{rule}, with rows of one length; got {type(rows).__name__}.") from error
    if array.ndim != 2:
        raise ValueError(f"{rule}; got shape {array.shape}.")
    return array


def _distinct(names: Iterable[Hashable], rule: str) -> list[Hashable]:
    doubles = [name for name, count in Counter(names).items() if count > 1]
    if doubles:
        raise ValueError(f"{rule}; repeated: {listed(doubles)}. Rename them.")
    return list(names)


def _check_shape(shape: tuple[int, ...], role: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{role} must have at least one row and one column; got shape {tuple(shape)}.")


@dataclass(frozen=True, eq=False)
class Tags:
    """Observed labels, read once."""

    names: NDArray[Any]
    codes: NDArray[np.int64]  # The label of a row that has exactly one; −1 for other rows.
    per_row: NDArray[np.int64]  # Number of observed labels of each row.
    counts: NDArray[np.int64]  # Rows in which each label is observed.


def read_tags(tags: Any, n_rows: int, role: str = "tags") -> Tags:
    """Read one tag per row (missing allowed) or an indicator; ``ValueError`` says what does not fit."""
    if not hasattr(tags, "__iter__"):
        kind = type(tags).__name__
        raise ValueError(f"{role} is {tags!r:.40}: pass one tag per row, or an indicator of 1, 0 and −1; got {kind}.")
    if not isinstance(tags, pd.Series | pd.DataFrame | np.ndarray) and not sparse.issparse(tags):
        entries = list(tags)
        nested = any(isinstance(entry, list | tuple | np.ndarray) for entry in entries)
        tags = _matrix(entries, f"{role} must be one tag per row, or an indicator") if nested else _objects(entries)
    if tags.ndim not in (1, 2):
        raise ValueError(f"{role} must be 1-D (one tag per row) or 2-D (an indicator); got shape {tags.shape}.")
    if tags.shape[0] != n_rows:
        raise ValueError(f"features have {n_rows} rows, {role} {tags.shape[0]}: they must be of the same rows.")
    if tags.ndim == 2 and (tags.shape[1] != 1 or sparse.issparse(tags)):
        return _from_indicator(tags, role)
    column = pd.Series(tags.ravel()) if isinstance(tags, np.ndarray) else pd.DataFrame(tags).iloc[:, 0]
    codes, names = factorize(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).astype(np.int64)
    return Tags(names, codes, (codes >= 0).astype(np.int64), counts)


def _from_indicator(values: Any, role: str) -> Tags:
    columns = values.columns if isinstance(values, pd.DataFrame) else range(values.shape[1])
    names = _distinct(columns, f"the labels (columns of {role}) must be distinct")
    if not names:
        raise ValueError(f"{role} must have at least one label; got shape {values.shape}.")
    dense = values.toarray() if sparse.issparse(values) else np.asarray(values)
    try:
        numbers = dense.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"an indicator holds 1, 0 and −1 only; {role} hold {dense.dtype}.") from error
    bad = ~np.isin(numbers, (-1.0, 0.0, 1.0))
    if bad.any():
        raise ValueError(f"an indicator holds 1, 0 and −1 only; {role} hold {numbers[bad][0]}. Write unknown as 0.")
    observed = numbers > 0
    per_row = observed.sum(axis=1)
    codes = np.where(per_row == 1, observed.argmax(axis=1), -1)
    return Tags(_objects(names), codes, per_row, observed.sum(axis=0))
