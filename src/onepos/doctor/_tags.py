"""Observed labels in the one form that the checks work with."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos.doctor._column import read_column
from onepos.doctor.codes import listed
from onepos.doctor.diagnosis import repeated


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
    column = read_column("tags", series)
    per_row = (column.codes >= 0).astype(np.int64)
    return Tags(column.distinct, column.codes, per_row, column.counts, indicator=False)


def _from_indicator(values: Any, role: str) -> Tags:
    names: list[Hashable] = list(values.columns) if isinstance(values, pd.DataFrame) else list(range(values.shape[1]))
    if not names:
        raise ValueError(f"{role} must have at least one label; got shape {values.shape}.")
    doubles = repeated(names)
    if doubles:
        raise ValueError(f"the labels (columns of {role}) must be distinct; repeated: {listed(doubles)}. Rename them.")
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
