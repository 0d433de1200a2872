"""Learning rates of a network's parts: a factor for every prefix of its parameters' names."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from torch import nn

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
