"""What a parameter may be while it is tuned: a range of numbers, or one of several values."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Uniform:
    """A number from ``low`` to ``high``, every one as likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_range(self, self.low, self.high)

    def distribution(self, optuna: Any) -> Any:
        """Optuna's name for it."""
        return optuna.distributions.FloatDistribution(self.low, self.high)

    def encode(self, value: Any) -> Any:
        """What optuna knows a value as; None if it lies outside."""
        return float(value) if _is_number(value, Real) and self.low <= value <= self.high else None

    def decode(self, drawn: Any) -> Any:
        """Value of what optuna drew."""
        return drawn


@dataclass(frozen=True)
class LogUniform(Uniform):
    """A number whose logarithm is uniform: for learning rates and strengths, where the power of ten matters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"a range on a logarithmic scale starts above 0; got {self}.")

    def distribution(self, optuna: Any) -> Any:
        """Optuna's name for it."""
        return optuna.distributions.FloatDistribution(self.low, self.high, log=True)


@dataclass(frozen=True)
class Integer:
    """A whole number from ``low`` to ``high``; ``log`` as in ``LogUniform``."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self, self.low, self.high)
        if self.log and self.low < 1:
            raise ValueError(f"a range on a logarithmic scale starts above 0; got {self}.")

    def distribution(self, optuna: Any) -> Any:
        """Optuna's name for it."""
        return optuna.distributions.IntDistribution(self.low, self.high, log=self.log)

    def encode(self, value: Any) -> Any:
        """What optuna knows a value as; None if it lies outside."""
        return int(value) if _is_number(value, Integral) and self.low <= value <= self.high else None

    def decode(self, drawn: Any) -> Any:
        """Value of what optuna drew."""
        return drawn


@dataclass(frozen=True, init=False)
class Choice:
    """One of the values given, of any type.

    Examples
    --------
    >>> Choice((64,), (256,)).options
    ((64,), (256,))
    """

    options: tuple[Any, ...]

    def __init__(self, *options: Any) -> None:
        if not options:
            raise ValueError("Choice needs at least one value to choose from.")
        object.__setattr__(self, "options", options)

    def distribution(self, optuna: Any) -> Any:
        """Optuna's name for it: positions, as it stores plain values alone."""
        return optuna.distributions.CategoricalDistribution(tuple(range(len(self.options))))

    def encode(self, value: Any) -> Any:
        """What optuna knows a value as; None if it is none of the options."""
        for position, option in enumerate(self.options):
            if type(option) is type(value) and option == value:
                return position
        return None

    def decode(self, drawn: Any) -> Any:
        """Value of what optuna drew."""
        return self.options[drawn]


Dimension: TypeAlias = Uniform | LogUniform | Integer | Choice
Space: TypeAlias = dict[str, Dimension]


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_range(dimension: Any, low: float, high: float) -> None:
    if not low < high:
        raise ValueError(f"low must be below high; got {dimension}.")
