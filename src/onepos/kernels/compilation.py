"""How kernels are compiled: two decorators, and the types of what they take, which numba finds out by itself."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from numba import njit
from numpy.typing import NDArray

from onepos.exceptions import TrainingWarning

Array: TypeAlias = NDArray[Any]
#: A number of single precision, or an integer.
Scalar: TypeAlias = Any
#: W₁, b₁, W₂, b₂ of a network of two layers.
Layers: TypeAlias = tuple[Array, ...]

#: No division is checked for zero: the result is infinite, as in NumPy.
_NUMPY = {"error_model": "numpy", "nogil": True}


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function of single numbers into the loops that call it.

    Its operations keep their order, on which the tricks of ``elementary`` depend; a product and a sum may be one.
    """
    return njit(**_NUMPY, fastmath={"contract"}, forceinline=True)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function of arrays, and keep what was compiled for the next process.

    Sums may be taken in another order, without which no loop that adds up would use vector instructions. NaN and
    infinities stay what they are.
    """
    options: dict[str, Any] = {**_NUMPY, "fastmath": {"contract", "reassoc", "nsz"}}
    try:
        dispatcher = njit(**options, cache=True)(function)
    except RuntimeError:  # no folder to keep it in can be written to
        return njit(**options)(function)
    _drop_stale(dispatcher.stats.cache_path)
    _forgive(dispatcher._cache)
    return dispatcher


@cache
def _drop_stale(folder: str) -> None:
    """Remove what was compiled before a kernel's file was changed, any of them: numba looks at its own file only."""
    newest = max(path.stat().st_mtime for path in Path(__file__).parent.glob("*.py"))
    for path in Path(folder).glob("*.nb[ci]"):
        with suppress(OSError):  # another process may be at it
            if path.stat().st_mtime < newest:
                path.unlink()


def _forgive(kept: Any) -> None:
    """Compile again where what was kept cannot be read, and go on where it cannot be written (a full disk)."""
    load, save = kept.load_overload, kept.save_overload

    def loaded(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception as error:
            warnings.warn(
                f"a compiled kernel cannot be read ({error!r}) and is compiled again.", TrainingWarning, stacklevel=2
            )
            return None

    def saved(*arguments: Any) -> None:
        try:
            save(*arguments)
        except Exception as error:
            warnings.warn(f"a compiled kernel cannot be kept for later ({error!r}).", TrainingWarning, stacklevel=2)

    kept.load_overload, kept.save_overload = loaded, saved
