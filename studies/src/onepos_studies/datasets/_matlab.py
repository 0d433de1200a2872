"""MATLAB files (version 5 to 7): two matrices, features and labels, perhaps in several parts."""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onepos.exceptions import DataFileError
from onepos_studies.datasets._table import Table, as_features, as_indicator, checked_csr, numbered, stack_matrices


def _most_inflated(compressed: int) -> int:
    """Return the bytes that so many compressed ones may become. Real matrices are denser unless nearly all is zero."""
    return max(1 << 28, 100 * compressed)


def check_inflation(compressed: int, inflated: int) -> None:
    """Raise ValueError if a part would grow beyond what its compressed size makes plausible; both are in bytes."""
    if inflated > _most_inflated(compressed):
        raise ValueError(
            f"{compressed} compressed bytes would become {inflated}, which looks like an attack; if the file is yours, "
            "save it without compression, or as a sparse matrix"
        )


# Our own reader of the MATLAB 5 container. scipy.io.loadmat (1.17) still ends the process (SIGSEGV, SIGBUS) on
# damaged files: 79 of 3,000 files with one to four changed bytes. Here every length is checked before it is used.
_HEADER, _MATRIX, _COMPRESSED = 128, 14, 15
_SPARSE_CLASS, _NUMERIC_CLASSES, _COMPLEX_FLAG = 5, range(6, 16), 0x0800
_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable, not decoded yet: MATLAB's flags, whose low byte is the class, and the elements behind the name."""

    flags: int
    shape: tuple[int, ...]
    payload: memoryview
    order: str

    def decode(self) -> Any:
        """Return an ndarray, or a CSC matrix; ValueError if it is not a matrix of real numbers."""
        kind = self.flags & 0xFF
        if len(self.shape) != 2 or self.flags & _COMPLEX_FLAG:
            raise ValueError(f"a real matrix expected; got shape {self.shape}, flags {self.flags:#x}")
        if kind in _NUMERIC_CLASSES:
            values, _ = _numbers(self.payload, 0, self.order)
            if values.size != math.prod(self.shape):
                raise ValueError(f"{values.size} numbers do not fill shape {self.shape}")
            return np.array(values.reshape(self.shape, order="F"), dtype=values.dtype.newbyteorder("="))
        if kind != _SPARSE_CLASS:
            raise ValueError(f"a matrix of numbers expected; got MATLAB class {kind} (text, cell, struct, …)")
        rows, at = _numbers(self.payload, 0, self.order)
        starts, at = _numbers(self.payload, at, self.order)
        values, _ = _numbers(self.payload, at, self.order)
        n_columns = self.shape[1]
        if len(starts) < n_columns + 1 or starts.dtype.kind == "f":
            raise ValueError("a sparse matrix lacks its column starts")
        starts = starts[: n_columns + 1].astype(np.int64)
        stored = int(starts[-1])  # room may have been reserved for more
        if not 0 <= stored <= min(len(rows), len(values)):
            raise ValueError("a sparse matrix has fewer entries than it announces")
        # MATLAB stores columns: the parts are those of the transpose's rows.
        return checked_csr(values[:stored], rows[:stored], starts, (n_columns, self.shape[0])).T


def scan(path: Path) -> dict[str, Variable]:
    """Return the variables of a file by name."""
    content = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if bytes(content[:10]) == b"MATLAB 7.3" or (order and _unpack(order + "H", content, 124) == 0x0200):
        raise DataFileError(f"{path.name}: is a MATLAB 7.3 (HDF5) file; 5 to 7 expected. Use save(..., '-v7').")
    if order is None:
        raise DataFileError(f"{path.name}: is not a MATLAB file of version 5 to 7 (its header says so).")
    variables: dict[str, Variable] = {}
    at = _HEADER
    try:
        while at < len(content):
            kind, body, after = _element(content, at, order)
            if kind == _COMPRESSED:
                after = at + 8 + len(body)  # alone among the elements these are not padded
                kind, body, _ = _element(memoryview(_inflate(body)), 0, order)
            if kind != _MATRIX:
                raise ValueError(f"a matrix expected at byte {at}; got element type {kind}")
            if len(body):
                flags, behind = _numbers(body, 0, order)
                shape, behind = _numbers(body, behind, order)
                _, name, behind = _element(body, behind, order)
                if not len(flags) or flags.dtype.kind != "u" or shape.dtype.kind != "i" or (shape < 0).any():
                    raise ValueError("a variable has no valid flags or shape")
                sides = tuple(int(side) for side in shape)
                variables[bytes(name).decode("latin-1")] = Variable(int(flags[0]), sides, body[behind:], order)
            at = after
    except (ValueError, struct.error, zlib.error) as error:
        raise DataFileError(f"{path.name}: not a readable MATLAB 5 file ({error}). Is the file complete?") from error
    return variables


