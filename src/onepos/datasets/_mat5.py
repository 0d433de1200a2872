"""The MATLAB 5 container: numeric and sparse matrices, every length checked before it is used.

``scipy.io.loadmat`` reads more kinds of variables, but a wrong type or length in a damaged file crashes
the whole process (seen with SciPy 1.17); matrices of numbers are all that a data set needs.
"""

import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.datasets._inflation import check_inflation, largest_inflation
from onepos.datasets._sparse import checked_csr
from onepos.exceptions import DataFileError

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_SPARSE_CLASS = 5
_NUMERIC_CLASSES = range(6, 16)
_COMPLEX_FLAG = 0x0800
_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable, not decoded yet.

    Attributes
    ----------
    flags : int
        MATLAB's array flags; the low byte is the class.
    shape : tuple of int
    payload : memoryview
        The elements behind the name.
    order : {"<", ">"}
        Byte order.
    """

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
        if kind == _SPARSE_CLASS:
            return self._decode_sparse()
        raise ValueError(f"a matrix of numbers expected; got MATLAB class {kind} (text, cell, struct, …)")

    def _decode_sparse(self) -> Any:
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
    """Return the variables of a file by name.

    Parameters
    ----------
    path : Path
        MATLAB version 5 to 7; 7.3 (HDF5) and anything else raises DataFileError.
    """
    content = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if bytes(content[:10]) == b"MATLAB 7.3" or (order and _unpack(order + "H", content, 124) == 0x0200):
        raise DataFileError(
            f"{path.name}: is a MATLAB 7.3 (HDF5) file; version 5 to 7 expected. Save it again with save(..., '-v7')."
        )
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
                name, variable = _variable(body, order)
                variables[name] = variable
            at = after
    except (ValueError, struct.error, zlib.error) as error:
        raise corrupt(path, error) from error
    return variables


def _inflate(body: memoryview) -> bytes:
    stream = zlib.decompressobj()
    most = largest_inflation(len(body))
    content = stream.decompress(body, most + 1)
    check_inflation(len(body), len(content))
    if not stream.eof:
        raise ValueError("a compressed element ends early")
    return content


def corrupt(path: Path, error: Exception) -> DataFileError:
    """Make the error for a file that breaks the format's rules."""
    return DataFileError(f"{path.name}: not a readable MATLAB 5 file ({error}). Is the file complete?")


def _variable(body: memoryview, order: str) -> tuple[str, Variable]:
    flags, at = _numbers(body, 0, order)
    shape, at = _numbers(body, at, order)
    _, name, at = _element(body, at, order)
    if not len(flags) or flags.dtype.kind != "u" or shape.dtype.kind != "i" or (shape < 0).any():
        raise ValueError("a variable has no valid flags or shape")
    sides = tuple(int(side) for side in shape)
    return bytes(name).decode("latin-1"), Variable(int(flags[0]), sides, body[at:], order)


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
