"""The seam between methods and the loop: a method is its objective."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """A mini-batch: which rows, their features (batch, q) and observed labels (batch, c), int8 in {1, 0, −1}.

    Features from a Dataset may have another shape, (batch, …).
    """

    rows: Tensor
    features: Tensor
    observed: Tensor


class Objective(nn.Module):
    """A predictive network and the losses that train it.

    Subclasses yield one or more named losses per batch. The loop takes one optimiser step after each, on the parameters
    that ``trained_by`` names, so a generator that yields twice alternates: code after the first ``yield`` sees
    parameters already updated.
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

    def trained_by(self, loss: str) -> list[tuple[list[nn.Parameter], float]]:
        """Return the parameters that the named loss trains, in groups with a factor on their learning rate."""
        return [([p for p in self.parameters() if p.requires_grad], 1.0)]

    def describe_epoch(self) -> dict[str, float]:
        """Return further numbers worth keeping in the history, evaluated once an epoch."""
        return {}
