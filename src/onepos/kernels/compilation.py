"""How kernels are compiled: two decorators, and the types of what they take, which numba finds out by itself."""

from collections.abc import Callable
from typing import Any, TypeAlias

from numba import njit
from numpy.typing import NDArray

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
        return njit(**options, cache=True)(function)
    except RuntimeError:  # no folder to keep it in can be written to
        return njit(**options)(function)
