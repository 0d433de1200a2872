"""The schedule of a run, the optimiser, and the steps that it takes for one batch.

The optimiser is AdamW with one fused kernel call per group of parameters: at batches of 16 rows, a step with
``torch.optim`` takes half as long again. A batch is computed in portions, ``gradient_accumulation`` in each process,
whose gradients are averaged. So k processes take the steps of one process with k portions. Each portion has random
numbers of its own, which depend on its number and not on the process that computes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepos.training.objective import Batch, Objective, Rows

#: Parameters and the factor on their learning rate, as ``Objective.trained_by`` returns them.
Groups = list[tuple[list[nn.Parameter], float]]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; names as in ``NeuralClassifier``.

    ``accumulation`` is the number of portions that a batch is computed in. ``stop_after`` ends training after so many
    of the ``max_epochs``, from which schedules are computed.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    patience: int | None = None
    rate_factors: Mapping[str, float] = field(default_factory=dict)
    accumulation: int = 1
    stop_after: int | None = None

    @property
    def n_epochs(self) -> int:
        """Epochs to train for."""
        return self.max_epochs if self.stop_after is None else min(self.stop_after, self.max_epochs)


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
    """Split groups by the factors of the network's parameters, of which the longest prefix counts; frozen ones go."""
    own = {id(p): _factor_of(name, factors) for name, p in network.named_parameters()}
    result: Groups = []
    for parameters, factor in groups:
        parts: dict[float, list[nn.Parameter]] = {}
        for parameter in parameters:
            if parameter.requires_grad:
                parts.setdefault(own.get(id(parameter), 1.0), []).append(parameter)
        result += [(part, factor * own_factor) for own_factor, part in parts.items() if own_factor]
    return result


def _factor_of(name: str, factors: Mapping[str, float]) -> float:
    found = [prefix for prefix in factors if _is_prefix(prefix, name)]
    return float(factors[max(found, key=len)]) if found else 1.0


def _is_prefix(prefix: str, name: str) -> bool:
    """Whether ``prefix`` is ``name`` or some of its first parts, which are separated by dots."""
    return name == prefix or name.startswith(f"{prefix}.")


class _Group:
    def __init__(self, parameters: list[nn.Parameter], rate_factor: float) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.rate_factor = rate_factor
        self.mean = [torch.zeros_like(p) for p in parameters]
        self.square = [torch.zeros_like(p) for p in parameters]
        self.count = torch.zeros((), device=parameters[0].device)


class FusedAdam:
    """AdamW over groups of parameters. Each step first shrinks them by ``1 − rate · weight_decay``."""

    def __init__(self, groups: Groups, weight_decay: float) -> None:
        self.groups = [_Group(parameters, factor) for parameters, factor in groups if parameters]
        self.parameters = [p for group in self.groups for p in group.parameters]
        self.weight_decay = weight_decay

    def gradients(self, loss: Tensor) -> Sequence[Tensor]:
        """Return the derivatives of ``loss`` by the parameters; zero where it does not depend on them."""
        return torch.autograd.grad(loss, self.parameters, materialize_grads=True)

    @torch.no_grad()
    def apply(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Take one step along the given gradients."""
        start = 0
        for group in self.groups:
            end = start + len(group.parameters)
            group.count.add_(1.0)
            torch._fused_adamw_(
                group.parameters,
                list(gradients[start:end]),
                group.mean,
                group.square,
                [],
                [group.count] * len(group.parameters),  # they all have taken the same number of steps
                lr=rate * group.rate_factor,
                beta1=0.9,
                beta2=0.999,
                weight_decay=self.weight_decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
                grad_scale=None,
                found_inf=None,
            )
            start = end

    def state(self) -> dict[str, Tensor]:
        """Means, squares and numbers of steps by name, as ``restore`` takes them."""
        named: dict[str, Tensor] = {}
        for number, group in enumerate(self.groups):
            named |= {f"{number}.mean.{place}": value for place, value in enumerate(group.mean)}
            named |= {f"{number}.square.{place}": value for place, value in enumerate(group.square)}
            named[f"{number}.count"] = group.count
        return named

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave."""
        for name, value in self.state().items():
            value.copy_(state[name])


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
            objective, factors = self.objective, self.schedule.rate_factors
            groups = with_rate_factors(objective.trained_by(loss), objective.network, factors)
            self.optimizers[loss] = FusedAdam(groups, self.schedule.weight_decay)
        return self.optimizers[loss]

    def take(self, index: Tensor, number: int, rate: float) -> Iterator[tuple[str, Tensor]]:
        """Take the steps of the batch of the given rows; yields the name and value of each loss."""
        if self.n_portions > 1:
            yield from self._in_portions(index, number, rate)
            return
        for name, loss in self.objective.losses(self.rows.batch(index, number)):
            optimizer = self.optimizer(name)
            optimizer.apply(optimizer.gradients(loss), rate)
            yield name, loss.detach()

    def own_portions(self, index: Tensor) -> list[tuple[int, Tensor]]:
        """Return number and rows of the portions of a batch that this process computes; none may be left for it."""
        first = self.rows.processes.rank * self.schedule.accumulation
        portions = list(enumerate(torch.tensor_split(index, self.n_portions)))
        return [(p, rows) for p, rows in portions[first : first + self.schedule.accumulation] if len(rows)]

    def _in_portions(self, index: Tensor, number: int, rate: float) -> Iterator[tuple[str, Tensor]]:
        """Advance all portions to their next loss, take one step from all of them, and so on."""
        # A process without rows repeats the first row with weight 0: it must take part in every exchange.
        own = self.own_portions(index) or [(0, index[:0])]
        portions = [
            self._shares(
                self.rows.batch(rows if len(rows) else index[:1], number),
                len(rows) / len(index),
                _Stream(self.generator, (self._seed, number, portion)),
            )
            for portion, rows in own
        ]
        for found in zip(*portions, strict=True):
            name = found[0][0]
            sums = [torch.stack(parts).sum(dim=0) for parts in zip(*(shares for _, shares in found), strict=True)]
            *gradients, value = self.rows.processes.sum(sums)
            self.optimizer(name).apply(gradients, rate)
            yield name, value

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
