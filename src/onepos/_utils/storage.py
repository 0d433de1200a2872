"""What a model file holds of a class: ``_stored``, which names attributes of the class and the rule of each.

::

    class Scaler:
        _stored = {"kind": one_of("standard", "none"), "shift": Maybe(Array("features"))}

A rule writes an attribute as JSON and arrays, and reads it from a file, which may be damaged or forged: ValueError says
what breaks the rule. A subclass adds the attributes of its bases. An object is made, without its ``__init__``, when all
of its attributes have been read. A class with ``_from_stored(fields)``, a class method, makes its objects itself. It
may raise ValueError where attributes do not fit each other.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.exceptions import ModelFileError

#: Positive numbers beyond these bounds overflow or vanish in a product.
TINY, HUGE = 1e-100, 1e100
#: What stands in the header in the place of an array, whose name is the path of that place.
_ARRAY = "array"


@dataclass(frozen=True)
class Place:
    """A place in a file: its path, the arrays of the file, and how long the axes are whose names occurred before."""

    arrays: dict[str, NDArray[Any]]
    path: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    #: Arrays that were read.
    used: set[str] = field(default_factory=set)

    def at(self, name: str | int) -> "Place":
        """Return a place inside of this one."""
        return replace(self, path=f"{self.path}.{name}" if self.path else str(name))

    def wrong(self, expected: str, entry: Any) -> ValueError:
        """Return the error that says what was expected and what came."""
        if isinstance(entry, list | dict):
            entry = f"{'a list' if isinstance(entry, list) else 'an object'} of {len(entry):,}"
        return ValueError(f"{self.path[:200]} must be {expected}, not {str(entry)[:80]}")

    def set_size(self, name: str, size: int) -> None:
        """Give a name to a length; ValueError if the name has another one."""
        if self.sizes.setdefault(name, size) != size:
            raise self.wrong(f"{self.sizes[name]:,} {name}", f"{size:,}")


class Rule:
    """What an attribute may be."""

    def write(self, value: Any, at: Place) -> Any:
        """Return JSON, and add arrays to those of the file."""
        return _plain(value, at)

    def read(self, entry: Any, at: Place) -> Any:
        """Return the attribute; ValueError if the entry of the file breaks the rule."""
        raise NotImplementedError(f"{type(self).__name__} must say what it accepts.")


Rules = Mapping[str, Rule]


def _plain(value: Any, at: Place) -> Any:
    """Return a value that JSON holds exactly, or raise."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, at) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, at) for key, item in value.items()}
    raise ModelFileError(
        f"{at.path} holds a {type(value).__name__}, which a model file cannot store; use numbers, strings or lists."
    )


@dataclass(frozen=True)
class Value(Rule):
    """One JSON value; ``what`` names those that ``fits`` accepts."""

    what: str
    fits: Callable[[Any], bool]

    def read(self, entry: Any, at: Place) -> Any:
        """Return the value."""
        if not self.fits(entry):
            raise at.wrong(self.what, entry)
        return entry


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 1 << 63)


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 1 << 53


def between(low: float, high: float) -> Value:
    """Return the rule of a number with bounds."""
    return Value(f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high)


def one_of(*texts: str) -> Value:
    """Return the rule of a value that is one of some texts."""
    return Value(f"one of {', '.join(texts)}", lambda value: isinstance(value, str) and value in texts)


JSON = Value("JSON", lambda value: True)
TEXT = Value("a text", lambda value: isinstance(value, str))
TRUTH = Value("true or false", lambda value: isinstance(value, bool))
COUNT = Value("a whole number of at least 0", lambda value: _is_whole(value, 0))
SIZE = Value("a whole number of at least 1", lambda value: _is_whole(value, 1))
#: What training noted; it may be NaN.
NUMBER = Value("a number", _is_number)
FINITE = Value("a finite number", lambda value: _is_number(value) and math.isfinite(value))
POSITIVE, NOT_NEGATIVE, SHARE = between(TINY, HUGE), between(0, HUGE), between(0, 1)
#: Texts that are all different.
TEXTS = Value(
    "a list of texts with different values",
    lambda value: isinstance(value, list) and all(map(TEXT.fits, value)) and len(set(value)) == len(value),
)


@dataclass(frozen=True)
class Maybe(Rule):
    """None, or what another rule says."""

    rule: Rule

    def write(self, value: Any, at: Place) -> Any:
        """Write what is not None."""
        return None if value is None else self.rule.write(value, at)

    def read(self, entry: Any, at: Place) -> Any:
        """Read what is not null."""
        return None if entry is None else self.rule.read(entry, at)


class IfSet(Maybe):
    """The rule of an attribute, or of a field of a record, that may be missing. If it is there, it is not None."""

    def read(self, entry: Any, at: Place) -> Any:
        """Read what is there."""
        return self.rule.read(entry, at)


