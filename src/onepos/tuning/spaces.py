"""The parameters that are tuned by default, method by method.

Left out: ``n_positives``, a fact about the data that the criterion cannot see (it looks at ranks, and m moves all
probabilities together); ``batch_size`` and ``max_epochs``, which mostly trade time.
"""

from numbers import Integral, Real
from typing import Any, TypeAlias

#: ``(low, high)``: a number, a whole one if both are; ``(low, high, "log")``: its logarithm is uniform. A list: one of
#: its values, which may have any type.
Range: TypeAlias = tuple[Any, ...] | list[Any]
Space: TypeAlias = dict[str, Range]

_SCALE = ["standard", "minmax", "none"]

#: By class name. A class inherits the entries of its base classes; its own come first. A class of another package has
#: a class attribute ``search_space``.
SPACES: dict[str, Space] = {
    "NeuralClassifier": {
        "learning_rate": (1e-4, 1e-2, "log"),
        "weight_decay": (1e-5, 1.0, "log"),  # decoupled: what counts is its product with the learning rate
        "dropout": (0.0, 0.6),
        "input_dropout": (0.0, 0.5),
        "network": ["auto", (64,), (256,), (512,), (256, 256)],
        "scale": _SCALE,
    },
    "AssumeNegativeClassifier": {"unobserved_weight": (0.01, 1.0, "log"), "label_smoothing": (0.0, 0.3)},
    "SMILEClassifier": {
        "n_neighbors": (3, 40, "log"),
        "elbo_weight": (1e-5, 1e-1, "log"),
        "warm_up_epochs": (0, 8),
    },
    "SMILESIClassifier": {"warm_up_epochs": (1, 10)},
    "ROLEClassifier": {"regularizer_weight": (0.1, 10.0, "log"), "label_rate_factor": (1.0, 100.0, "log")},
    "ForestClassifier": {"min_samples_leaf": (1, 30, "log"), "max_features": (0.02, 1.0, "log")},
    "KernelClassifier": {"width": (0.05, 20.0, "log"), "ridge": (0.03, 300.0, "log"), "scale": _SCALE},
    "LogisticClassifier": {"l2": (0.03, 10_000.0, "log"), "scale": _SCALE},
}


def default_space(estimator: Any) -> Space:
    """Return the parameters of an estimator that are tuned, and their ranges.

    Examples
    --------
    >>> import onepos
    >>> default_space(onepos.LogisticClassifier())
    {'l2': (0.03, 10000.0, 'log'), 'scale': ['standard', 'minmax', 'none']}
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
        raise ValueError(f"{name} has nothing to tune: pass space={{parameter: (low, high), …}}.")
    unknown = sorted(set(chosen) - set(estimator.get_params(deep=False)))
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(unknown)}: remove it from the space.")
    for parameter, values in chosen.items():
        if not _is_range(values):
            raise ValueError(
                f'space[{parameter!r}] must be (low, high) or (low, high, "log") with low below high, or a list of '
                f"values; got {values!r}. A logarithmic range begins above 0."
            )
    return chosen


def _is_range(values: Any) -> bool:
    if not isinstance(values, tuple):
        return isinstance(values, list) and len(values) > 0
    low, high, *log = (*values, None, None)[: max(2, len(values))]
    numbers = isinstance(low, Real) and isinstance(high, Real)
    return numbers and low < high and log in ([], ["log"]) and not (log and low <= 0)


def suggest(values: Range, trial: Any, name: str) -> Any:
    """Return the value that optuna suggests; of a list it draws a position, as it stores plain values only."""
    if isinstance(values, list):
        return values[trial.suggest_categorical(name, range(len(values)))]
    low, high, *log = values
    draw = trial.suggest_int if _is_whole(values) else trial.suggest_float
    return draw(name, low, high, log=bool(log))


def stored(values: Range, value: Any) -> Any:
    """Return a value as optuna stores it, a number or the position in a list; None if it lies outside of the range."""
    if isinstance(values, list):
        same = (i for i, option in enumerate(values) if type(option) is type(value) and option == value)
        return next(same, None)
    number = Integral if _is_whole(values) else Real
    if isinstance(value, bool) or not isinstance(value, number):
        return None
    return value if values[0] <= value <= values[1] else None


def _is_whole(values: Range) -> bool:
    return isinstance(values[0], Integral) and isinstance(values[1], Integral)
