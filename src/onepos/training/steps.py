"""The schedule of a run, the optimisers, and the steps that they take for one batch.

The optimiser is torch's fused AdamW. A batch is computed in portions, ``gradient_accumulation`` in each process, whose
gradients are averaged. So k processes take the steps of one process with k portions. Each portion has random numbers
of its own, which depend on its number and not on the process that computes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from onepos.training.objective import Batch, Objective, Rows

#: Parameters and the factor on their learning rate, as ``Objective.trained_by`` returns them.
Groups = list[tuple[list[nn.Parameter], float]]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; names as in ``NeuralClassifier``.

    ``accumulation`` is the number of portions that a batch is computed in.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    patience: int | None = None
    rate_factors: Mapping[str, float] = field(default_factory=dict)
    accumulation: int = 1


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
    own = {id(p): _factor_of(name, factors) for name, p in network.named_parameters()} if factors else {}
    result: Groups = []
    for parameters, factor in groups:
        parts: dict[float, list[nn.Parameter]] = {}
        for parameter in parameters:
            if parameter.requires_grad:
                parts.setdefault(own.get(id(parameter), 1.0), []).append(parameter)
        for own_factor, part in parts.items():
            if own_factor:
                result.append((part, factor * own_factor))
    return result


def _factor_of(name: str, factors: Mapping[str, float]) -> float:
    """Return the factor of the longest prefix of a parameter's name."""
    prefixes = [prefix for prefix in factors if _is_prefix(prefix, name)]
    return float(factors[max(prefixes, key=len)]) if prefixes else 1.0


def _is_prefix(prefix: str, name: str) -> bool:
    """Whether ``prefix`` is ``name`` or some of its first parts, which are separated by dots."""
    return name == prefix or name.startswith(f"{prefix}.")


class Optimizer:
    """Fused AdamW over groups of parameters; gradients are given, so that they may come from several processes."""

    def __init__(self, groups: Groups, rate: float, weight_decay: float) -> None:
        options: list[dict[str, Any]] = []
        self.parameters: list[Tensor] = []
        for parameters, factor in groups:
            options.append({"params": parameters, "lr": rate * factor})
            self.parameters += parameters
        self._adam = torch.optim.AdamW(options, weight_decay=weight_decay, fused=True)

    def gradients(self, loss: Tensor) -> Sequence[Tensor]:
        """Return the derivatives of ``loss`` by the parameters; zero where it does not depend on them."""
        return torch.autograd.grad(loss, self.parameters, materialize_grads=True)

    def apply(self, gradients: Sequence[Tensor]) -> None:
        """Take one step along the given gradients."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self._adam.step()
        self._adam.zero_grad()

    def state(self) -> dict[str, Tensor]:
        """Return means, squares and numbers of steps by name, as ``restore`` takes them."""
        states = self._adam.state_dict()["state"]
        return {f"{number}.{name}": value for number, state in states.items() for name, value in state.items()}

    def restore(self, named: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave."""
        states: dict[int, dict[str, Tensor]] = {number: {} for number in range(len(self.parameters))}
        for key, value in named.items():
            number, _, name = key.partition(".")
            states[int(number)][name] = value
        for parameter, state in zip(self.parameters, states.values(), strict=True):
            if state["exp_avg"].shape != parameter.shape:
                raise ValueError(f"a mean of Adam has shape {tuple(state['exp_avg'].shape)}")
        self._adam.load_state_dict(self._adam.state_dict() | {"state": states})


class Shares(NamedTuple):
    """What a batch computed in portions knows of a loss: its gradients and its value."""

    gradients: Sequence[Tensor]
    value: Tensor


@dataclass
class Steps:
    """The optimisers of an objective, one for each loss that it yields, and the steps that they take for a batch."""

    objective: Objective
    rows: Rows
    schedule: Schedule
    generator: torch.Generator
    optimizers: dict[str, Optimizer] = field(default_factory=dict)

    def optimizer(self, loss: str) -> Optimizer:
        """Return the optimiser of the named loss, made when it is first asked for."""
        if loss not in self.optimizers:
            objective, schedule = self.objective, self.schedule
            groups = with_rate_factors(objective.trained_by(loss), objective.network, schedule.rate_factors)
            self.optimizers[loss] = Optimizer(groups, schedule.learning_rate, schedule.weight_decay)
        return self.optimizers[loss]

    def losses(self, index: Tensor, number: int) -> Iterator[tuple[str, Tensor | Shares]]:
        """Return the losses of the batch of the given rows by name; ``take`` must follow each before the next one."""
        if self.schedule.accumulation * self.rows.processes.size > 1:
            return self._in_portions(index, number)
        return self.objective.losses(self.rows.batch(index, number))

    def take(self, name: str, loss: Tensor | Shares) -> Tensor:
        """Take a step on a loss and return its value."""
        optimizer = self.optimizer(name)
        if isinstance(loss, Tensor):
            loss = Shares(optimizer.gradients(loss), loss.detach())
        optimizer.apply(loss.gradients)
        return loss.value

    def own_portions(self, index: Tensor) -> list[tuple[int, Tensor]]:
        """Return number and rows of the portions of a batch that this process computes; none may be left for it."""
        first = self.rows.processes.rank * self.schedule.accumulation
        portions = list(enumerate(torch.tensor_split(index, self.schedule.accumulation * self.rows.processes.size)))
        return [(p, rows) for p, rows in portions[first : first + self.schedule.accumulation] if len(rows)]

    def _in_portions(self, index: Tensor, number: int) -> Iterator[tuple[str, Shares]]:
        """Advance all portions to their next loss, add up their shares of it, and so on."""
        # A process without rows repeats the first row with weight 0: it must take part in every exchange.
        own = self.own_portions(index) or [(0, index[:0])]
        seed = self.generator.initial_seed()
        portions = [
            self._shares(
                self.rows.batch(rows if len(rows) else index[:1], number),
                len(rows) / len(index),
                _Stream(self.generator, (seed, number, portion)),
            )
            for portion, rows in own
        ]
        for parts in zip(*portions, strict=True):
            name = parts[0][0]
            sums = [torch.stack(shares).sum(dim=0) for shares in zip(*(values for _, values in parts), strict=True)]
            *gradients, value = self.rows.processes.sum(sums)
            yield name, Shares(gradients, value)

    def _shares(self, batch: Batch, weight: float, stream: "_Stream") -> Iterator[tuple[str, list[Tensor]]]:
        """Yield the name of each loss of a portion, and its share of the gradients and of the value."""
        losses = self.objective.losses(batch)
        while True:
            with stream.in_use():
                item = next(losses, None)
            if item is None:
                return
            name, loss = item
            # Differentiated at once, so that the portion's intermediate results can go.
            yield name, [value * weight for value in (*self.optimizer(name).gradients(loss), loss.detach())]


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
