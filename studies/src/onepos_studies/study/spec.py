"""What a study fixes: data, methods, grids, trials, selection. The types of the fields are checked by pydantic."""

import hashlib
import inspect
import json
from collections.abc import Hashable, Sequence
from dataclasses import MISSING, field, fields
from functools import cache
from itertools import product
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from onepos.methods.registry import get_method
from onepos.metrics import METRICS

Rule = Literal["clean", "single-positive"]

#: Which positive of a row is observed: see ``onepos.datasets.make_single_positive``.
PositiveRule = Literal["uniform", "frequency", "dominance"]

#: A slip of the finger must not plan a billion cells.
_MOST_TRIALS = 10_000

Parameters = dict[str, Any]
Values = Annotated[tuple[Any, ...], Field(min_length=1)]
Grid = dict[str, Values]
Many = TypeVar("Many", bound=Sequence[Hashable])


def _distinct(values: Many) -> Many:
    if len(set(values)) != len(values):
        raise ValueError("the values must be distinct")
    return values


def _sum_to_one(fractions: tuple[float, ...]) -> tuple[float, ...]:
    if abs(sum(fractions) - 1.0) > 1e-9:
        raise ValueError("the fractions must sum to 1")
    return fractions


Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(gt=0, le=1)]
Names = tuple[str, ...]
Rules = Annotated[tuple[Rule, ...], AfterValidator(_distinct)]
PositiveRules = Annotated[tuple[PositiveRule, ...], AfterValidator(_distinct)]
_STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class DataGroup:
    """Data sets that share settings: registered ones, or one file. docs/study-file.md explains the fields."""

    sets: Names = ()
    file: Text = ""
    name: Text = ""
    read: Parameters = field(default_factory=dict)
    sha256: Text = ""
    fixed: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    train_fractions: Annotated[tuple[Share, ...], Field(min_length=1)] = (1.0,)
    rules: Rules = ()
    positive_rules: PositiveRules = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets as rows and tables call them."""
        sets = (self.name,) if self.file else self.sets
        return tuple(f"{name}:{rule}" for name in sets for rule in self.positive_rules) if self.positive_rules else sets


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class MethodEntry:
    """A method of the study: its key, its name here, its own settings. docs/study-file.md explains the fields."""

    key: Text
    name: Text = ""
    fixed: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    per_dataset: dict[str, Parameters] = field(default_factory=dict)
    complete: bool = False


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Tuning:
    """How a setting is chosen from the grid. docs/study-file.md explains the fields."""

    when: Literal["first-trial", "each-trial"] = "first-trial"
    each_trial_below: Count = 0
    screen_epochs: Count = 0
    keep: Annotated[int, Field(ge=1)] = 1
    keep_each: Names = ()


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Record:
    """Extra measurements by data set, for figures; nothing is chosen by them."""

    test_curve: Names = ()
    soft_label_change: Names = ()


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Protocol:
    """The table [study]. Trial t splits with seed ``seed + t`` and draws its positives with ``seed + 1000 + t``."""

    name: Text
    trials: Annotated[int, Field(ge=1, le=_MOST_TRIALS)]
    description: str = ""
    seed: Count = 0
    fractions: Annotated[tuple[Share, Share, Share], AfterValidator(_sum_to_one)] = (0.8, 0.1, 0.1)
    positive_rule: PositiveRule = "uniform"
    rules: Annotated[Rules, Field(min_length=1)] = ("clean",)
    metric: Literal[*METRICS] = "average_precision"  # type: ignore[valid-type]


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class StudyFile:
    """The tables of a study file."""

    study: Protocol
    data: tuple[DataGroup, ...] = ()
    method: tuple[MethodEntry, ...] = ()
    common: Parameters = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)
    record: Record = field(default_factory=Record)


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Study(Protocol):
    """A whole evaluation."""

    data: tuple[DataGroup, ...]
    methods: tuple[MethodEntry, ...]
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
        return digest(counted(self))


def counted(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that count for a hash: those that are set, and not where a file lies.

    So a field that is added does not change the hash of what does not use it.
    """
    set_fields = {}
    for part in fields(value):
        default = part.default if part.default_factory is MISSING else part.default_factory()
        if part.name not in ("file", "description") and getattr(value, part.name) != default:
            set_fields[part.name] = getattr(value, part.name)
    return set_fields


def digest(content: Any) -> str:
    """Hash plain values: equal content, equal digits, whatever the order of keys."""
    text = json.dumps(content, sort_keys=True, default=counted, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_full_supervision(method: str) -> bool:
    """Tell by its name in a study whether a method sees complete labels: shown, but no rival of those that do not."""
    return method == "bce" or method.endswith("-full")


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
    tried: Grid = {}
    own = method.fixed | method.per_dataset.get(dataset.partition(":")[0], {}) | method.per_dataset.get(dataset, {})
    for new_fixed, new_grid in ((study.common, study.common_grid), (group.fixed, group.grid), (own, method.grid)):
        for name, value in new_fixed.items():
            if name in accepted:
                tried.pop(name, None)
                fixed[name] = value
        for name, values in new_grid.items():
            if name in accepted:
                fixed.pop(name, None)
                tried[name] = values
    return [{**fixed, **dict(zip(tried, values, strict=True))} for values in product(*tried.values())]
