"""The language in which ``schema`` and ``table_schema`` declare what a model file holds.

A rule says what a JSON value must be:

- ``Kind``, or its name in ``KINDS``: one value that passes a test.
- ``[rule]``: a list of any length.
- ``(None, rule)``: null, or what the rule says.
- ``{"name other": rule, …}``: an object with these fields and no others. ``"name?"`` may be missing. ``"name?1"`` may
  be missing in files of format 1. ``"start*"`` stands for all other names that begin so, ``"*"`` for all other names.

An ``Array`` says which shape, type and range an array must have.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Positive numbers beyond these bounds overflow or vanish in a product.
TINY, HUGE = 1e-100, 1e100

Arrays: TypeAlias = dict[str, NDArray[Any]]
Rule: TypeAlias = Any


@dataclass(frozen=True)
class Kind:
    """The rule of one value; ``what`` names the values that ``fits`` accepts."""

    what: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 1 << 63)


def between(low: float, high: float) -> Kind:
    """Return the rule of a number with bounds."""
    return Kind(f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high)


def one_of(*texts: str) -> Kind:
    """Return the rule of a value that is one of some texts."""
    return Kind(f"one of {', '.join(texts)}", lambda value: isinstance(value, str) and value in texts)


def _are_distinct_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value) and len(set(value)) == len(value)


KINDS = {
    "any": Kind("JSON", lambda value: True),
    "text": Kind("a text", lambda value: isinstance(value, str)),
    "texts": Kind("a list of texts with different values", _are_distinct_texts),
    "truth": Kind("true or false", lambda value: isinstance(value, bool)),
    "name": Kind("a truth value, a number or a text", lambda value: isinstance(value, str | bool) or _is_number(value)),
    "count": Kind("a whole number of at least 0", lambda value: type(value) is int and 0 <= value < 1 << 53),
    "size": Kind("a whole number of at least 1", lambda value: type(value) is int and 1 <= value < 1 << 53),
    "measured": Kind("a number", _is_number),  # training noted it; it may be NaN
    "finite": Kind("a finite number", lambda value: _is_number(value) and math.isfinite(value)),
    "positive": between(TINY, HUGE),
    "not negative": between(0, HUGE),
    "share": between(0, 1),
}


def wrong(path: str, expected: str, found: Any) -> ValueError:
    """Return the error that says what was expected and what came."""
    if isinstance(found, list | dict):
        found = f"{'a list' if isinstance(found, list) else 'an object'} of {len(found):,}"
    text = found if isinstance(found, str) else repr(found)
    return ValueError(f"{path or 'the header'} must be {expected}, not {text[:80]}")


def check_json(rule: Rule, value: Any, path: str, version: int) -> None:
    """Raise ValueError unless a value of a file of format ``version`` is what the rule says."""
    if isinstance(rule, tuple):
        if value is not None:
            check_json(rule[1], value, path, version)
    elif isinstance(rule, Kind | str):
        kind = KINDS[rule] if isinstance(rule, str) else rule
        if not kind.fits(value):
            raise wrong(path, kind.what, value)
    elif isinstance(rule, list):
        if not isinstance(value, list):
            raise wrong(path, "a list", value)
        fits = KINDS[rule[0]].fits if isinstance(rule[0], str) else lambda item: False
        for number, item in enumerate(value):
            if not fits(item):  # no path for each of a million that fit
                check_json(rule[0], item, f"{path}.{number}", version)
    else:
        _check_object(rule, value, path, version)


def _check_object(rule: dict[str, Rule], value: Any, path: str, version: int) -> None:
    if not isinstance(value, dict):
        raise wrong(path, "an object", value)
    start = f"{path}." if path else ""
    fields = {}
    for key, inner in ((key, inner) for keys, inner in rule.items() for key in keys.split()):
        name, may_miss, only_in = key.partition("?")
        fields[name] = inner
        required = not may_miss or (only_in == "1" and version != 1)
        if required and name not in value and not name.endswith("*"):
            raise ValueError(f"{start}{name} is missing")
    patterns = [name for name in fields if name.endswith("*")]
    for name, found in value.items():
        known = name if name in fields else next((one for one in patterns if name.startswith(one[:-1])), None)
        if known is None:
            raise ValueError(f"{start}{name}"[:80] + " is not a field of a model")
        check_json(fields[known], found, f"{start}{name}", version)


@dataclass(frozen=True)
class Array:
    """What an array must be. Infinity and NaN are refused in any case."""

    #: One word per axis: ``features`` and ``labels`` have the sizes of the header; a number stands for itself; any
    #: other word stands for one size, the same wherever it occurs in the model. ``rows+1`` is one more than ``rows``.
    #: Only axes called ``…entries`` may be empty.
    shape: str
    #: Types of numbers, as ``dtype.str`` writes them without the order of bytes.
    types: str = "f4 f8"
    low: float = -math.inf
    high: float = math.inf


@dataclass
class Part:
    """A model, a member of a pool or the columns of a table while they are checked."""

    path: str
    version: int
    facts: dict[str, Any]
    arrays: Arrays
    sizes: dict[str, int]
    #: Start of the names of its arrays in the file.
    prefix: str = ""

    def wrong(self, name: str, expected: str, found: Any) -> ValueError:
        """Return the error of a fact."""
        return wrong(f"{self.path}.{name}", expected, found)

    def expect(self, expected: dict[str, Array]) -> None:
        """Raise ValueError unless there are exactly these arrays; every CSR matrix among them is checked too."""
        for name in sorted(expected.keys() ^ self.arrays.keys()):
            state = "is missing" if name in expected else "is not one of this model"
            raise ValueError(f"the array {self.prefix}{name[:80]} {state}")
        for name, about in expected.items():
            self._check(name, about)
        for name in (name.removesuffix(".shape") for name in expected if name.endswith(".shape")):
            self.check_rows(f"{name}.indptr", f"{name}.indices")
            n_columns = expected[f"{name}.indices"].high + 1
            if self.arrays[f"{name}.shape"].tolist() != [len(self.arrays[f"{name}.indptr"]) - 1, n_columns]:
                raise ValueError(f"{self.prefix}{name}.shape must have the rows of indptr and {n_columns:,} columns")

    def matrix(self, name: str, rows: str, columns: str) -> dict[str, Array]:
        """Return the arrays of features as ``pack`` names them: dense, or the four parts of a CSR matrix."""
        if f"{name}.indptr" not in self.arrays:
            return {name: Array(f"{rows} {columns}")}
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
        """Check where the rows of a CSR matrix begin and end; ``expect`` has checked the bounds of its columns."""
        found, n_entries = self.arrays[starts], len(self.arrays[columns])
        if found[0] != 0 or found[-1] != n_entries or (found[1:] < found[:-1]).any():
            raise ValueError(f"{self.prefix}{starts} must rise from 0 to {n_entries:,}, the number of entries")
