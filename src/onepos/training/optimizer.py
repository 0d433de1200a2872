"""The optimiser, the schedule of a run, and learning rates for parts of a network.

The optimiser is AdamW with one fused kernel call for each group of parameters: at batches of 16 rows most of the time
of ``torch.optim`` goes into its own bookkeeping.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class _Group:
    parameters: list[Tensor]
    rate_factor: float
    mean: list[Tensor] = field(default_factory=list)
    square: list[Tensor] = field(default_factory=list)
    count: Tensor = field(default_factory=lambda: torch.zeros(()))

    def __post_init__(self) -> None:
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.square = [torch.zeros_like(p) for p in self.parameters]
        self.count = torch.zeros((), device=self.parameters[0].device)


class FusedAdam:
    """AdamW over groups of (parameters, factor on the learning rate).

    Parameters
    ----------
    groups : sequence of (list of parameters, float)
    weight_decay : float
        Decoupled: each step first shrinks the parameters by ``1 − rate · weight_decay``, so its strength does not
        depend on how the loss is scaled.
    """

    def __init__(self, groups: Sequence[tuple[list[nn.Parameter], float]], weight_decay: float) -> None:
        self.groups = [_Group(list(parameters), factor) for parameters, factor in groups if parameters]
        self.parameters = [p for group in self.groups for p in group.parameters]
        self.weight_decay = weight_decay

    def step(self, loss: Tensor, rate: float) -> None:
        """Differentiate ``loss`` and take one step."""
        self.apply(self.gradients(loss), rate)

    def gradients(self, loss: Tensor) -> Sequence[Tensor]:
        """Return the derivatives of ``loss`` by the parameters; zero where it does not depend on them."""
        return torch.autograd.grad(loss, self.parameters, materialize_grads=True)

    def apply(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Take one step along the given gradients."""
        start = 0
        with torch.no_grad():
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
        return dict(self._state())

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave."""
        for name, value in self._state():
            value.copy_(state[name])

    def _state(self) -> list[tuple[str, Tensor]]:
        named: list[tuple[str, Tensor]] = []
        for number, group in enumerate(self.groups):
            named += [(f"{number}.mean.{place}", value) for place, value in enumerate(group.mean)]
            named += [(f"{number}.square.{place}", value) for place, value in enumerate(group.square)]
            named.append((f"{number}.count", group.count))
        return named


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    ``patience`` epochs without a better validation score end training; None never stops early. The weights of the
    best epoch are restored whenever there is a scorer. ``rate_factors`` multiply the learning rate of those parameters
    of the network whose names begin so. ``accumulation`` is the number of portions that a batch is computed in.
    ``stop_after`` ends training after so many of the ``max_epochs``, by which a decay is measured.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    patience: int | None = None
    learning_rate_decay: str = "none"
    rate_factors: Mapping[str, float] = field(default_factory=dict)
    accumulation: int = 1
    stop_after: int | None = None

    @property
    def n_epochs(self) -> int:
        """Epochs to train for."""
        return self.max_epochs if self.stop_after is None else min(self.stop_after, self.max_epochs)

    def rate_factor(self, epoch: int) -> float:
        """Multiplier of the learning rate in a 0-based epoch: 1, or half a cosine from 1 towards 0."""
        if self.learning_rate_decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * epoch / self.max_epochs))
        return 1.0


#: Parameters and the factor on their learning rate, as ``Objective.trained_by`` returns them.
Groups = list[tuple[list[nn.Parameter], float]]


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
    """Split groups by the factors of the network's parameters; frozen ones are left out, and cost no gradient.

    The longest prefix counts. Parameters of other modules stay as they are.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1))
    >>> groups = with_rate_factors([(list(network.parameters()), 1.0)], network, {"0": 0.1, "1.bias": 0.0})
    >>> [(len(parameters), factor) for parameters, factor in groups]
    [(1, 0.1), (1, 1.0)]
    """
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
