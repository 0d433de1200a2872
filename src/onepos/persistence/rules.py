"""The words in which ``schema`` says what a model file holds: rules for JSON, shapes and types of arrays."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Positive numbers beyond overflow or vanish in a product.
TINY, HUGE = 1e-100, 1e100

Arrays = dict[str, NDArray[Any]]


class Place(NamedTuple):
    """Where in a file of which format a rule applies."""

    path: str
    version: int

    def at(self, name: str) -> "Place":
        """Return the place of a field."""
        return Place(f"{self.path}.{name}" if self.path else name, self.version)

    def wrong(self, expected: str, found: Any) -> ValueError:
        """Return the error that says what was expected and what came."""
        text = found if isinstance(found, str) else repr(found) if not isinstance(found, list | dict) else _size(found)
        return ValueError(f"{self.path or 'the header'} must be {expected}, not {text[:80]}")


def _size(found: list[Any] | dict[str, Any]) -> str:
    return f"{'a list' if isinstance(found, list) else 'an object'} of {len(found):,}"


Rule = Callable[[Place, Any], None]


@dataclass(frozen=True)
class Kind:
    """A rule for one value; ``what`` names the values that ``fits`` accepts."""

    what: str
    fits: Callable[[Any], bool]

    def __call__(self, place: Place, value: Any) -> None:
        """Raise ValueError if the value does not fit."""
        if not self.fits(value):
            raise place.wrong(self.what, value)


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 1 << 63)


def between(low: float, high: float) -> Kind:
    """Return the rule of a number with bounds."""
    return Kind(f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high)


TEXTUAL = Kind("a text", lambda value: isinstance(value, str))
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
COUNT = Kind("a whole number of at least 0", lambda value: type(value) is int and 0 <= value < 1 << 53)
SIZE = Kind("a whole number of at least 1", lambda value: type(value) is int and 1 <= value < 1 << 53)
#: As a training noted it, so perhaps NaN.
MEASURED = Kind("a number", _is_number)
FINITE = Kind("a finite number", lambda value: _is_number(value) and math.isfinite(value))
POSITIVE, NOT_NEGATIVE, SHARE = between(TINY, HUGE), between(0, HUGE), between(0, 1)
NAME = Kind("a truth value, a number or a text", lambda value: isinstance(value, str | bool) or _is_number(value))
ANY = Kind("JSON", lambda value: True)


def one_of(*texts: str) -> Kind:
    """Return the rule of a value that is one of some texts."""
    return Kind(f"one of {', '.join(texts)}", lambda value: isinstance(value, str) and value in texts)


def optional(rule: Rule) -> Rule:
    """Return the rule of a value that may be null."""

    def check(place: Place, value: Any) -> None:
        if value is not None:
            rule(place, value)

    return check


def listed(rule: Rule, *, distinct: bool = False) -> Rule:
    """Return the rule of a list."""

    def check(place: Place, value: Any) -> None:
        if not isinstance(value, list):
            raise place.wrong("a list", value)
        _each(place, enumerate(value), rule)
        if distinct and len(set(value)) < len(value):
            raise place.wrong("a list of different values", value)

    return check


def by_name(rule: Rule) -> Rule:
    """Return the rule of an object with any names."""

    def check(place: Place, value: Any) -> None:
        if not isinstance(value, dict):
            raise place.wrong("an object", value)
        _each(place, value.items(), rule)

    return check


def _each(place: Place, items: Any, rule: Rule) -> None:
    for name, value in items:
        if not isinstance(rule, Kind) or not rule.fits(value):  # a million values: no place for each that fits
            rule(place.at(str(name)), value)


def record(
    fields: dict[str, Rule], *, older: Collection[str] = (), maybe: Collection[str] = (), rest: Rule | None = None
) -> Rule:
    """Return the rule of an object with fixed names.

    Parameters
    ----------
    fields : dict
        Rule of each field.
    older : names
        Fields that files of format 1 may lack.
    maybe : names
        Fields that any file may lack.
    rest : rule, optional
        Of fields with other names, which are refused without it.
    """

    def check(place: Place, value: Any) -> None:
        if not isinstance(value, dict):
            raise place.wrong("an object", value)
        missing = fields.keys() - value.keys() - set(maybe) - (set(older) if place.version == 1 else set())
        if missing:
            raise ValueError(f"{place.at(min(missing)).path} is missing")
        for name, found in value.items():
            rule = fields.get(name, rest)
            if rule is None:
                raise ValueError(f"{place.at(name).path[:80]} is not a field of a model")
            rule(place.at(name), found)

    return check


@dataclass(frozen=True)
class Array:
    """Shape, types and range of an array.

    Attributes
    ----------
    shape : str
        One word per axis: ``features`` and ``labels`` have the sizes of the header; a number stands for itself; any
        other word stands for one size, the same wherever it occurs in the model. ``rows+1`` is one more than ``rows``.
        Only axes called ``…entries`` may be empty.
    types : str
        Types of numbers, as ``dtype.str`` writes them without the order of bytes.
    low, high : float
        Bounds of the values. Infinity and NaN are refused in any case.
    """

    shape: str
    types: str = "f4 f8"
    low: float = -math.inf
    high: float = math.inf


@dataclass
class Part:
    """A model, a member of a pool or the columns of a table while they are checked."""

    place: Place
    facts: dict[str, Any]
    arrays: Arrays
    sizes: dict[str, int]
    #: What the names of its arrays begin with in the file.
    prefix: str = ""
    #: Columns of each CSR matrix.
    n_columns: dict[str, int] = field(default_factory=dict)

    def expect(self, expected: dict[str, Array]) -> None:
        """Raise ValueError unless there are exactly these arrays; every CSR matrix among them is checked too."""
        if expected.keys() != self.arrays.keys():
            name = min(expected.keys() ^ self.arrays.keys())
            raise ValueError(
                f"the array {self.prefix}{name[:80]} "
                + ("is missing" if name in expected else "is not one of this model")
            )
        for name, about in expected.items():
            self._check(name, about)
        for name, n_columns in self.n_columns.items():
            self.check_rows(f"{name}.indptr", f"{name}.indices")
            shape = self.arrays[f"{name}.shape"].tolist()
            if shape != [len(self.arrays[f"{name}.indptr"]) - 1, n_columns]:
                raise ValueError(f"{self.prefix}{name}.shape must have the rows of indptr and {n_columns:,} columns")

    def matrix(self, name: str, rows: str, columns: str) -> dict[str, Array]:
        """Return the arrays of features as ``pack`` names them: dense, or the four parts of a CSR matrix."""
        if f"{name}.indptr" not in self.arrays:
            return {name: Array(f"{rows} {columns}")}
        self.n_columns[name] = self.sizes[columns]
        return {
            f"{name}.data": Array(f"{name}.entries"),
            f"{name}.indices": Array(f"{name}.entries", "i4 i8", 0, self.sizes[columns] - 1),
            f"{name}.indptr": Array(f"{rows}+1", "i4 i8"),
            f"{name}.shape": Array("2", "i8", 0),
        }

    def _check(self, name: str, about: Array) -> None:
        array, words = self.arrays[name], about.shape.split()
        path = f"the array {self.prefix}{name}"
        if array.dtype.str[1:] not in about.types.split():
            raise ValueError(f"the numbers of {path} must be of type {about.types}, not {array.dtype.str[1:]}")
        fits = array.ndim == len(words)
        for word, size in zip(words, array.shape, strict=False):
            stem, more = word.removesuffix("+1"), word.endswith("+1")
            known = self.sizes.setdefault(stem, int(stem) if stem.isdigit() else size - more)
            fits = fits and size == known + more and (known > 0 or stem.isdigit() or stem.endswith("entries"))
        if not fits:
            sizes = ", ".join(str(self.sizes.get(word, word)) for word in words)
            raise ValueError(f"the shape of {path} must be ({', '.join(words)}) = ({sizes}), not {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path} must be finite; it has NaN or infinity")
        if array.size and not (array.min() >= about.low and array.max() <= about.high):
            raise ValueError(
                f"{path} must be from {about.low:g} to {about.high:g}; it has {array.min():g} to {array.max():g}"
            )

    def check_rows(self, starts: str, columns: str) -> None:
        """Check where the rows of a CSR matrix begin and end; its columns are bounded as any numbers."""
        found, n_entries = self.arrays[starts], len(self.arrays[columns])
        if found[0] != 0 or found[-1] != n_entries or (found[1:] < found[:-1]).any():
            raise ValueError(f"{self.prefix}{starts} must rise from 0 to {n_entries:,}, the number of entries")
