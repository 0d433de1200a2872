"""A loss that comes with its gradient: for objectives whose derivative is written out."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Differentiated:
    """The value of a loss and its derivatives by parameters, as an objective may yield instead of a tensor.

    At batches of 16 rows automatic differentiation takes longer than the arithmetic it plans. An objective that knows
    its derivative says it here, and the optimiser asks nobody else.

    Attributes
    ----------
    value : Tensor of shape ()
    gradients : mapping of parameter to Tensor
        Parameters that are not there have a gradient of zero.
    """

    value: Tensor
    gradients: Mapping[Tensor, Tensor]

    def detach(self) -> Tensor:
        """Return the value: what a tensor's ``detach`` gives."""
        return self.value

    def __mul__(self, factor: float) -> "Differentiated":
        return Differentiated(
            self.value * factor, {parameter: gradient * factor for parameter, gradient in self.gradients.items()}
        )


#: What an objective yields: a scalar that automatic differentiation can follow, or one that brings its gradient.
Loss = Tensor | Differentiated
