"""Rows that are read when they are needed, from a memory-mapped matrix or the items of a torch ``Dataset``."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

#: A smaller map is read whole: that costs little, and gives the same bits as the array that it holds.
LOAD_BELOW_BYTES = 1 << 26
#: Largest magnitude of a feature: networks are trained in float32.
LARGEST = float(np.finfo(np.float32).max)
#: Size of one block of rows in float64.
BLOCK_BYTES = 1 << 24
#: Numbers of Dataset items read at once in a pass over all rows.
_NUMBERS_AT_ONCE = 1 << 24


class _LateRows:
    """Rows of a source that are read when they are needed: all, or those that ``rows`` lists."""

    source: Any
    rows: NDArray[np.integer[Any]] | None

    def __len__(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """Return a part of the rows; nothing is read."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])  # type: ignore[type-var]

    def scaled(self, scale: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the same rows with a scaling; nothing is read."""
        return replace(self, scale=scale)  # type: ignore[type-var]


def on_disk(X: Any) -> bool:
    """Whether X is a memory-mapped matrix of real numbers, too large to be read whole without asking."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub" and X.nbytes >= LOAD_BELOW_BYTES


@dataclass(frozen=True, eq=False)
class DiskRows(_LateRows):
    """Rows of a memory-mapped matrix (None: all), scaled as they are read.

    Examples
    --------
    >>> rows = DiskRows(np.arange(8.0).reshape(4, 2)).take(np.array([3, 0]))
    >>> rows.shape, rows[[1, 0, 1]].tolist()
    ((2, 2), [[0.0, 1.0], [6.0, 7.0], [0.0, 1.0]])
    """

    source: NDArray[Any]
    rows: NDArray[np.integer[Any]] | None = None
    scale: Callable[[NDArray[Any]], NDArray[Any]] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, number of features."""
        return len(self), int(self.source.shape[1])

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Read the rows of a slice or an index array, in its order."""
        if self.rows is not None:
            rows = self.rows[rows]
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self.source)))
        # In the order of the file, and once each: neighbourhoods name the same row many times.
        distinct, inverse = np.unique(rows, return_inverse=True)
        # Piece by piece: scaling works in float64, in which all rows together may be large.
        pieces = [self._read(distinct[at : at + self._step]) for at in range(0, max(1, len(distinct)), self._step)]
        values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return values if np.array_equal(distinct, rows) else values[inverse]

    def _read(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        values = np.asarray(self.source[rows])
        return values if self.scale is None else self.scale(values)

    @property
    def _step(self) -> int:
        return max(1, BLOCK_BYTES // (8 * max(1, self.shape[1])))

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All rows in order, ``BLOCK_BYTES`` at a time, each block with its place."""
        for start in range(0, len(self), self._step):
            part = slice(start, min(start + self._step, len(self)))
            yield part, self[part]


def column_statistics(rows: DiskRows) -> tuple[NDArray[np.float64], ...]:
    """Mean, standard deviation, smallest and largest value of each column, in one pass over the file."""
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    moments, ends = StandardScaler(), MinMaxScaler()
    for _, values in rows.blocks():
        block = values.astype(np.float64)
        moments.partial_fit(block)
        ends.partial_fit(block)
    return moments.mean_, np.sqrt(moments.var_), ends.data_min_, ends.data_max_


def check_finite(rows: DiskRows) -> None:
    """Raise if any entry is NaN, infinite or beyond the range of float32; reads block by block."""
    for part, values in rows.blocks():
        bad = ~(np.abs(values) <= LARGEST).all(axis=1)
        if bad.any():
            raise ValueError(
                f"expected finite features of at most {LARGEST:.2g}; row {part.start + int(bad.argmax())} of the "
                "memory-mapped X holds NaN, infinity or a larger number: impute or drop such entries, and write the "
                "file again"
            )


def is_dataset(X: Any) -> bool:
    """Whether X is read item by item: it can be indexed, and is neither an array, a frame nor a plain container."""
    if isinstance(X, list | tuple | str | bytes | Mapping | type) or hasattr(X, "__array__") or hasattr(X, "tocsr"):
        return False
    return hasattr(X, "__getitem__")


@dataclass(frozen=True, eq=False)
class DatasetRows(_LateRows):
    """Items of a map-style Dataset, all or those that ``rows`` lists, as features.

    Items are x, or tuples (x, …), and x is an array or tensor of ``given_shape``. ``flat`` makes every x a vector of
    float32; otherwise x keeps its shape, and integers, such as tokens, their type.

    Examples
    --------
    >>> from torch.utils.data import TensorDataset
    >>> import torch
    >>> items = TensorDataset(torch.arange(12.0).reshape(3, 2, 2))
    >>> rows = DatasetRows.of(items, flat=True).take(np.array([2, 0]))
    >>> rows.shape, rows[[1]].tolist(), DatasetRows.of(items, flat=False)[[1]].shape
    ((2, 4), [[0.0, 1.0, 2.0, 3.0]], (1, 2, 2))
    """

    source: Any
    given_shape: tuple[int, ...]
    flat: bool
    rows: NDArray[np.integer[Any]] | None = None
    scale: Callable[[NDArray[Any]], NDArray[Any]] | None = None

    @classmethod
    def of(cls, source: Any, *, flat: bool) -> "DatasetRows":
        """Return all items of a Dataset; the first one tells their shape."""
        name = type(source).__name__
        if not hasattr(source, "__len__"):
            raise TypeError(
                f"expected a map-style Dataset, with __len__ and __getitem__, or an array; {name} has no length. "
                "Batches are drawn by number, so an iterable dataset cannot be used: collect its items first."
            )
        if len(source) == 0:
            raise ValueError(f"expected a Dataset with items; {name} has none (0 samples).")
        return cls(source, _features_of(source[0], 0).shape, flat)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, number of numbers in an item."""
        return len(self), math.prod(self.given_shape)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of a row as the network gets it."""
        return (self.shape[1],) if self.flat else self.given_shape

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Read the items of an index array, in its order; shape (len(rows), *item_shape)."""
        numbers = np.asarray(rows) if self.rows is None else self.rows[rows]
        values = np.stack([self._read(int(number)) for number in numbers])
        if values.dtype.kind not in "iu" or self.flat:
            with np.errstate(over="ignore"):  # the next line says it
                values = np.ascontiguousarray(values, dtype=np.float32)
            finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
            if not finite.all():
                raise ValueError(
                    f"expected finite features; item {int(numbers[int((~finite).argmax())])} of the Dataset holds NaN "
                    "or infinity: impute such entries, or leave such items out."
                )
        if self.flat:
            values = values.reshape(len(values), -1)
        return values if self.scale is None else self.scale(values)

    def _read(self, number: int) -> NDArray[Any]:
        values = _features_of(self.source[number], number)
        if values.shape != self.given_shape:
            raise ValueError(
                f"expected items of one shape; x of item 0 of the Dataset has shape {self.given_shape}, that of item "
                f"{number} {values.shape}: pad or crop them."
            )
        return values

    def labels(self) -> NDArray[Any]:
        """Read y of all items (x, y): an indicator (n, n_labels), or a vector of classes (n,)."""
        numbers = range(len(self.source)) if self.rows is None else self.rows
        labels = [_labels_of(self.source[int(number)], int(number)) for number in numbers]
        shapes = {values.shape for values in labels}
        if len(shapes) > 1:
            raise ValueError(f"expected y of one shape in all items of the Dataset; got {sorted(shapes)}.")
        return np.stack(labels)


def _features_of(item: Any, number: int) -> NDArray[Any]:
    x = item[0] if isinstance(item, tuple | list) and len(item) else item
    values = _as_array(x)
    if values.dtype.kind not in "fiub" or values.ndim == 0:
        raise TypeError(
            "expected items x or (x, …) with x an array or a tensor of numbers; x of item "
            f"{number} of the Dataset is a {type(x).__name__}. Wrap the Dataset in one that returns such items."
        )
    return values


def _labels_of(item: Any, number: int) -> NDArray[Any]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise TypeError(
            f"expected items (x, y) as no labels were given beside the Dataset; item {number} is a "
            f"{type(item).__name__}. Pass the labels as well: fit(dataset, Y), or validation=(dataset, Y)."
        )
    return _as_array(item[1])


def _as_array(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):  # a tensor, perhaps on another device or in a type that NumPy does not know
        values = values.detach().cpu()
        return np.asarray(values.float() if values.is_floating_point() else values)
    return np.asarray(values)


def take(X: Any, rows: NDArray[np.integer[Any]]) -> Any:
    """Part of the rows of an array or CSR matrix; those on disk or in a Dataset stay there."""
    return X.take(rows) if isinstance(X, DiskRows | DatasetRows) else X[rows]


def rows_at_once(features: Any, most: int) -> int:
    """Return the number of rows to process at a time: ``most``, fewer if the items of a Dataset are large."""
    if not isinstance(features, DatasetRows):
        return most
    return min(most, max(1, _NUMBERS_AT_ONCE // max(1, features.shape[1])))
