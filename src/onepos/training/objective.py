"""The seam between methods and the loop: a method is its objective."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """A mini-batch: which rows, their features (batch, q) and observed labels (batch, c), int8 in {1, 0, −1}."""

    rows: Tensor
    features: Tensor
    observed: Tensor


class Objective(nn.Module):
    """A predictive network and the losses that train it.

    Subclasses yield one or more losses per batch. The loop takes one optimiser step after each, so a generator
    that yields twice alternates: code after the first ``yield`` sees parameters already updated. Whatever carries
    no gradient in a yielded loss is left untouched by its step.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.epoch = 0

    def begin_epoch(self, epoch: int) -> None:
        """Note the 0-based epoch; methods with a schedule act on it."""
        self.epoch = epoch

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, scalar loss) for each step to take on this batch."""
        raise NotImplementedError(f"{type(self).__name__} must say what its losses are.")

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """Return the optimiser's parameter groups; override to give some parameters a learning rate of their own."""
        return [{"params": [p for p in self.parameters() if p.requires_grad], "lr": learning_rate}]

    def describe_epoch(self) -> dict[str, float]:
        """Return further numbers worth keeping in the history, evaluated once an epoch."""
        return {}
