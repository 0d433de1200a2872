"""The parameters that are tuned by default, method by method.

Left out: ``n_positives``, a fact about the data that the criterion cannot see (it looks at ranks, and m moves all
probabilities together); ``batch_size`` and ``max_epochs``, which mostly trade time; kernels and other parameters that
make a trial many times slower.
"""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True)
class Uniform:
    """A number from ``low`` to ``high``, each equally likely."""

    low: float
    high: float
    log: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low must be below high; got {self}.")
        if self.log and self.low <= 0:
            raise ValueError(f"a range on a logarithmic scale starts above 0; got {self}.")

    def suggest(self, trial: Any, name: str) -> Any:
        """Return the value that optuna suggests."""
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def code(self, value: Any) -> Any:
        """Return a value as optuna stores it; None if it lies outside."""
        if type(value) is bool or not isinstance(value, Real):
            return None
        return value if self.low <= float(value) <= self.high else None


@dataclass(frozen=True)
class LogUniform(Uniform):
    """A number whose logarithm is uniform: for learning rates and strengths, where the power of ten matters."""

    log: ClassVar[bool] = True


@dataclass(frozen=True)
class Integer(Uniform):
    """A whole number from ``low`` to ``high``; ``log`` as in ``LogUniform``."""

    low: int
    high: int
    log: bool = False  # type: ignore[misc]  # a range of whole numbers may be either

    def suggest(self, trial: Any, name: str) -> Any:
        """Return the value that optuna suggests."""
        return trial.suggest_int(name, self.low, self.high, log=self.log)

    def code(self, value: Any) -> Any:
        """Return a value as optuna stores it; None if it lies outside."""
        return super().code(value) if isinstance(value, Integral) else None


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

    def suggest(self, trial: Any, name: str) -> Any:
        """Return the value that optuna suggests. It draws a position, as it stores plain values only."""
        return self.options[trial.suggest_categorical(name, range(len(self.options)))]

    def code(self, value: Any) -> Any:
        """Return a value as optuna stores it, its position; None if it is none of the options."""
        same = (i for i, option in enumerate(self.options) if type(option) is type(value) and option == value)
        return next(same, None)


Dimension: TypeAlias = Uniform | Choice
Space: TypeAlias = dict[str, Dimension]

_SCALE = Choice("standard", "minmax", "none")

#: By class name. A class inherits the entries of its base classes; its own come first. A class of another package has
#: a class attribute ``search_space``.
SPACES: dict[str, Space] = {
    "NeuralClassifier": {
        "learning_rate": LogUniform(1e-4, 1e-2),
        "weight_decay": LogUniform(1e-5, 1.0),  # decoupled: what counts is its product with the learning rate
        "dropout": Uniform(0.0, 0.6),
        "input_dropout": Uniform(0.0, 0.5),
        "network": Choice("auto", (64,), (256,), (512,), (256, 256)),
        "scale": _SCALE,
    },
    "AssumeNegativeClassifier": {"unobserved_weight": LogUniform(0.01, 1.0), "label_smoothing": Uniform(0.0, 0.3)},
    "SMILEClassifier": {
        "n_neighbors": Integer(3, 40, log=True),
        "elbo_weight": LogUniform(1e-5, 1e-1),
        "warm_up_epochs": Integer(0, 8),
    },
    "SMILESIClassifier": {"warm_up_epochs": Integer(1, 10)},
    "ROLEClassifier": {"regularizer_weight": LogUniform(0.1, 10.0), "label_rate_factor": LogUniform(1.0, 100.0)},
    "ForestClassifier": {"min_samples_leaf": Integer(1, 30, log=True), "max_features": LogUniform(0.02, 1.0)},
    "KernelClassifier": {"width": LogUniform(0.05, 20.0), "ridge": LogUniform(0.03, 300.0), "scale": _SCALE},
    "LogisticClassifier": {"l2": LogUniform(0.03, 10_000.0), "scale": _SCALE},
}


def default_space(estimator: Any) -> Space:
    """Return the parameters of an estimator that are tuned, and their ranges.

    Examples
    --------
    >>> import onepos
    >>> list(default_space(onepos.LogisticClassifier()))
    ['l2', 'scale']
    """
    space: Space = {}
    for kind in reversed(type(estimator).__mro__):
        space |= SPACES.get(kind.__name__, {}) | vars(kind).get("search_space", {})
    if callable(getattr(estimator, "network", None)):
        # A module of the user's own, or a function that makes one, is not changed.
        for name in ("network", "dropout", "input_dropout"):
            space.pop(name, None)
    return space


def check_space(space: Any, estimator: Any) -> Space:
    """Return the space to search, with every name a parameter of the estimator."""
    chosen: Space = default_space(estimator) if space is None else dict(space)
    name = type(estimator).__name__
    if not chosen:
        raise ValueError(f"{name} has nothing to tune: pass space={{parameter: LogUniform(low, high), …}}.")
    unknown = sorted(set(chosen) - set(estimator.get_params(deep=False)))
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(unknown)}: remove it from the space.")
    for parameter, dimension in chosen.items():
        if not isinstance(dimension, Dimension):
            raise ValueError(
                f"space[{parameter!r}] must be a Uniform, LogUniform, Integer or Choice of onepos.tuning; got "
                f"{dimension!r}."
            )
    return chosen
