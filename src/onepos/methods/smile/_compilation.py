"""Decorators that compile kernels with numba. Its import takes half a second: import kernels where they are called."""

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from numba import njit
from numpy.typing import NDArray

from onepos.exceptions import TrainingWarning

Array: TypeAlias = NDArray[Any]
#: A number of single precision, or an integer.
Scalar: TypeAlias = Any

#: Divisions are not checked for zero: the result is infinite, as in NumPy.
_NUMPY = {"error_model": "numpy", "nogil": True}


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function of single numbers into the loops that call it; a product and a sum may be fused."""
    return njit(**_NUMPY, fastmath={"contract"}, forceinline=True)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function of arrays, and cache the compiled code on disk for the next process.

    Sums may be reordered: loops that add up need this to use vector instructions. NaN and infinities are kept. numba
    compiles again when the file of the function changes, so a kernel must only call kernels of its own file.
    """
    options: dict[str, Any] = {**_NUMPY, "fastmath": {"contract", "reassoc", "nsz"}}
    try:
        dispatcher = njit(**options, cache=True)(function)
    except RuntimeError:  # no cache folder is writable
        return njit(**options)(function)
    _tolerate_cache_errors(dispatcher._cache)
    return dispatcher


def _tolerate_cache_errors(cache: Any) -> None:
    """Compile again if a cached kernel cannot be read, and go on if it cannot be written (a full disk)."""

    def tolerant(call: Callable[..., Any], problem: str) -> Callable[..., Any]:
        def call_or_warn(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            except Exception as error:
                warnings.warn(f"{problem}: {error!r}", TrainingWarning, stacklevel=2)
                return None

        return call_or_warn

    cache.load_overload = tolerant(cache.load_overload, "a compiled kernel cannot be read and is compiled again")
    cache.save_overload = tolerant(cache.save_overload, "a compiled kernel cannot be kept for later")
