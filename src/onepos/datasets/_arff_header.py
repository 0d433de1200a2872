"""The header of an ARFF file: relation, attributes, and where the data begin."""

import re
from dataclasses import dataclass
from pathlib import Path

from onepos.exceptions import DataFileError

_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{}}]+)(?:\s+|(?=\{{))(.+)$", re.IGNORECASE)
_VALUES = re.compile(rf"\s*(?:({_QUOTED})\s*|([^,]*))(?:,|$)")
_NUMERIC = {"numeric", "real", "integer"}
_MEKA = re.compile(r"-C\s+(-?\d{1,9})\b")


@dataclass(frozen=True)
class Attribute:
    """One column: its name and, if nominal, its declared values in order (else None)."""

    name: str
    values: tuple[str, ...] | None = None

    @property
    def plain(self) -> bool:
        """Numeric, or nominal with exactly 0 and 1 in this order, so that token, code and value coincide."""
        return self.values is None or self.values == ("0", "1")


@dataclass(frozen=True)
class Header:
    """The declarations of an ARFF file.

    Attributes
    ----------
    relation : str
    attributes : tuple of Attribute
    n_lines : int
        Number of lines up to and including ``@data``: what a data line's number starts from.
    """

    relation: str
    attributes: tuple[Attribute, ...]
    n_lines: int

    @property
    def meka_labels(self) -> int | None:
        """MEKA's ``-C n`` in the relation name, as the reader's ``labels=``: the first n, or the last −n."""
        found = _MEKA.search(self.relation)
        return None if found is None or int(found[1]) == 0 else -int(found[1])


def parse_header(lines: list[str], path: Path) -> Header:
    """Read the declarations from the lines of a file; keywords in any case, ``%`` starts a comment.

    Parameters
    ----------
    lines : list of str
        The file's lines, at least up to ``@data``.
    path : Path
        For messages.
    """
    relation = ""
    attributes: list[Attribute] = []
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("%"):
            continue
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@data":
            return Header(relation, _distinct(attributes, path), number)
        if keyword == "@relation":
            relation = unquote(line[len(keyword) :].strip())
        elif keyword == "@attribute":
            attributes.append(_attribute(line, path, number))
        else:
            raise DataFileError(
                f"{path.name}, line {number}: @relation, @attribute or @data expected; got {line[:60]!r}. "
                "Is this an ARFF file?"
            )
    raise DataFileError(f"{path.name}: no @data line in {len(lines)} lines. Is the file complete, and ARFF?")


def unquote(token: str) -> str:
    """Take off single or double quotes and resolve backslash escapes inside them."""
    if len(token) >= 2 and token[0] in "'\"" and token[-1] == token[0]:
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def split_values(text: str) -> list[str]:
    """Split at commas outside quotes; each part is stripped and unquoted."""
    parts: list[str] = []
    position = 0
    while position <= len(text):
        found = _VALUES.match(text, position)
        if found is None:  # something behind a closing quote: not a list of values
            raise ValueError(f"cannot split {text[position : position + 40]!r} into values")
        parts.append(unquote(found[1]) if found[1] else found[2].rstrip())
        if not found[0].endswith(","):
            break
        position = found.end()
    return parts


def _attribute(line: str, path: Path, number: int) -> Attribute:
    found = _ATTRIBUTE.match(line)
    if found is None:
        raise DataFileError(
            f"{path.name}, line {number}: '@attribute name type' expected; got {line[:60]!r}. "
            "Names with spaces need quotes."
        )
    name, kind = unquote(found[1]), found[2].strip()
    if kind.startswith("{"):
        body, brace, rest = kind[1:].rpartition("}")
        if not brace or not (rest.strip() == "" or rest.lstrip().startswith("%")):
            raise DataFileError(f"{path.name}, line {number}: the values of {name!r} have no closing brace.")
        try:
            values = tuple(split_values(body.strip()))
        except ValueError as error:
            raise DataFileError(f"{path.name}, line {number}: {error}.") from error
        if len(set(values)) != len(values):
            raise DataFileError(f"{path.name}, line {number}: the values of {name!r} must be distinct.")
        return Attribute(name, values)
    type_name = kind.split(None, 1)[0].lower()
    if type_name in _NUMERIC:
        return Attribute(name)
    raise DataFileError(
        f"{path.name}, line {number}: attribute {name!r} has type {type_name!r}; numeric, real, integer or "
        "nominal {...} expected. Turn string, date and relational attributes into numbers first."
    )


def _distinct(attributes: list[Attribute], path: Path) -> tuple[Attribute, ...]:
    seen: set[str] = set()
    for attribute in attributes:
        if attribute.name in seen:
            raise DataFileError(f"{path.name}: attribute names must be distinct; {attribute.name!r} comes twice.")
        seen.add(attribute.name)
    if not attributes:
        raise DataFileError(f"{path.name}: declares no attribute.")
    return tuple(attributes)
