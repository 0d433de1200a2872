"""What parameters of an estimator may be: constraints, declared as in scikit-learn, and the check of all of them.

A constraint is a ``Number``, a ``OneOf``, a type, None, ``callable``, or one of the words in ``_WORDS``.
"""

import math
from collections.abc import Mapping, Sequence
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
        kind: Any = Integral if self.whole else Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, kind) or not math.isfinite(value):
            return False
        too_low = value <= self.low if self.open_low else value < self.low
        return not too_low and not (value >= self.high if self.open_high else value > self.high)

    def __str__(self) -> str:
        low = "" if math.isinf(self.low) else f" {'above' if self.open_low else 'of at least'} {self.low:g}"
        high = "" if math.isinf(self.high) else f" {'below' if self.open_high else 'up to'} {self.high:g}"
        return f"{'an integer' if self.whole else 'a number'}{low}{' and' if low and high else ''}{high}"


@dataclass(frozen=True)
class OneOf:
    """One of some names."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(map(repr, sorted(self.names)))


#: A whole number from 1 on.
COUNT = Number(1, whole=True)
#: A number above 0.
POSITIVE = Number(0, open_low=True)
#: A number from 0 on.
POSITIVE_OR_ZERO = Number(0)
COUNT_OR_ZERO, AT_LEAST_ONE, NUMBER = Number(0, whole=True), Number(1), Number()
FRACTION, SHARE = Number(0, 1, open_low=True, open_high=True), Number(0, 1, open_low=True)
PROBABILITY = Number(0, 1)

#: The words that a constraint may be, and what they mean to a reader.
_WORDS = {
    "array-like": "a sequence",
    "boolean": "True or False",
    "random_state": "None, an integer of at least 0, a RandomState or a Generator",
    "verbose": "an integer of at least 0",
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
        for constraint in constraints[name]:
            if _holds(constraint, values[name]):
                break
        else:
            *others, last = map(_in_words, constraints[name])
            expected = f"{', '.join(others)} or {last}" if others else last
            raise ValueError(f"The {name!r} parameter of {owner} must be {expected}; got {values[name]!r}.")


def _holds(constraint: Any, value: Any) -> bool:
    """Whether a value satisfies a constraint."""
    match constraint:
        case Number():
            return constraint.holds(value)
        case OneOf():
            return isinstance(value, str) and value in constraint.names
        case None:
            return value is None
        case "array-like":
            return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping | type)
        case "boolean":
            return isinstance(value, bool | np.bool_)
        case "verbose":
            return isinstance(value, bool) or COUNT_OR_ZERO.holds(value)
        case "random_state":
            known = value is None or isinstance(value, np.random.RandomState | np.random.Generator)
            return known or COUNT_OR_ZERO.holds(value)
    return callable(value) if constraint is callable else isinstance(value, constraint)


def _in_words(constraint: Any) -> str:
    if isinstance(constraint, type):
        return f"a {constraint.__name__}"
    return "a function" if constraint is callable else _WORDS.get(constraint, str(constraint))
