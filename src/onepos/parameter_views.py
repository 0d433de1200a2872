"""Parameters as NumPy arrays in the same memory, made once: in every step it would take as long as a product."""

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray
from torch import Tensor


class ParameterViews:
    """Arrays that share their memory with parameters on the CPU.

    They are made again when a parameter has got other memory: a module that was copied, or converted, has.

    Examples
    --------
    >>> import torch
    >>> parameter = torch.nn.Parameter(torch.zeros(2))
    >>> views = ParameterViews([parameter])
    >>> (array,) = views()
    >>> _ = parameter.data.add_(1.0)
    >>> array.tolist(), views()[0] is array
    ([1.0, 1.0], True)
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self._places: list[int] = []
        self._arrays: tuple[NDArray[Any], ...] = ()

    def __reduce__(self) -> tuple[type["ParameterViews"], tuple[list[Tensor]]]:
        return ParameterViews, (self._parameters,)  # a copy has other memory, perhaps where there was some before

    def __call__(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays, in the order of the parameters."""
        places = [parameter.data_ptr() for parameter in self._parameters]
        if places != self._places:
            self._arrays = tuple(parameter.detach().numpy() for parameter in self._parameters)
            self._places = places
        return self._arrays