@dataclass(frozen=True)
class List(Rule):
    """A list; ``size`` names its length."""

    rule: Rule
    size: str = ""
    least: int = 0
    most: int = 1 << 53

    def write(self, value: Any, at: Place) -> Any:
        """Write each item."""
        return [self.rule.write(item, at.at(number)) for number, item in enumerate(value)]

    def read(self, entry: Any, at: Place) -> Any:
        """Read each item."""
        if not isinstance(entry, list) or not self.least <= len(entry) <= self.most:
            limits = f" of {self.least:,} to {self.most:,}" if self.most < 1 << 53 else ""
            raise at.wrong(f"a list{limits or f' of at least {self.least}'}", entry)
        if self.size:
            at.set_size(self.size, len(entry))
        if isinstance(self.rule, Value) and all(map(self.rule.fits, entry)):
            return entry  # no place for each of a million texts
        return [self.rule.read(item, at.at(number)) for number, item in enumerate(entry)]


@dataclass(frozen=True)
class Record(Rule):
    """A dict with these fields; ``"start*"`` stands for all others that begin so, ``"*"`` for all others."""

    fields: Rules

    def _rule(self, name: str, at: Place) -> Rule:
        patterns = (rule for key, rule in self.fields.items() if key.endswith("*") and name.startswith(key[:-1]))
        rule = self.fields.get(name) or next(patterns, None)
        if rule is None:
            raise ModelFileError(f"{at.at(name).path[:200]} is not a field of a model")
        return rule

    def write(self, value: Any, at: Place) -> Any:
        """Write each field."""
        return {str(key): self._rule(str(key), at).write(item, at.at(str(key))) for key, item in value.items()}

    def read(self, entry: Any, at: Place) -> Any:
        """Read each field, in the order of the declaration."""
        if not isinstance(entry, dict):
            raise at.wrong("an object", entry)
        for name, rule in self.fields.items():
            if name not in entry and not name.endswith("*") and not isinstance(rule, IfSet):
                raise ValueError(f"{at.at(name).path} is missing")
        named = [name for name in self.fields if name in entry and not name.endswith("*")]
        names = dict.fromkeys([*named, *entry])
        return {name: self._rule(name, at).read(entry[name], at.at(name)) for name in names}


def each(rule: Rule) -> Record:
    """Return the rule of a dict of any names."""
    return Record({"*": rule})


@dataclass(frozen=True)
class Array(Rule):
    """A NumPy array of finite numbers."""

    #: One word per axis. A word stands for one length, the same wherever it occurs in an object; ``features`` and
    #: ``labels`` are those of the estimator. ``rows+1`` is one more than ``rows``; ``*`` is any length. Only axes
    #: called ``entries`` may be empty.
    shape: str
    #: Types of numbers, as ``dtype.str`` writes them without the order of bytes.
    types: str = "f4 f8"
    low: float = -HUGE
    high: float = HUGE
    #: The name of a length below which all numbers are.
    below: str = ""

    def write(self, value: Any, at: Place) -> Any:
        """Add the array to the file."""
        at.arrays[at.path] = np.ascontiguousarray(value)
        return _ARRAY

    def read(self, entry: Any, at: Place) -> Any:
        """Return the array, if its type, shape and numbers are right."""
        if entry != _ARRAY or at.path not in at.arrays:
            raise at.wrong("an array", entry if entry != _ARRAY else "missing")
        at.used.add(at.path)
        array, words = at.arrays[at.path], self.shape.split()
        if array.dtype.str[1:] not in self.types.split():
            raise at.wrong(f"of type {self.types}", array.dtype.str[1:])
        fits = array.ndim == len(words)
        for word, size in zip(words, array.shape, strict=False):
            name, more = word.removesuffix("+1"), word.endswith("+1")
            known = size if word == "*" else at.sizes.setdefault(name, size - more)
            fits = fits and size == known + more and (known > 0 or name == "entries")
        if not fits:
            sizes = ", ".join(str(at.sizes.get(word, word)) for word in words)
            raise at.wrong(f"of shape ({', '.join(words)}) = ({sizes})", array.shape)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise at.wrong("finite", "NaN or infinity")
        high = at.sizes[self.below] - 1 if self.below else self.high
        if array.size and not (self.low <= float(array.min()) and float(array.max()) <= high):
            raise at.wrong(f"from {self.low:g} to {high:g}", f"{array.min():g} to {array.max():g}")
        return array


def check_starts(starts: NDArray[Any], n_entries: int, name: str) -> None:
    """Raise ValueError unless rows of a CSR matrix begin where the row before ends."""
    if starts[0] != 0 or starts[-1] != n_entries or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"{name} must rise from 0 to {n_entries:,}, the number of entries")


