"""The seam between methods and the loop: a method is its objective."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from onepos.training.processes import WHOLE, Part


@dataclass(frozen=True)
class Batch:
    """A mini-batch: which rows, their features (batch, q) and observed labels (batch, c), int8 in {1, 0, −1}.

    Features from a Dataset may have another shape, (batch, …). With several processes, rows and labels are those of the
    whole batch, and features those of ``own_rows``, which this process computes; the network returns logits of the
    whole batch all the same.
    """

    rows: Tensor
    features: Tensor
    observed: Tensor
    part: Part = WHOLE

    @cached_property
    def own_rows(self) -> Tensor:
        """The rows that this process computes; all of them, if there is one."""
        return self.part.own(self.rows)

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

    def running_state(self) -> dict[str, Tensor]:
        """Return what training needs beside ``state_dict`` to go on from a checkpoint as if it had not stopped."""
        return {}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``running_state`` gave, on the CPU, after ``load_state_dict``."""

    def describe_epoch(self) -> dict[str, float]:
        """Return further numbers worth keeping in the history, evaluated once an epoch."""
        return {}
