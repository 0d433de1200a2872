"""What every reader returns, in one checked form, and the operations on dense or sparse matrices that it needs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.labels import check_distinct
from onepos._utils.validation import MatrixLike, csr, to_dense
from onepos.exceptions import DataFileError

_SURROGATE = re.compile("[\ud800-\udfff]")


def plausible_width(n_values: int) -> int:
    """Return how many columns a sparse matrix from a file may have: a few bytes can announce billions of empty ones."""
    return max(1 << 20, 1000 * n_values)


def checked_csr(data: Any, indices: Any, starts: Any, shape: tuple[int, int]) -> Any:
    """Build a CSR array from parts that come from a file; ValueError unless they are one.

    SciPy's compiled code trusts these arrays, and its own ``check_format`` touches them before it has looked at all of
    them: on a damaged file that overwrites memory. So they are checked here, first.
    """
    data, indices, starts = (np.array(part) for part in (data, indices, starts))  # own, aligned memory
    if not data.ndim == indices.ndim == starts.ndim == 1 or len(data) != len(indices):
        raise ValueError("values and indices differ in length")
    if data.dtype.kind not in "biuf" or indices.dtype.kind not in "iu" or starts.dtype.kind not in "iu":
        raise ValueError("values must be numbers, indices and starts whole numbers")
    indices, starts = indices.astype(np.int64), starts.astype(np.int64)
    if len(starts) != shape[0] + 1 or starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise ValueError("the starts of the rows do not fit the shape or the number of values")
    if not 0 <= shape[1] <= plausible_width(len(data)):
        raise ValueError(f"{shape[1]} columns are not plausible for {len(data)} values")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise ValueError("an index is outside the shape")
    return csr((data.astype(data.dtype.newbyteorder("=")), indices, starts), shape=shape)


def stack_matrices(blocks: Sequence[Any], *, axis: int) -> Any:
    """Put matrices below (axis 0) or beside each other (axis 1): CSR if the first is sparse, else an ndarray."""
    if not sparse.issparse(blocks[0]):
        return np.concatenate([to_dense(block) for block in blocks], axis=axis)
    stack_sparse: Any = (sparse.vstack, sparse.hstack)[axis]
    return csr(stack_sparse(list(blocks), format="csr"))


@dataclass(frozen=True, eq=False)
class Table:
    """A multi-label data file in memory.

    ``X`` is a float32 ndarray or CSR array of shape (n_samples, n_features). Missing values are NaN: a reader reports
    what the file says and imputes nothing. ``Y`` is a uint8 ndarray of shape (n_samples, n_labels): 1 relevant, 0 not
    relevant (or unknown, where the file is single-positive).
    """

    X: MatrixLike
    Y: NDArray[np.uint8]
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]

    def __post_init__(self) -> None:
        shapes = f"got X {self.X.shape} and Y {self.Y.shape}. Check"
        if self.X.shape[0] != self.Y.shape[0]:
            raise DataFileError(f"X and Y must have the same number of rows; {shapes} the orientation of both.")
        if (self.X.shape[1], self.Y.shape[1]) != (len(self.feature_names), len(self.label_names)):
            raise DataFileError(
                f"one name per column expected; got {len(self.feature_names)} feature names for "
                f"{self.X.shape[1]} columns and {len(self.label_names)} label names for {self.Y.shape[1]}."
            )
        for what, names in (("feature", self.feature_names), ("label", self.label_names)):
            check_distinct(names, what=what)
            odd = next(filter(_SURROGATE.search, names), None)
            if odd is not None:  # it could not be written to a file
                raise DataFileError(f"{what} names must be valid Unicode text; got {odd!a}. Correct it in the file.")
        if 0 in self.Y.shape or self.X.shape[1] == 0:
            raise DataFileError(
                f"a data file needs at least one row, one feature and one label; {shapes} the file and which of its "
                "columns are the labels."
            )


def stack(tables: Sequence[Table]) -> Table:
    """Put tables with the same columns below each other, in the order given."""
    columns = {(table.feature_names, table.label_names) for table in tables}
    if len(columns) > 1:
        raise DataFileError("files to be stacked must have the same columns in the same order; these differ.")
    X = stack_matrices([table.X for table in tables], axis=0)
    return Table(X, np.concatenate([table.Y for table in tables]), *columns.pop())


def as_features(values: MatrixLike) -> MatrixLike:
    """Convert to what ``Table.X`` holds: a C-ordered float32 ndarray, or a float32 CSR array."""
    try:
        with np.errstate(over="raise", invalid="ignore"):  # a signalling NaN is a NaN
            if sparse.issparse(values):
                return csr(values, dtype=np.float32)
            return np.ascontiguousarray(values, dtype=np.float32)
    except FloatingPointError as error:
        raise DataFileError(
            "a feature value is too large for a 32-bit number (above 3.4e38). Rescale the column, or check the file."
        ) from error


def as_indicator(values: MatrixLike, path: Path, what: str) -> NDArray[np.uint8]:
    """Convert labels written as 0/1 or −1/1 to uint8; ``what`` they are called in the file is for the message."""
    dense = to_dense(values)
    if dense.dtype.kind not in "biuf":
        raise DataFileError(f"{path.name}: {what} must be numbers 0/1 or -1/1; got dtype {dense.dtype}.")
    place = first_illegal(dense)
    if place is not None:
        raise DataFileError(
            f"{path.name}: {what} must be 0/1 or -1/1; got {dense[place]!s} in row {place[0]}, label {place[1]}. Check "
            "that these are the label columns."
        )
    return (dense > 0).astype(np.uint8)


def first_illegal(labels: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the place of the first entry that is not 0, 1 or −1; None if there is none."""
    # A comparison with NaN is False, so a missing label is reported and never read as "absent".
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        legal = (labels == 0) | (labels == 1) | (labels == -1)
    return None if legal.all() else tuple(np.argwhere(~legal)[0].tolist())


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    """Names for the columns of a file that has none: ``prefix0 … prefix{count-1}``."""
    return tuple(f"{prefix}{i}" for i in range(count))
