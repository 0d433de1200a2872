"""Work that is done once where the same rows come again: a study fits many methods, settings and rules on one split."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

#: Results kept in a process: a graph takes 16 bytes per row and neighbour, a linear path 8 per strength and weight.
LIMIT = 16

_Result = TypeVar("_Result")
_memory: "OrderedDict[str, Any]" = OrderedDict()
_enabled: ContextVar[bool] = ContextVar("remember_work", default=False)


@contextmanager
def remember_work() -> Iterator[None]:
    """Keep what ``recall`` computes in the body for later, in any such body of this process."""
    token = _enabled.set(True)
    try:
        yield
    finally:
        _enabled.reset(token)


def recall(compute: Callable[[], _Result], what: str, *inputs: Any) -> _Result:
    """Return ``compute()``, from memory if ``what`` was computed from the same inputs within ``remember_work``.

    Parameters
    ----------
    compute : a function of nothing but ``what`` and ``inputs``; nobody may write to what it returns
    inputs : arrays, sparse matrices, or values that ``repr`` describes completely
    """
    if not _enabled.get():
        return compute()
    key = " ".join([what, *map(_fingerprint, inputs)])
    if key not in _memory:
        _memory[key] = compute()
        _protect(_memory[key])
        while len(_memory) > LIMIT:
            _memory.popitem(last=False)
    _memory.move_to_end(key)
    result: _Result = _memory[key]
    return result


def _protect(result: Any) -> None:
    """Make the arrays of a result read-only: a later reader must find what was computed."""
    if isinstance(result, np.ndarray):
        result.setflags(write=False)
    elif isinstance(result, tuple | list):
        for part in result:
            _protect(part)


def _fingerprint(value: Any) -> str:
    """Hash shape, type and every number of an array, for a sparse matrix of its three; anything else by ``repr``."""
    if hasattr(value, "indptr"):
        parts = [value.data, value.indices, value.indptr]
    elif isinstance(value, np.ndarray):
        parts = [value]
    else:
        return repr(value)
    state = hashlib.blake2b(repr((value.shape, [(part.dtype.str, part.shape) for part in parts])).encode())
    for part in parts:
        state.update(np.ascontiguousarray(part).data)
    return state.hexdigest()
