"""The header of an ARFF file, and Mulan's XML file, which names the labels of it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

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


_FORBIDDEN = (b"<!doctype", b"<!entity")


def read_label_names(path: Path) -> tuple[str, ...]:
    """Return the names of all ``<label>`` elements, nested ones too, in document order.

    A document type or an entity definition is refused before anything is parsed: a label file needs
    neither, and both are how a small XML file becomes gigabytes in memory or reads other files.

    Parameters
    ----------
    path : Path
        The XML file.
    """
    content = path.read_bytes()
    if b"\0" in content:
        # UTF-16 and UTF-32 would hide a document type from the search below; Mulan writes UTF-8.
        raise DataFileError(f"{path.name}: label files must be UTF-8 text; this one holds NUL bytes (UTF-16?).")
    lowered = content.lower()
    for word in _FORBIDDEN:
        if word in lowered:
            raise DataFileError(
                f"{path.name}: holds {word.decode().upper()}, which a Mulan label file never needs and which "
                "can be used for attacks. Remove it if you trust the file."
            )
    return _parse(content, path)


def _parse(content: bytes, path: Path) -> tuple[str, ...]:
    names: list[str] = []
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        local = tag.rpartition(":")[2]
        if depth == 0 and local != "labels":
            raise DataFileError(f"{path.name}: root element must be <labels>; got <{tag}>. Is it a Mulan file?")
        depth += 1
        if local == "label":
            if "name" not in attributes:
                line = parser.CurrentLineNumber
                raise DataFileError(f"{path.name}, line {line}: a <label> has no name attribute.")
            names.append(attributes["name"])

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> NoReturn:
        # The byte search misses a document type in an exotic single-byte encoding; the parser does not.
        raise DataFileError(f"{path.name}: holds a document type, which a Mulan label file never needs.")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError, UnicodeError) as error:
        # The message of an ExpatError ends with the line and column.
        raise DataFileError(f"{path.name}: not well-formed XML ({error}). Is the file complete?") from error
    if not names:
        raise DataFileError(f"{path.name}: names no label: at least one <label name=...> expected.")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataFileError(f"{path.name}: label names must be distinct; repeated: {twice[:5]}.")
    return tuple(names)
