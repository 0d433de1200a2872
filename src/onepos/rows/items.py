"""Items of a torch ``Dataset`` as rows of features, read when they are needed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Attributes of arrays, frames and sparse matrices.
_MATRIX_MARKS = ("__array__", "__array_interface__", "__dataframe__", "tocsr")

#: Numbers read at once in a pass over all rows.
_NUMBERS_AT_ONCE = 1 << 24


def is_dataset(X: Any) -> bool:
    """Whether X is read item by item: it can be indexed, and is neither an array, a frame nor a plain container.

    Examples
    --------
    >>> from torch.utils.data import TensorDataset
    >>> import torch
    >>> is_dataset(TensorDataset(torch.zeros(3, 2))), is_dataset([[0.0, 1.0]]), is_dataset(torch.zeros(3, 2))
    (True, False, False)
    """
    if isinstance(X, list | tuple | str | bytes | Mapping | type):
        return False
    return hasattr(X, "__getitem__") and not any(hasattr(X, mark) for mark in _MATRIX_MARKS)


@dataclass(frozen=True, eq=False)
class DatasetRows:
    """Some items of a map-style Dataset, as features.

    Parameters
    ----------
    source : object with ``__len__`` and ``__getitem__``
        Items are x, or tuples (x, …); x is an array or tensor, of the same shape in all items.
    given_shape : tuple of int
        Shape of x in every item.
    flat : bool
        Make every x a vector of float32. Otherwise x keeps its shape, and integers, such as tokens, their type.
    rows : int array, or None for all
        Which items these are.
    scale : function of an array of rows, or None
        Applied to what is read.

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

    def __len__(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, number of numbers in an item."""
        return len(self), math.prod(self.given_shape)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of a row as the network gets it."""
        return (self.shape[1],) if self.flat else self.given_shape

    @property
    def rows_at_once(self) -> int:
        """Rows to read at a time in a pass over all of them: pictures may be large."""
        return max(1, _NUMBERS_AT_ONCE // max(1, self.shape[1]))

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Read the items of an index array, in its order; shape (len(rows), *item_shape)."""
        numbers = np.asarray(rows) if self.rows is None else self.rows[rows]
        values = np.stack([self._read(int(number)) for number in numbers])
        if values.dtype.kind not in "iu" or self.flat:
            values = np.ascontiguousarray(values, dtype=np.float32)
            self._check_finite(values, numbers)
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

    def _check_finite(self, values: NDArray[np.float32], numbers: NDArray[np.integer[Any]]) -> None:
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"expected finite features; item {int(numbers[int((~finite).argmax())])} of the Dataset holds NaN or "
                "infinity: impute such entries, or leave such items out."
            )

    def take(self, rows: NDArray[np.integer[Any]]) -> "DatasetRows":
        """Return a part of the rows; nothing is read."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def scaled(self, scale: Callable[[NDArray[Any]], NDArray[Any]]) -> "DatasetRows":
        """Return the same rows with a scaling; nothing is read."""
        return replace(self, scale=scale)

    def labels(self) -> NDArray[Any]:
        """Read y of all items (x, y): an indicator (n, n_labels), or a vector of classes (n,)."""
        numbers = range(len(self.source)) if self.rows is None else self.rows
        found = [_labels_of(self.source[int(number)], int(number)) for number in numbers]
        shapes = {values.shape for values in found}
        if len(shapes) > 1:
            raise ValueError(f"expected y of one shape in all items of the Dataset; got {sorted(shapes)}.")
        return np.stack(found)


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
