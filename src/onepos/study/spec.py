"""What a study fixes: data, methods, grids, trials, selection. Frozen values; nothing is left to chance or habit."""

import hashlib
import inspect
import json
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from typing import Any, Literal

from onepos.methods.registry import METHODS

Rule = Literal["clean", "single-positive"]
RULES: tuple[Rule, ...] = ("clean", "single-positive")

Parameters = dict[str, Any]


@dataclass(frozen=True)
class DataGroup:
    """Data sets that share settings.

    Attributes
    ----------
    sets : names of ``onepos.datasets.list_datasets()``, or of the embedded ones (``onepos.study.cells.EMBEDDED``)
    fixed, grid : settings for every method that has such a parameter; a grid's values are tried
    train_fractions : parts of the training rows to train on, each a study of its own
    rules : selection rules for these sets; none given: the study's
    """

    sets: tuple[str, ...]
    fixed: Parameters = field(default_factory=dict)
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    train_fractions: tuple[float, ...] = (1.0,)
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class MethodEntry:
    """A method of the study: registry key, the name it has here, its own fixed settings and grid.

    ``per_dataset`` are fixed settings by name of the data set, for methods whose authors printed some.
    """

    key: str
    name: str
    fixed: Parameters = field(default_factory=dict)
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    per_dataset: dict[str, Parameters] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """How a setting is chosen from the grid.

    Attributes
    ----------
    when : "first-trial" (later trials keep its choice) or "each-trial"
    each_trial_below : data sets with fewer rows choose in each trial whatever ``when`` says
    screen_epochs : epochs after which settings are compared for the first time; 0 trains all of them to the end
    keep : how many settings survive the screening
    keep_each : parameters; so many survive for each combination of their values. A few epochs favour large learning
        rates, so that settings which learn at different speeds should not be screened against each other.
    """

    when: str = "first-trial"
    each_trial_below: int = 0
    screen_epochs: int = 0
    keep: int = 1
    keep_each: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Extra measurements, by data set: for pictures, never for choosing."""

    test_curve: tuple[str, ...] = ()
    soft_label_change: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A whole evaluation. Trial t splits with seed ``seed + t`` and draws its positives with ``seed + 1000 + t``."""

    name: str
    description: str
    trials: int
    data: tuple[DataGroup, ...]
    methods: tuple[MethodEntry, ...]
    seed: int = 0
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    positive_rule: str = "uniform"
    rules: tuple[Rule, ...] = ("clean",)
    metric: str = "average_precision"
    common: Parameters = field(default_factory=dict)
    common_grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)
    record: Record = field(default_factory=Record)

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every data set, in order."""
        return tuple(name for group in self.data for name in group.sets)

    @property
    def content_hash(self) -> str:
        """Return sixteen hexadecimal digits that change with anything the study fixes, its description aside."""
        content = asdict(self)
        del content["description"]
        return digest(content)


def digest(content: Any) -> str:
    """Hash plain values: equal content, equal digits, whatever the order of keys."""
    text = json.dumps(content, sort_keys=True, default=list, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def accepted_parameters(key: str) -> frozenset[str]:
    """Return the parameters that a study may set: those of the class but ``random_state`` and ``verbose``."""
    names = inspect.signature(METHODS[key].load_class()).parameters
    return frozenset(names) - {"random_state", "verbose"}


def settings_of(study: Study, group: DataGroup, method: MethodEntry, dataset: str) -> list[Parameters]:
    """Every setting that a method tries on a data set, in the order of the grid.

    A method's own settings go before those of the data group, these before the common ones. Common and group settings
    reach only methods that have such a parameter; what is fixed by a stronger source is not tried from a weaker one.
    """
    accepted = accepted_parameters(method.key)
    fixed: Parameters = {}
    grid: dict[str, tuple[Any, ...]] = {}
    own = {**method.fixed, **method.per_dataset.get(dataset, {})}
    for new_fixed, new_grid in ((study.common, study.common_grid), (group.fixed, group.grid), (own, method.grid)):
        for name, value in new_fixed.items():
            if name in accepted:
                grid.pop(name, None)
                fixed[name] = value
        for name, values in new_grid.items():
            if name in accepted:
                fixed.pop(name, None)
                grid[name] = values
    names = list(grid)
    return [{**fixed, **dict(zip(names, values, strict=True))} for values in product(*grid.values())]
