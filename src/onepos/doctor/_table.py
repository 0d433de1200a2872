"""Features in the one form that the checks work with: columns of a frame, or a CSR matrix."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos.doctor._column import Column, read_column
from onepos.doctor._keys import code_keys, matrix_keys
from onepos.doctor.codes import listed
from onepos.doctor.diagnosis import repeated


@dataclass(frozen=True, eq=False)
class Table:
    """Features, read once.

    Attributes
    ----------
    n_rows : int
    names : list
        Names of all columns.
    columns : tuple of Column
        Empty for a sparse matrix, whose columns are looked at together.
    matrix : CSR array, or None
    text : hashable or None
        Name of the column that holds texts on purpose.
    named : bool
        Whether the names are the user's, not 0 … d−1.
    """

    n_rows: int
    names: list[Hashable]
    columns: tuple[Column, ...]
    matrix: Any
    text: Hashable | None
    named: bool

    @property
    def kinds(self) -> list[str]:
        """Return the kind of every column."""
        return ["sparse"] * len(self.names) if self.matrix is not None else [column.kind for column in self.columns]

    def row_keys(self) -> NDArray[np.uint64]:
        """Return one number per row: equal rows have equal keys."""
        if self.matrix is not None:
            return matrix_keys(self.matrix)
        return code_keys([column.codes for column in self.columns], self.n_rows)

    def empty_rows(self) -> NDArray[np.bool_]:
        """Return the rows in which every entry is zero, missing or a blank string."""
        if self.matrix is not None:
            return np.asarray(np.diff(self.matrix.indptr) == 0)
        empty = np.ones(self.n_rows, dtype=np.bool_)
        for column in self.columns:
            if column.values is not None:
                empty &= (column.values == 0) | (column.codes < 0)
            else:
                blank = np.array(
                    [isinstance(v, str) and not v.strip() for v in column.distinct] + [True], dtype=np.bool_
                )
                empty &= blank[column.codes]  # the last entry is that of −1, missing
        return empty


def read_table(features: Any, text: Hashable | None = None, role: str = "features") -> Table:
    """Read a DataFrame, a Series, an array or a sparse matrix; ``ValueError`` says what does not fit."""
    if sparse.issparse(features):
        return _read_sparse(features, text, role)
    named = isinstance(features, pd.DataFrame | pd.Series)
    frame = features.to_frame() if isinstance(features, pd.Series) else features
    if not isinstance(frame, pd.DataFrame):
        frame = _frame_of(frame, role)
    names: list[Hashable] = list(frame.columns)
    _check_shape(frame.shape, role)
    doubles = repeated(names)
    if doubles:
        raise ValueError(f"the columns of {role} must have distinct names; repeated: {listed(doubles)}. Rename them.")
    if text is not None and text not in names:
        raise ValueError(f"text={text!r} is not a column of {role}; the columns are {listed(names)}.")
    columns = tuple(read_column(name, frame.iloc[:, j]) for j, name in enumerate(names))
    return Table(len(frame), names, columns, None, text, named)


def _frame_of(features: Any, role: str) -> pd.DataFrame:
    try:
        array = np.asarray(features)
    except ValueError as error:  # rows of different length
        raise ValueError(f"{role} must be a table with rows of one length; got {type(features).__name__}.") from error
    if array.ndim != 2:
        raise ValueError(f"{role} must be a DataFrame, a 2-D array or a sparse matrix; got shape {array.shape}.")
    return pd.DataFrame(array)


def _read_sparse(features: Any, text: Hashable | None, role: str) -> Table:
    if text is not None:
        raise ValueError(f"text={text!r} needs {role} to be a DataFrame with that column; got a sparse matrix.")
    _check_shape(features.shape, role)
    matrix = sparse.csr_array(features)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{role} must hold real numbers; got a sparse matrix of {matrix.dtype}.")
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return Table(matrix.shape[0], list(range(matrix.shape[1])), (), matrix, None, named=False)


def _check_shape(shape: tuple[int, ...], role: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{role} must have at least one row and one column; got shape {tuple(shape)}.")
