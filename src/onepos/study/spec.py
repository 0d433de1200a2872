"""What a study fixes: data, methods, grids, trials, selection. Frozen values; nothing is left to chance or habit."""

import hashlib
import inspect
import json
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from typing import Any, Literal

from onepos.methods.registry import get_method

Rule = Literal["clean", "single-positive"]
RULES: tuple[Rule, ...] = ("clean", "single-positive")

#: Which positive of a row is observed: see ``onepos.datasets.make_single_positive``.
POSITIVE_RULES = ("uniform", "frequency", "dominance", "weights")

Parameters = dict[str, Any]
Grid = dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class DataGroup:
    """Data sets that share settings: registered ones, or one file.

    Attributes
    ----------
    sets : names of ``onepos.datasets.list_datasets()``, or of the embedded ones (``onepos.study.cells.EMBEDDED``)
    file : a data file of one's own in place of ``sets``; a relative path starts at the study file
    name : what the file is called in rows and tables; not given: the file's name without its ending
    read : what the reader of the file needs, as ``label``, ``labels``, ``separator``, ``text`` for a table
    sha256 : checksum of the file, which is part of its cells; computed when it is not given
    fixed, grid : settings for every method that has such a parameter; a grid's values are tried
    train_fractions : parts of the training rows to train on, each a study of its own
    rules : selection rules for these sets; none given: the study's
    positive_rules : rules by which these sets lose labels, each a data set of its own, as in ``yeast:frequency``; none
        given: the study's
    """

    sets: tuple[str, ...] = ()
    file: str = ""
    name: str = ""
    read: Parameters = field(default_factory=dict)
    sha256: str = ""
    fixed: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    train_fractions: tuple[float, ...] = (1.0,)
    rules: tuple[Rule, ...] = ()
    positive_rules: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets as rows and tables call them."""
        sets = (self.name,) if self.file else self.sets
        return tuple(f"{name}:{rule}" for name in sets for rule in self.positive_rules) if self.positive_rules else sets


@dataclass(frozen=True)
class MethodEntry:
    """A method of the study: its key, the name it has here, its own fixed settings and grid.

    The key is one of ``onepos.list_methods()``, or ``package.module:Class`` for a class of one's own.
    ``per_dataset`` are fixed settings by name of the data set, for methods whose authors printed some.
    """

    key: str
    name: str
    fixed: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
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
    """A whole evaluation. Trial t splits with seed ``seed + t`` and draws its positives with ``seed + 1000 + t``.

    ``positive_weights`` belong to the positive rule "weights": a weight by name of a label; labels not named have 1.
    """

    name: str
    trials: int
    data: tuple[DataGroup, ...]
    methods: tuple[MethodEntry, ...]
    description: str = ""
    seed: int = 0
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    positive_rule: str = "uniform"
    positive_weights: dict[str, float] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ("clean",)
    metric: str = "average_precision"
    common: Parameters = field(default_factory=dict)
    common_grid: Grid = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)
    record: Record = field(default_factory=Record)

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every data set, in order."""
        return tuple(name for group in self.data for name in group.names)

    @property
    def content_hash(self) -> str:
        """Return sixteen hexadecimal digits that change with anything the study fixes, its description aside."""
        content = asdict(self, dict_factory=without_place)
        del content["description"]
        return digest(content)


#: Fields that came later: where they are not used, a hash is what it was without them.
_LATER = ("name", "read", "sha256", "positive_rules", "positive_weights")


def without_place(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a dataclass that count for a hash: not where a file lies, no later field that is empty."""
    return {name: value for name, value in items if name != "file" and not (name in _LATER and not value)}


def digest(content: Any) -> str:
    """Hash plain values: equal content, equal digits, whatever the order of keys."""
    text = json.dumps(content, sort_keys=True, default=list, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def accepted_parameters(key: str) -> frozenset[str]:
    """Return the parameters that a study may set: those of the class but ``random_state`` and ``verbose``."""
    names = inspect.signature(get_method(key).load_class()).parameters
    return frozenset(names) - {"random_state", "verbose"}


def settings_of(study: Study, group: DataGroup, method: MethodEntry, dataset: str) -> list[Parameters]:
    """Every setting that a method tries on a data set, in the order of the grid.

    A method's own settings go before those of the data group, these before the common ones. Common and group settings
    reach only methods that have such a parameter; what is fixed by a stronger source is not tried from a weaker one.
    """
    accepted = accepted_parameters(method.key)
    fixed: Parameters = {}
    grid: Grid = {}
    own = {
        **method.fixed,
        **method.per_dataset.get(dataset.partition(":")[0], {}),
        **method.per_dataset.get(dataset, {}),
    }
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
