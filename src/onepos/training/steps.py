"""The schedule of a run, the optimisers, and the steps that they take for one batch.

The optimiser is torch's fused AdamW. A batch is computed in portions, ``gradient_accumulation`` in each process, whose
gradients are averaged: k processes take the steps of one process with k portions. The random numbers of a portion
depend on its number, not on the process that computes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from onepos.training.objective import Batch, Groups, Objective, TrainingRows


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; names as in ``NeuralClassifier``.

    ``accumulation`` is the number of portions that a batch is computed in, ``average`` the number of epochs over which
    weights are averaged (0: they are not), ``n_pretraining`` the number of epochs that pretrain hidden layers before.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    patience: int | None = None
    rate_factors: Mapping[str, float] = field(default_factory=dict)
    accumulation: int = 1
    average: float = 0.0
    n_pretraining: int = 0


def check_rate_factors(network: nn.Module, factors: Mapping[str, Any]) -> None:
    """Raise unless every prefix names parameters, every factor is at least 0 and something is left to train."""
    names = [name for name, _ in network.named_parameters()]
    for prefix, factor in factors.items():
        if not any(_is_prefix(prefix, name) for name in names):
            there = ", ".join(sorted({name.partition(".")[0] for name in names}))
            raise ValueError(
                f"learning_rate_factors names {prefix!r}, but no parameter of the network begins so. Prefixes there "
                f"are: {there}; and longer ones, up to whole names such as {names[0]!r}."
            )
        if isinstance(factor, bool) or not isinstance(factor, Real) or not 0 <= float(factor) < float("inf"):
            raise ValueError(
                f"learning_rate_factors[{prefix!r}] must be a number from 0 on (0 freezes); got {factor!r}."
            )
    if not any(p.requires_grad and _factor_of(name, factors) for name, p in network.named_parameters()):
        raise ValueError(
            "nothing is left to train: every parameter of the network is frozen, by a factor of 0 in "
            "learning_rate_factors or by requires_grad=False."
        )


def with_rate_factors(groups: Groups, network: nn.Module, factors: Mapping[str, float]) -> Groups:
    """Return the groups, split by the factors of the network's parameters; frozen parameters are left out."""
    own = {p: _factor_of(name, factors) for name, p in network.named_parameters()} if factors else {}
    result: Groups = []
    for group in groups:
        parts: dict[float, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            if parameter.requires_grad and own.get(parameter, 1.0):
                parts.setdefault(own.get(parameter, 1.0), []).append(parameter)
        for factor, part in parts.items():
            result.append(group | {"params": part, "lr": group.get("lr", 1.0) * factor})
    return result


def _factor_of(name: str, factors: Mapping[str, float]) -> float:
    """Return the factor of the longest prefix of a parameter's name."""
    prefixes = [prefix for prefix in factors if _is_prefix(prefix, name)]
    return float(factors[max(prefixes, key=len)]) if prefixes else 1.0


def _is_prefix(prefix: str, name: str) -> bool:
    """Whether ``prefix`` is ``name`` or some of its first parts, which are separated by dots."""
    return name == prefix or name.startswith(f"{prefix}.")


#: Of a batch in portions: the gradients of a loss by its parameters, then its value.
Shares = Sequence[Tensor]


@dataclass
class Steps:
    """The optimisers of an objective, one for each loss that it yields, and the steps that they take for a batch."""

    objective: Objective
    rows: TrainingRows
    schedule: Schedule
    generator: torch.Generator
    optimizers: dict[str, AdamW] = field(default_factory=dict)
    #: What each of them trains, in the order in which gradients are computed.
    trained: dict[str, list[Tensor]] = field(default_factory=dict)

    def optimizer(self, loss: str) -> AdamW:
        """Return the optimiser of the named loss, made when it is first asked for."""
        if loss not in self.optimizers:
            objective, schedule = self.objective, self.schedule
            groups = with_rate_factors(objective.trained_by(loss), objective.network, schedule.rate_factors)
            self.trained[loss] = []
            for group in groups:
                group["lr"] *= schedule.learning_rate
                self.trained[loss] += group["params"]
            self.optimizers[loss] = AdamW(groups, weight_decay=schedule.weight_decay, fused=True)
        return self.optimizers[loss]

    def losses(self, index: Tensor, number: int) -> Iterator[tuple[str, Tensor | Shares]]:
        """Return the losses of the batch of the given rows by name; ``take`` must follow each before the next one."""
        if self.schedule.accumulation * self.rows.processes.size > 1:
            return self._in_portions(index, number)
        return self.objective.losses(self.rows.batch(index))

    def take(self, name: str, loss: Tensor | Shares) -> Tensor:
        """Take a step on a loss and return its value."""
        optimizer = self.optimizer(name)
        *gradients, value = self._shares(name, loss) if isinstance(loss, Tensor) else loss
        for parameter, gradient in zip(self.trained[name], gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        optimizer.zero_grad()
        return value

    def own_portions(self, index: Tensor) -> list[tuple[int, Tensor]]:
        """Return number and rows of the portions of a batch that this process computes; none may be left for it."""
        first = self.rows.processes.rank * self.schedule.accumulation
        portions = list(enumerate(torch.tensor_split(index, self.schedule.accumulation * self.rows.processes.size)))
        return [(p, rows) for p, rows in portions[first : first + self.schedule.accumulation] if len(rows)]

    def _shares(self, name: str, loss: Tensor) -> Shares:
        """Return the derivatives of a loss by its parameters, zero where it does not depend on them, and its value."""
        self.optimizer(name)
        gradients = torch.autograd.grad(loss, self.trained[name], materialize_grads=True)
        return *gradients, loss.detach()

    def _in_portions(self, index: Tensor, number: int) -> Iterator[tuple[str, Shares]]:
        """Advance all portions to their next loss, add up their shares of it, and so on."""
        # A process without rows repeats the first row with weight 0: it must take part in every exchange.
        own = self.own_portions(index) or [(0, index[:0])]
        seed = self.generator.initial_seed()
        portions = [
            self._portion(
                self.rows.batch(rows if len(rows) else index[:1]),
                len(rows) / len(index),
                _Stream(self.generator, (seed, number, portion)),
            )
            for portion, rows in own
        ]
        for parts in zip(*portions, strict=True):
            sums = [torch.stack(shares).sum(dim=0) for shares in zip(*(shares for _, shares in parts), strict=True)]
            yield parts[0][0], self.rows.processes.sum(sums)

    def _portion(self, batch: Batch, weight: float, stream: "_Stream") -> Iterator[tuple[str, Shares]]:
        """Yield the name of each loss of a portion, and its share of the gradients and of the value."""
        losses = self.objective.losses(batch)
        while True:
            with stream.in_use():
                item = next(losses, None)
            if item is None:
                return
            # Differentiated at once, so that the portion's intermediate results can go.
            yield item[0], [value * weight for value in self._shares(*item)]


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
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        before = [g.get_state() for g in self._generators]
        for generator, state in zip(self._generators, self._states, strict=True):
            generator.set_state(state)
        self._states = before
