"""A forward pass of SMILE's graph encoder that keeps what the backward pass needs, on the CPU."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepos.graph.neighborhoods import Integers, Numbers
from onepos.graph.sparse_product import SparseBatch

# Parameters as NumPy arrays in the same memory, made once: in every step it would take as long as a product.


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


#: Derivatives by parameters.
Gradients = dict[Tensor, Tensor]
#: W₁, b₁, W₂, b₂.
Layers = tuple[Tensor, Tensor, Tensor, Tensor]


class Passed(Protocol):
    """A forward pass: log α, then log β, of shape (batch, 2 · n_labels), and the way back."""

    log_parameters: Tensor

    def means(self) -> Tensor:
        """α/(α+β), (batch, n_labels)."""
        ...

    def gradients(self, by_log_parameters: Tensor) -> Gradients:
        """Derivatives by the encoder's parameters."""
        ...


class EncoderPass:
    """The pass in torch.

    Parameters
    ----------
    layers : W₁ (inputs, hidden), b₁, W₂ (2 · n_labels, hidden), b₂
    inputs : Tensor or SparseBatch
        (ÂX) of the rows needed.
    pooling : Tensor or SparseBatch of shape (batch, rows needed)
    bound : float
        Of log α and log β.
    """

    def __init__(
        self, layers: Layers, inputs: Tensor | SparseBatch, pooling: Tensor | SparseBatch, bound: float
    ) -> None:
        self.layers, self.inputs, self.pooling = layers, inputs, pooling
        weight, bias, self.second, second_bias = layers
        self.hidden = _first_product(inputs, weight).add_(bias).relu_()
        self.pooled = times(pooling, self.hidden)
        self.raw = torch.nn.functional.linear(self.pooled, self.second, second_bias)
        self.log_parameters = self.raw.clamp(-bound, bound)

    def means(self) -> Tensor:
        """α/(α+β), (batch, n_labels)."""
        log_alpha, log_beta = self.log_parameters.chunk(2, dim=1)
        return torch.sigmoid(log_alpha - log_beta)

    def gradients(self, by_log_parameters: Tensor) -> Gradients:
        """Derivatives by the encoder's parameters."""
        by_raw = by_log_parameters * (self.raw == self.log_parameters)
        by_pooled = torch.mm(by_raw, self.second)
        by_hidden = torch.ops.aten.threshold_backward(times(_transposed(self.pooling), by_pooled), self.hidden, 0.0)
        found = (
            times(_transposed(self.inputs), by_hidden),
            by_hidden.sum(0),
            torch.mm(by_raw.t(), self.pooled),
            by_raw.sum(0),
        )
        return dict(zip(self.layers, found, strict=True))


class CompiledEncoderPass:
    """The same with all but the products of the first layer compiled, for single precision.

    Rows are pooled by their ``places`` among the rows needed, (batch, 1 + k), with ``shares`` of the row itself and of
    each neighbour. ``views`` are the layers as arrays.
    """

    def __init__(
        self,
        layers: Layers,
        views: ParameterViews,
        inputs: Tensor | SparseBatch,
        places: Integers,
        shares: Numbers,
        bound: float,
    ) -> None:
        from onepos.kernels.graph import forwards

        self.layers, self.inputs, self.places, self.shares = layers, inputs, places, shares
        self.bound = np.float32(bound)
        _, bias, self.second, second_bias = views()
        self.hidden = _first_product(inputs, layers[0]).numpy()
        self.pooled, self.output = forwards(self.hidden, bias, places, shares, self.second, second_bias, self.bound)
        self.log_parameters = torch.from_numpy(self.output)

    def means(self) -> Tensor:
        """α/(α+β), (batch, n_labels)."""
        from onepos.kernels.risk import posterior_means

        return torch.from_numpy(posterior_means(self.output))

    def gradients(self, by_log_parameters: Tensor) -> Gradients:
        """Derivatives by the encoder's parameters."""
        from onepos.kernels.graph import backwards

        # In torch's memory, which is aligned: the last bits of a product may depend on where its factors lie.
        by_hidden = torch.empty(self.hidden.shape)
        known = self.output, self.bound, self.second, self.pooled, self.hidden, self.places, self.shares
        others = backwards(by_log_parameters.numpy(), *known, by_hidden.numpy())
        found = times(_transposed(self.inputs), by_hidden), *(torch.from_numpy(values) for values in others)
        return dict(zip(self.layers, found, strict=True))


def times(matrix: Tensor | SparseBatch, dense: Tensor) -> Tensor:
    """Return matrix · dense."""
    return matrix.times(dense) if isinstance(matrix, SparseBatch) else torch.mm(matrix.to(dense.dtype), dense)


def _first_product(inputs: Tensor | SparseBatch, weight: Tensor) -> Tensor:
    # Detached: a lookup in something to be trained would also prepare for a gradient.
    return times(inputs, weight.detach())


def _transposed(matrix: Tensor | SparseBatch) -> Tensor | SparseBatch:
    return matrix.transposed if isinstance(matrix, SparseBatch) else matrix.t()
