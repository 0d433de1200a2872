"""The seam between methods and the loop: a method is its objective."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """Rows to compute losses of: a mini-batch, or the portion of it that is computed at once.

    Attributes
    ----------
    rows : int64 Tensor of shape (batch,)
    features : Tensor of shape (batch, n_features)
        Items of a Dataset may have more dimensions.
    observed : int8 Tensor of shape (batch, n_labels)
        1 observed, 0 unknown, −1 known absent.
    number : int
        How many batches came before this one, from the first epoch on. All portions of a batch have the same number.
    """

    rows: Tensor
    features: Tensor
    observed: Tensor
    number: int = 0

    @cached_property
    def positives(self) -> Tensor:
        """1 where a label was observed, else 0; floating-point, of the features' precision."""
        kind = self.features.dtype
        return self.observed.clamp(min=0).to(kind if kind.is_floating_point else torch.float32)


class Objective(nn.Module):
    """A predictive network and the losses that train it.

    Subclasses yield one or more named losses per batch. The loop takes one optimiser step after each, on the parameters
    that ``trained_by`` names, so a generator that yields twice alternates: code after the first ``yield`` sees
    parameters already updated.

    An objective knows nothing about portions of a batch or other processes. A loss that looks at its batch as a whole,
    such as a mean number of positives, looks at the portion that it is given.
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

    def end_epoch(self, waited: int | None) -> bool:
        """Note how long ago the best epoch was, None without scores; True asks to go on from that epoch's network."""
        return False

    def row_state(self) -> list[Tensor]:
        """Return tensors with one entry per training row that ``losses`` writes for the rows of its batch.

        Several processes exchange these entries after each epoch, in which each row is seen once.
        """
        return []

    def running_state(self) -> dict[str, Tensor]:
        """Return what training needs beside ``state_dict`` to go on from a checkpoint as if it had not stopped."""
        return {}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``running_state`` gave, on the CPU, after ``load_state_dict``."""

    def describe_epoch(self) -> dict[str, float]:
        """Return further numbers worth keeping in the history, evaluated once an epoch."""
        return {}
