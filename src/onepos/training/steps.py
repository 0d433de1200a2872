"""The rows of a training run, and one batch of them: losses, gradients, and a step of the optimiser after each loss.

A batch is computed in portions: ``gradient_accumulation`` of them in each process. The gradients of all portions are
averaged before each step, weighted by their rows. So k processes take the steps of one process with k portions. Each
portion has random numbers of its own, which depend on its number and not on the process that computes it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepos.rows.tensors import as_features, gather, on_device
from onepos.training.objective import Batch, Objective
from onepos.training.optimizer import FusedAdam, Schedule, with_rate_factors
from onepos.training.processes import ALONE, Processes


@dataclass
class Rows:
    """Features and observed labels of all rows, and the index of those that may be trained on.

    Attributes
    ----------
    features : float32 Tensor (n_samples, n_features), a CSR array too large to expand, rows on disk or in a Dataset
    observed : int8 Tensor (n_samples, n_labels)
    trainable : int64 Tensor
        Rows that carry an observed positive and are not held out.
    processes : Processes
        The processes that train on them. Each has all labels and reads the features that it needs.
    """

    features: Any
    observed: Tensor
    trainable: Tensor
    processes: Processes = ALONE

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        observed: NDArray[np.int8],
        trainable: NDArray[np.intp],
        device: str = "cpu",
        processes: Processes = ALONE,
    ) -> "Rows":
        """Build from scaled features (ndarray, CSR, rows on disk or in a Dataset) and int8 labels."""
        labels, index = torch.from_numpy(observed), torch.from_numpy(np.ascontiguousarray(trainable))
        return cls(on_device(as_features(X), device), labels.to(device), index.to(device), processes)

    def gather(self, rows: Tensor) -> Tensor:
        """Features of the given rows as a dense tensor."""
        return gather(self.features, rows)

    def batch(self, index: Tensor, number: int = 0) -> Batch:
        """Return the given rows as a batch."""
        return Batch(index, self.gather(index), self.observed.index_select(0, index), number)

    @property
    def n_samples(self) -> int:
        """Number of rows, trainable or not."""
        return int(self.observed.shape[0])


class Steps:
    """The optimisers of an objective, one for each loss that it yields, and how a batch moves them."""

    def __init__(self, objective: Objective, rows: Rows, schedule: Schedule, generator: torch.Generator) -> None:
        self.objective, self.rows, self.schedule, self.generator = objective, rows, schedule, generator
        self.optimizers: dict[str, FusedAdam] = {}
        self._seed = generator.initial_seed()
        self.n_portions = schedule.accumulation * rows.processes.size

    def optimizer(self, loss: str) -> FusedAdam:
        """Return the optimiser of the named loss, made when it is first asked for."""
        if loss not in self.optimizers:
            groups = with_rate_factors(
                self.objective.trained_by(loss), self.objective.network, self.schedule.rate_factors
            )
            self.optimizers[loss] = FusedAdam(groups, self.schedule.weight_decay)
        return self.optimizers[loss]

    def take(self, index: Tensor, number: int, rate: float) -> Iterator[tuple[str, Tensor]]:
        """Take the steps of the batch of the given rows; yields the name and value of each loss."""
        if self.n_portions > 1:
            yield from self._in_portions(index, number, rate)
            return
        for name, loss in self.objective.losses(self.rows.batch(index, number)):
            self.optimizer(name).step(loss, rate)
            yield name, loss.detach()

    def own_portions(self, index: Tensor) -> list[tuple[int, Tensor]]:
        """Return number and rows of the portions of a batch that this process computes; none may be left for it."""
        first = self.rows.processes.rank * self.schedule.accumulation
        portions = list(enumerate(torch.tensor_split(index, self.n_portions)))
        return [(p, rows) for p, rows in portions[first : first + self.schedule.accumulation] if len(rows)]

    def _in_portions(self, index: Tensor, number: int, rate: float) -> Iterator[tuple[str, Tensor]]:
        """Advance all portions to their next loss, take one step from all of them, and so on.

        After a step all portions see the parameters that it updated, as a whole batch would.
        """
        # A process without rows repeats the first row with weight 0: it must take part in every exchange.
        own = self.own_portions(index) or [(0, index[:0])]
        walks = [
            _Walk(
                self.objective.losses(self.rows.batch(rows if len(rows) else index[:1], number)),
                len(rows) / len(index),
                _Stream(self.generator, (self._seed, number, portion)),
            )
            for portion, rows in own
        ]
        while True:
            found = [self._advance(walk) for walk in walks]
            portions = [item for item in found if item is not None]
            if not portions:
                return
            name = portions[0][0]
            sums = [torch.stack(parts).sum(dim=0) for parts in zip(*(item[1] for item in portions), strict=True)]
            *gradients, value = self.rows.processes.sum(sums)
            self.optimizer(name).apply(gradients, rate)
            yield name, value

    def _advance(self, walk: "_Walk") -> tuple[str, list[Tensor]] | None:
        """Return the name of the portion's next loss, and its share of the gradients and of the value."""
        with walk.stream.in_use():
            item = next(walk.losses, None)
        if item is None:
            return None
        name, loss = item
        # Differentiated at once, so that the portion's intermediate results can go.
        gradients = self.optimizer(name).gradients(loss)
        return name, [value * walk.weight for value in (*gradients, loss.detach())]


@dataclass
class _Walk:
    """The losses of one portion, its share of the batch's rows, and its random numbers."""

    losses: Iterator[tuple[str, Tensor]]
    weight: float
    stream: "_Stream"


class _Stream:
    """Random numbers of one portion, for the run's generator and the global ones, from which networks may draw."""

    def __init__(self, generator: torch.Generator, key: tuple[int, ...]) -> None:
        self._generators = [generator, torch.default_generator]
        if generator.device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[torch.cuda.current_device()])
        seed = int(np.random.SeedSequence(key).generate_state(1)[0])
        self._states = [torch.Generator(g.device).manual_seed(seed).get_state() for g in self._generators]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the generators give these numbers inside, and go on as before afterwards."""
        outside = [g.get_state() for g in self._generators]
        self._put(self._states)
        try:
            yield
        finally:
            self._states = [g.get_state() for g in self._generators]
            self._put(outside)

    def _put(self, states: list[Tensor]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)