def _inflate(body: memoryview) -> bytes:
    stream = zlib.decompressobj()
    content = stream.decompress(body, _most_inflated(len(body)) + 1)
    check_inflation(len(body), len(content))
    if not stream.eof:
        raise ValueError("a compressed element ends early")
    return content


def _numbers(buffer: memoryview, at: int, order: str) -> tuple[NDArray[Any], int]:
    kind, data, after = _element(buffer, at, order)
    if kind not in _DTYPES:
        raise ValueError(f"numbers expected; got element type {kind}")
    return np.frombuffer(data, dtype=order + _DTYPES[kind]), after


def _element(buffer: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Return type, content and the position behind the element that starts at ``at``."""
    word = _unpack(order + "I", buffer, at)
    small = word >> 16
    if small:  # up to four bytes of content share the tag's second half
        if small > 4:
            raise ValueError(f"an element at byte {at} has an impossible length")
        kind, start, size, after = word & 0xFFFF, at + 4, small, at + 8
    else:
        kind, start, size = word, at + 8, _unpack(order + "I", buffer, at + 4)
        after = start + size + (-size % 8)
    if start + size > len(buffer):
        raise ValueError(f"an element at byte {at} announces {size} bytes, more than there are")
    return kind, buffer[start : start + size], after


def _unpack(code: str, buffer: memoryview, at: int) -> int:
    return int(struct.unpack_from(code, buffer, at)[0])


def read_matlab(
    path: Path,
    *,
    features: str | Sequence[str] = "X",
    labels: str | Sequence[str] = "Y",
    orientation: Literal["rows", "columns"] = "rows",
) -> Table:
    """Read features and labels from a MATLAB file of version 5 to 7, whose matrices may be sparse.

    ``features`` and ``labels`` are names of variables; several are stacked as rows in the order given. ``orientation``
    says how the label matrix lies: "rows" has one row per example, "columns" one column per example, as ML-kNN's MATLAB
    code stores targets. Features always have one row per example.
    """
    if orientation not in ("rows", "columns"):
        raise ValueError(f"orientation must be 'rows' or 'columns'; got {orientation!r}.")
    variables = scan(path)
    features, labels = ((names,) if isinstance(names, str) else tuple(names) for names in (features, labels))
    if len(features) != len(labels):
        raise ValueError(f"as many label as feature variables expected; got {features} and {labels}.")
    missing = [name for name in (*features, *labels) if name not in variables]
    if missing:
        raise DataFileError(
            f"{path.name}: has no variable {missing}; it holds {sorted(variables)}. Give features= and labels=."
        )
    decoded = {}
    for name in (*features, *labels):
        try:
            decoded[name] = variables[name].decode()
        except (ValueError, struct.error) as error:
            raise DataFileError(f"{path.name}: variable {name}: {error}. Is it the right one?") from error
    pairs = zip(features, labels, strict=True)
    parts = [(decoded[x], _labels(decoded[y], decoded[x].shape[0], path, y, orientation)) for x, y in pairs]
    widths = {(X.shape[1], Y.shape[1]) for X, Y in parts}
    if len(widths) > 1:
        raise DataFileError(f"{path.name}: parts must have the same columns; got (features, labels) {sorted(widths)}.")
    X, Y = stack_matrices([X for X, _ in parts], axis=0), np.vstack([Y for _, Y in parts])
    return Table(as_features(X), Y, numbered("feature", X.shape[1]), numbered("label", Y.shape[1]))


def _labels(matrix: Any, n: int, path: Path, name: str, orientation: str) -> NDArray[np.uint8]:
    """Return the labels of n rows of features."""
    if orientation == "columns":
        matrix = matrix.T
    if matrix.shape[0] != n:
        raise DataFileError(
            f"{path.name}: {name} has no side of length {n}, the number of feature rows (or orientation="
            f"{orientation!r} is wrong); its shape as read is {matrix.shape}."
        )
    return as_indicator(matrix, path, name)
