"""What every reader returns: features, labels and their names, in one checked form."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onepos._typing import MatrixLike
from onepos.datasets._sparse import csr, is_sparse, stack_rows, to_dense
from onepos.exceptions import DataFileError


@dataclass(frozen=True, eq=False)
class Table:
    """A multi-label data file in memory.

    Attributes
    ----------
    X : float32 ndarray or CSR array of shape (n_samples, n_features)
        Missing values are NaN: a reader reports what the file says and imputes nothing.
    Y : uint8 ndarray of shape (n_samples, n_labels)
        1 relevant, 0 not relevant (or unknown, where the file is single-positive).
    feature_names : tuple of str, length n_features
    label_names : tuple of str, length n_labels
    """

    X: MatrixLike
    Y: NDArray[np.uint8]
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.X.shape[0] != self.Y.shape[0]:
            raise DataFileError(
                f"features and labels must have the same number of rows; got X {self.X.shape} and Y "
                f"{self.Y.shape}. Check the orientation of both in the file."
            )
        if (self.X.shape[1], self.Y.shape[1]) != (len(self.feature_names), len(self.label_names)):
            raise DataFileError(
                f"one name per column expected; got {len(self.feature_names)} feature names for "
                f"{self.X.shape[1]} columns and {len(self.label_names)} label names for {self.Y.shape[1]}."
            )
        if 0 in self.Y.shape or self.X.shape[1] == 0:
            raise DataFileError(
                f"a data file needs at least one row, one feature and one label; got X {self.X.shape} and "
                f"Y {self.Y.shape}. Check the file and which of its columns are the labels."
            )


def stack(tables: Sequence[Table]) -> Table:
    """Put tables with the same columns below each other, in the order given."""
    first = tables[0]
    for other in tables[1:]:
        if (other.feature_names, other.label_names) != (first.feature_names, first.label_names):
            raise DataFileError("files to be stacked must have the same columns in the same order; these differ.")
    if len(tables) == 1:
        return first
    X = stack_rows([table.X for table in tables])
    Y = np.concatenate([table.Y for table in tables])
    return Table(X, Y, first.feature_names, first.label_names)


def as_features(values: MatrixLike) -> MatrixLike:
    """Convert to what ``Table.X`` holds: a C-ordered float32 ndarray, or a float32 CSR array."""
    try:
        with np.errstate(over="raise"):
            if is_sparse(values):
                return csr(values, dtype=np.float32)
            return np.ascontiguousarray(values, dtype=np.float32)
    except FloatingPointError as error:
        raise DataFileError(
            "a feature value is too large for a 32-bit number (above 3.4e38). Rescale the column, or check "
            "that the file is intact."
        ) from error


def as_indicator(values: MatrixLike, path: Path, what: str) -> NDArray[np.uint8]:
    """Convert labels written as 0/1 or −1/1 to uint8: positive means relevant.

    Parameters
    ----------
    values : ndarray or sparse matrix of shape (n_samples, n_labels)
    path : Path
        The file, for the message.
    what : str
        What the values are called in the file, for the message.
    """
    dense = to_dense(values)
    if dense.dtype.kind not in "biuf":
        raise DataFileError(f"{path.name}: {what} must be numbers 0/1 or -1/1; got dtype {dense.dtype}.")
    # A comparison with NaN is False, so a missing label is reported here and never read as "absent".
    legal = (dense == 0) | (dense == 1) | (dense == -1)
    if not legal.all():
        row, column = (int(i) for i in np.argwhere(~legal)[0])
        raise DataFileError(
            f"{path.name}: {what} must be 0/1 or -1/1; got {dense[row, column]!s} in row {row}, "
            f"label {column}. Check that these are the label columns."
        )
    return (dense > 0).astype(np.uint8)


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    """Names for the columns of a file that has none: ``prefix0 … prefix{count-1}``."""
    return tuple(f"{prefix}{i}" for i in range(count))
