"""What a study fixes: data, methods, grids, trials, selection. Each field has its check beside it."""

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, partial
from itertools import product
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from onepos.methods.registry import get_method
from onepos.metrics import METRICS
from onepos_studies.exceptions import StudyError

Rule = Literal["clean", "single-positive"]
RULES: tuple[Rule, ...] = ("clean", "single-positive")

#: Which positive of a row is observed: see ``onepos.datasets.make_single_positive``.
POSITIVE_RULES = ("uniform", "frequency", "dominance")

#: A slip of the finger must not plan a billion cells.
_MOST_TRIALS = 10_000

Parameters = dict[str, Any]
Grid = dict[str, tuple[Any, ...]]

# Checks of a value in a study file. Each takes the value and its place, and returns what the dataclass holds. A field
# of a dataclass below names its check in its type; fields without one are not set by their name.


def _need(holds: Any, where: str, expected: str, value: Any) -> Any:
    """Return the value if the check holds."""
    if not holds:
        raise StudyError(f"{where} must be {expected}; got {value!r}.")
    return value


def settings(value: Any, where: str) -> Parameters:
    """Check a table."""
    return dict(_need(isinstance(value, dict), where, "a table of settings", value))


def grid(value: Any, where: str) -> Grid:
    """Check a table of lists."""
    lists = settings(value, where)
    good = all(isinstance(values, list) and values for values in lists.values())
    _need(good, where, "lists of values to try, each with at least one", value)
    return {name: tuple(values) for name, values in lists.items()}


def _by_dataset(value: Any, where: str) -> dict[str, Parameters]:
    return {name: settings(own, f"{where} {name}") for name, own in settings(value, where).items()}


def _text(value: Any, where: str, *, empty: bool = False) -> str:
    return str(_need(isinstance(value, str) and (value or empty), where, "a text", value))


def _whole(value: Any, where: str, least: int = 0, most: int = 2**63 - 1) -> int:
    good = isinstance(value, int) and not isinstance(value, bool)
    _need(good and value >= least, where, f"a whole number of at least {least}", value)
    return int(_need(value <= most, where, f"at most {most}", value))


def _one_of(value: Any, where: str, known: tuple[str, ...]) -> str:
    return str(_need(value in known, where, f"one of {', '.join(known)}", value))


def _flag(value: Any, where: str) -> bool:
    return bool(_need(isinstance(value, bool), where, "true or false", value))


def _names(value: Any, where: str) -> tuple[str, ...]:
    good = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return tuple(_need(good, where, "a list of names in quotes", value))


def _distinct(value: Any, where: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(_one_of(item, where, known) for item in _names(value, where))
    good = found and len(set(found)) == len(found)
    _need(good, where, f"one or more distinct ones of {', '.join(known)}", value)
    return found


def _shares(value: Any, where: str, expected: str = "numbers above 0 and up to 1") -> tuple[float, ...]:
    good = isinstance(value, list) and value and all(type(one) in (int, float) and 0 < one <= 1 for one in value)
    return tuple(map(float, _need(good, where, expected, value)))


def _fractions(value: Any, where: str) -> tuple[float, ...]:
    expected = "three positive numbers that sum to 1"
    found = _shares(value, where, expected)
    _need(len(found) == 3 and abs(sum(found) - 1.0) <= 1e-9, where, expected, value)
    return found


Text = Annotated[str, _text]
Whole = Annotated[int, _whole]
Names = Annotated[tuple[str, ...], _names]
Settings = Annotated[Parameters, settings]
Values = Annotated[Grid, grid]
Rules = Annotated[tuple[Rule, ...], partial(_distinct, known=RULES)]
PositiveRules = Annotated[tuple[str, ...], partial(_distinct, known=POSITIVE_RULES)]


def build(kind: Any, entry: Mapping[str, Any], where: str, **others: Any) -> Any:
    """Make a dataclass from a table of a study file; ``others`` are fields that the file sets elsewhere."""
    hints = get_type_hints(kind, include_extras=True)
    checks = {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}
    check_names(entry, set(checks), where)
    required = [part.name for part in fields(kind) if part.name in checks and part.default is part.default_factory]
    values = {name: checks[name](entry.get(name), f"{where} {name}") for name in (*required, *entry)}
    return kind(**values, **others)


def check_names(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise StudyError if a table of a study file has an unknown field."""
    strange = sorted(set(entry) - known)
    if strange:
        raise StudyError(f"{where} has no field {', '.join(strange)}; it has: {', '.join(sorted(known))}.")


@dataclass(frozen=True)
class DataGroup:
    """Data sets that share settings: registered ones, or one file. docs/study-file.md explains the fields."""

    sets: Names = ()
    file: Text = ""
    name: Text = ""
    read: Settings = field(default_factory=dict)
    sha256: Text = ""
    fixed: Settings = field(default_factory=dict)
    grid: Values = field(default_factory=dict)
    train_fractions: Annotated[tuple[float, ...], _shares] = (1.0,)
    rules: Rules = ()
    positive_rules: PositiveRules = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets as rows and tables call them."""
        sets = (self.name,) if self.file else self.sets
        return tuple(f"{name}:{rule}" for name in sets for rule in self.positive_rules) if self.positive_rules else sets


@dataclass(frozen=True)
class MethodEntry:
    """A method of the study: its key, its name here, its own settings. docs/study-file.md explains the fields."""

    key: Text
    name: Text
    fixed: Settings = field(default_factory=dict)
    grid: Values = field(default_factory=dict)
    per_dataset: Annotated[dict[str, Parameters], _by_dataset] = field(default_factory=dict)
    complete: Annotated[bool, _flag] = False


@dataclass(frozen=True)
class Tuning:
    """How a setting is chosen from the grid. docs/study-file.md explains the fields."""

    when: Annotated[str, partial(_one_of, known=("first-trial", "each-trial"))] = "first-trial"
    each_trial_below: Whole = 0
    screen_epochs: Whole = 0
    keep: Annotated[int, partial(_whole, least=1)] = 1
    keep_each: Names = ()


@dataclass(frozen=True)
class Record:
    """Extra measurements by data set, for figures; nothing is chosen by them."""

    test_curve: Names = ()
    soft_label_change: Names = ()


@dataclass(frozen=True)
class Study:
    """A whole evaluation. Trial t splits with seed ``seed + t`` and draws its positives with ``seed + 1000 + t``."""

    name: Text
    trials: Annotated[int, partial(_whole, least=1, most=_MOST_TRIALS)]
    data: tuple[DataGroup, ...]
    methods: tuple[MethodEntry, ...]
    description: Annotated[str, partial(_text, empty=True)] = ""
    seed: Whole = 0
    fractions: Annotated[tuple[float, float, float], _fractions] = (0.8, 0.1, 0.1)
    positive_rule: Annotated[str, partial(_one_of, known=POSITIVE_RULES)] = "uniform"
    rules: Rules = ("clean",)
    metric: Annotated[str, partial(_one_of, known=tuple(METRICS))] = "average_precision"
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