@dataclass(frozen=True)
class Length(Rule):
    """A whole number that is the length of the axes of this name."""

    name: str

    def read(self, entry: Any, at: Place) -> Any:
        """Return the number."""
        at.set_size(self.name, SIZE.read(entry, at))
        return entry


#: Characters of all label names in an array of texts, where each name takes the room of the longest.
_MOST_CHARACTERS = 1 << 24


class LabelNames(Rule):
    """Names of the labels, as many as axes ``labels`` are long: numbers, texts, or a mixture of them as objects."""

    def write(self, value: Any, at: Place) -> Any:
        """Return the names and their type."""
        dtype = value.dtype.str if value.dtype.kind in "biufU" else "object"
        return {"names": _plain(value.tolist(), at), "dtype": dtype}

    def read(self, entry: Any, at: Place) -> Any:
        """Return the names as an array."""
        entry = Record({"names": List(JSON, "labels", least=1), "dtype": TEXT}).read(entry, at)
        names, dtype = entry["names"], entry["dtype"]
        texts = [name for name in names if isinstance(name, str)]
        if not all(map(str.strip, texts)) or re.search("[\ud800-\udfff]", "".join(texts)):
            raise at.wrong("texts that are not empty, without halves of characters", names)
        strange = [name for name in names if not isinstance(name, str | bool) and not FINITE.fits(name)]
        if strange:
            raise at.wrong("texts, finite numbers or truth values", strange[0])
        alike = {unicodedata.normalize("NFC", name) if isinstance(name, str) else name for name in names}
        if len(alike) < len(names):
            raise at.wrong("names that differ, also in how they look", names)
        if dtype == "object":
            return np.array(names, dtype=object)
        if not re.fullmatch(r"[<>|=][biufU][0-9]{1,9}", dtype):  # NumPy parses more, some of it as Python
            raise at.wrong("of the type of numbers or texts", dtype)
        kind: Any = dtype
        if dtype[1] == "U":
            longest = max(len(name) if isinstance(name, str) else 0 for name in names)
            if len(names) * longest > _MOST_CHARACTERS:
                raise at.wrong(f"texts of {_MOST_CHARACTERS:,} characters at equal length", len(names) * longest)
            kind = str  # the type may ask for more room than the names need
        try:
            made: NDArray[Any] = np.array(names, dtype=kind)
        except (TypeError, ValueError, OverflowError) as error:
            raise at.wrong(f"of type {dtype}", error) from error
        if made.tolist() != names:
            raise at.wrong(f"of type {dtype}", "others")
        return made


def stored_rules(kind: type) -> dict[str, Rule]:
    """Return what a class and its bases store."""
    return {name: rule for base in reversed(kind.__mro__) for name, rule in vars(base).get("_stored", {}).items()}


class Part(Rule):
    """An object of one of some classes with ``_stored``; ``changes`` are rules that hold in this place."""

    def __init__(self, *kinds: type, **changes: Rule) -> None:
        self._kinds, self._changes = kinds, changes

    def kinds(self) -> dict[str, Callable[[], type]]:
        """Return how to get the classes, by the name that stands in the file; one class alone is not named."""
        return {kind.__name__: lambda kind=kind: kind for kind in self._kinds}  # type: ignore[misc]

    def write(self, value: Any, at: Place) -> Any:
        """Write each attribute."""
        name, kinds = type(value).__name__, self.kinds()
        why = getattr(value, "not_stored", "")
        if why or name not in kinds or kinds[name]() is not type(value):
            why = why or "it may have classes of onepos, and of installed packages that register their methods"
            raise ModelFileError(f"{at.path or 'the model'} is a {name}, which no file can hold: {why}.")
        rules = stored_rules(type(value)) | self._changes
        kept = {name: rule for name, rule in rules.items() if not isinstance(rule, IfSet) or hasattr(value, name)}
        fields = {name: rule.write(getattr(value, name), at.at(name)) for name, rule in kept.items()}
        return ({"class": name} if len(kinds) > 1 else {}) | fields

    def read(self, entry: Any, at: Place) -> Any:
        """Return a new object."""
        if not isinstance(entry, dict):
            raise at.wrong("an object", entry)
        kinds = self.kinds()
        name = next(iter(kinds)) if len(kinds) == 1 else entry.get("class")
        if not isinstance(name, str) or name not in kinds:
            raise at.at("class").wrong("a class that this version of onepos stores here", name)
        kind, inner = kinds[name](), replace(at, sizes=dict(at.sizes))
        rules = stored_rules(kind) | self._changes
        fields = Record(rules if len(kinds) == 1 else {"class": TEXT} | rules).read(entry, inner)
        fields = {name: value for name, value in fields.items() if name != "class"}
        make = getattr(kind, "_from_stored", None)
        try:
            return _with(kind, fields) if make is None else make(fields)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{at.path}: {error}" if at.path else str(error)) from error


def _with(kind: type, fields: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(fields)
    return made
