"""What happens with one batch: its losses, their gradients, a step of the optimiser after each."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from onepos.training.objective import Batch, Objective
from onepos.training.optimizer import FusedAdam, Schedule, with_rate_factors
from onepos.training.processes import Part
from onepos.training.rows import Rows


class Steps:
    """The optimisers of an objective, one for each loss that it yields, and how a batch moves them.

    Parameters
    ----------
    objective : Objective
    rows : Rows
    schedule : Schedule
    told : function of a Part
        Called before each batch with the part of it that this process computes.
    """

    def __init__(
        self, objective: Objective, rows: Rows, schedule: Schedule, told: Callable[[Part], None] = lambda part: None
    ) -> None:
        self.objective, self.rows, self.schedule, self._told = objective, rows, schedule, told
        self.optimizers: dict[str, FusedAdam] = {}

    def take(self, index: Tensor, rate: float) -> Iterator[tuple[str, Tensor]]:
        """Take the steps of the batch of the given rows; yields the name and value of each loss."""
        if self.schedule.accumulation > 1:
            yield from self._in_portions(index, rate)
            return
        batch = self.rows.batch(index)
        self._told(batch.part)
        for name, loss in self.objective.losses(batch):
            self.optimizer(name).step(loss, rate)
            yield name, loss.detach()

    def optimizer(self, loss: str) -> FusedAdam:
        """Return the optimiser of the named loss, made when it is first asked for."""
        if loss not in self.optimizers:
            groups = with_rate_factors(
                self.objective.trained_by(loss), self.objective.network, self.schedule.rate_factors
            )
            self.optimizers[loss] = FusedAdam(groups, self.schedule.weight_decay, self.rows.processes)
        return self.optimizers[loss]

    def _in_portions(self, index: Tensor, rate: float) -> Iterator[tuple[str, Tensor]]:
        """Compute the batch in portions, one after the other, and take one step from all of them.

        The portions go through the objective side by side, one loss at a time: after a step all of them see the
        parameters that it updated, as the whole batch would.
        """
        batches = [self.rows.batch(portion) for portion in torch.chunk(index, self.schedule.accumulation)]
        walks = [(batch, self.objective.losses(batch)) for batch in batches]
        while True:
            found = [self._portion(batch, walk, len(batch.rows) / len(index)) for batch, walk in walks]
            name = found[0][0] if found[0] is not None else None
            if name is None:
                return
            portions = [item for item in found if item is not None]
            gradients = [torch.stack(parts).sum(dim=0) for parts in zip(*(item[2] for item in portions), strict=True)]
            self.optimizer(name).apply(gradients, rate)
            yield name, torch.stack([item[1] for item in portions]).sum()

    def _portion(
        self, batch: Batch, walk: Iterator[tuple[str, Tensor]], weight: float
    ) -> tuple[str, Tensor, list[Tensor]] | None:
        """Advance one portion to its next loss; returns its name, its share of the value and of the gradient."""
        self._told(batch.part)
        item = next(walk, None)
        if item is None:
            return None
        name, loss = item
        # Differentiated at once, so that the portion's intermediate results can go.
        gradients = self.optimizer(name).gradients(loss * weight)
        return name, loss.detach() * weight, list(gradients)
