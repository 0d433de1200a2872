"""What parameters of an estimator may be: constraints, declared as in scikit-learn, and the check of all of them.

A constraint is a ``Number``, a ``OneOf``, a type, None, ``callable``, or one of the words in ``_BY_WORD``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

#: Constraints on parameters by name.
Constraints = dict[str, list[Any]]


@dataclass(frozen=True)
class Number:
    """A finite number from ``low`` to ``high``, each included unless its ``open_…`` says otherwise. A bool is none."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is such a number."""
        if not isinstance(value, Integral if self.whole else Real) or isinstance(value, bool):
            return False
        inside = self.low < value < self.high
        return math.isfinite(value) and (
            inside or (value == self.low and not self.open_low) or (value == self.high and not self.open_high)
        )

    def __str__(self) -> str:
        low = "" if math.isinf(self.low) else f" {'above' if self.open_low else 'of at least'} {self.low:g}"
        high = "" if math.isinf(self.high) else f" {'below' if self.open_high else 'up to'} {self.high:g}"
        return f"{'an integer' if self.whole else 'a number'}{low}{' and' if low and high else ''}{high}"


@dataclass(frozen=True)
class OneOf:
    """One of some names."""

    names: tuple[str, ...]

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return isinstance(value, str) and value in self.names

    def __str__(self) -> str:
        return ", ".join(map(repr, sorted(self.names)))


COUNT, COUNT_OR_ZERO = Number(1, whole=True), Number(0, whole=True)
POSITIVE, POSITIVE_OR_ZERO, AT_LEAST_ONE, NUMBER = Number(0, open_low=True), Number(0), Number(1), Number()
FRACTION, SHARE = Number(0, 1, open_low=True, open_high=True), Number(0, 1, open_low=True)
PROBABILITY = Number(0, 1)

#: The words that a constraint may be: what they mean to a reader, and their check.
_BY_WORD: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "array-like": (
        "a sequence",
        lambda value: hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping | type),
    ),
    "boolean": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
    "random_state": (
        "None, an integer of at least 0, a RandomState or a Generator",
        lambda value: (
            value is None
            or COUNT_OR_ZERO.holds(value)
            or isinstance(value, np.random.RandomState | np.random.Generator)
        ),
    ),
    "verbose": ("an integer of at least 0", lambda value: isinstance(value, bool) or COUNT_OR_ZERO.holds(value)),
}


def below(limit: float) -> Number:
    """Constraint of a parameter from 0 to less than a limit."""
    return Number(0, limit, open_high=True)


def one_of(*names: str) -> OneOf:
    """Constraint of a parameter that takes one of some names."""
    return OneOf(names)


def check_parameters(owner: str, values: Mapping[str, Any], constraints: Mapping[str, Sequence[Any]]) -> None:
    """Raise ValueError unless each value satisfies one of its constraints; parameters without any may be anything."""
    for name in constraints.keys() & values.keys():
        value = values[name]
        if not any(_holds(constraint, value) for constraint in constraints[name]):
            *others, last = map(_in_words, constraints[name])
            expected = f"{', '.join(others)} or {last}" if others else last
            raise ValueError(f"The {name!r} parameter of {owner} must be {expected}; got {value!r}.")


def _holds(constraint: Any, value: Any) -> bool:
    if isinstance(constraint, Number | OneOf):
        return constraint.holds(value)
    if isinstance(constraint, str):
        return _BY_WORD[constraint][1](value)
    if constraint is None or constraint is callable:
        return value is None if constraint is None else callable(value)
    return isinstance(value, constraint) and (constraint is bool or not isinstance(value, bool))


def _in_words(constraint: Any) -> str:
    if isinstance(constraint, str):
        return _BY_WORD[constraint][0]
    if isinstance(constraint, type):
        return f"a {constraint.__name__}"
    return "a function" if constraint is callable else str(constraint)
