"""Mulan's data format: an ARFF file, dense or sparse, whose labels are named in an XML file."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.labels import check_distinct
from onepos._utils.validation import csr, to_dense
from onepos.exceptions import DataFileError
from onepos_studies.datasets._table import Table, as_features, first_illegal, stack_matrices

_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{}}]+)(?:\s+|(?=\{{))(.+)$", re.IGNORECASE)
_VALUES = re.compile(rf"\s*(?:({_QUOTED})\s*|([^,]*))(?:,|$)")
_VALUE = rf"""(?:{_QUOTED}|[^\s,{{}}'"]+)"""
_PAIR = re.compile(rf"(\d+)\s+({_VALUE})")
_SPARSE_ROW = re.compile(rf"\{{\s*(?:\d+\s+{_VALUE}\s*(?:,\s*\d+\s+{_VALUE}\s*)*)?\}}")
#: MEKA writes the number of labels into the name of the relation: ``-C 3`` the first three, ``-C -3`` the last.
_MEKA = re.compile(r"-C\s+(-?\d{1,9})\b")
_POSITIVE = {"1", "true", "yes", "t", "y"}
_NEGATIVE = {"0", "-1", "false", "no", "f", "n"}
_PART_SUFFIXES = ("-train", "-test", "-sparse")


def read_arff(path: Path, *, labels: int | Sequence[str] | None = None, xml: Path | str | None = None) -> Table:
    """Read a multi-label ARFF file; columns keep its order.

    Nominal features with the values 0 and 1 become one number, others one indicator per value, named
    ``attribute=value``. A sparse file gives sparse features.

    ``labels`` says which attributes are labels: the last n, the first n if negative, or their names. Without it Mulan's
    ``xml`` file decides, by default that of the same name, also without an ending ``-train``, ``-test`` or ``-sparse``;
    without that, MEKA's ``-C`` in the relation's name.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # older Weka wrote the platform's encoding
    # Only these end a line in ARFF; str.splitlines would also split at characters inside quoted names.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    relation, attributes, start = _parse_header(lines, path)
    is_label = _label_mask(relation, [attribute.name for attribute in attributes], path, labels, xml)
    codes, numbers = _parse_rows(lines, start, path, attributes)
    X, names = _features(codes[:, ~is_label], [attributes[j] for j in np.flatnonzero(~is_label)])
    chosen = [attributes[j] for j in np.flatnonzero(is_label)]
    Y = _labels(codes[:, is_label], chosen, path, numbers)
    return Table(as_features(X), Y, names, tuple(attribute.name for attribute in chosen))


@dataclass(frozen=True)
class _Attribute:
    """One column: its name and, if nominal, its declared values in order (else None)."""

    name: str
    values: tuple[str, ...] | None = None

    @property
    def plain(self) -> bool:
        """Numeric, or nominal with exactly 0 and 1 in this order, so that token, code and value coincide."""
        return self.values is None or self.values == ("0", "1")

    @cached_property
    def _position(self) -> dict[str, float]:
        return {value: float(code) for code, value in enumerate(self.values or ())}

    def code(self, token: str) -> float:
        """Return the code of a token: a number is itself, a nominal value its position, a missing one NaN."""
        if token == "?":
            return float("nan")
        try:
            return float(token) if self.values is None else self._position[token]
        except (ValueError, KeyError) as error:
            kind = "is numeric" if self.values is None else f"takes {{{', '.join(self.values[:6])}}}"
            raise ValueError(f"attribute {self.name!r} {kind}; got {token[:60]!r}.") from error


def _parse_header(lines: list[str], path: Path) -> tuple[str, tuple[_Attribute, ...], int]:
    """Return relation, attributes and the number of lines up to ``@data``; keywords come in any case."""
    relation = ""
    attributes: list[_Attribute] = []
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("%"):
            continue
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@relation":
            relation = _unquote(line[len(keyword) :].strip())
        elif keyword == "@attribute":
            try:
                attributes.append(_parse_attribute(line))
            except ValueError as error:
                raise DataFileError(f"{path.name}, line {number}: {error}") from error
        elif keyword == "@data":
            if not attributes:
                raise DataFileError(f"{path.name}: declares no attribute.")
            check_distinct([attribute.name for attribute in attributes], path.name, "attribute")
            return relation, tuple(attributes), number
        else:
            raise DataFileError(
                f"{path.name}, line {number}: @relation, @attribute or @data expected; got {line[:60]!r}. "
                "Is this an ARFF file?"
            )
    raise DataFileError(f"{path.name}: no @data line in {len(lines)} lines. Is the file complete, and ARFF?")


def _parse_attribute(line: str) -> _Attribute:
    found = _ATTRIBUTE.match(line)
    if found is None:
        raise ValueError(f"'@attribute name type' expected; got {line[:60]!r}. Names with spaces need quotes.")
    name, kind = _unquote(found[1]), found[2].strip()
    if kind.startswith("{"):
        body, brace, rest = kind[1:].rpartition("}")
        if not brace or rest.strip()[:1] not in ("", "%"):
            raise ValueError(f"the values of {name!r} have no closing brace.")
        values = tuple(_split_values(body.strip()))
        if len(set(values)) != len(values):
            raise ValueError(f"the values of {name!r} must be distinct.")
        return _Attribute(name, values)
    kind = kind.split(None, 1)[0].lower()
    if kind not in ("numeric", "real", "integer"):
        raise ValueError(
            f"attribute {name!r} has type {kind!r}; numeric, real, integer or nominal {{...}} expected. Turn string, "
            "date and relational attributes into numbers first."
        )
    return _Attribute(name)


def _unquote(token: str) -> str:
    """Take off single or double quotes and resolve backslash escapes inside them."""
    if len(token) >= 2 and token[0] in "'\"" and token[-1] == token[0]:
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def _split_values(text: str) -> list[str]:
    """Split at commas outside quotes; each part is stripped and unquoted."""
    if "'" not in text and '"' not in text:
        return [part.strip() for part in text.split(",")]
    parts: list[str] = []
    position = 0
    while position <= len(text):
        found = _VALUES.match(text, position)
        if found is None:  # something behind a closing quote: not a list of values
            raise ValueError(f"cannot split {text[position : position + 40]!r} into values.")
        parts.append(_unquote(found[1]) if found[1] else found[2].rstrip())
        if not found[0].endswith(","):
            break
        position = found.end()
    return parts


def _label_mask(
    relation: str, names: list[str], path: Path, labels: int | Sequence[str] | None, xml: Path | str | None
) -> NDArray[np.bool_]:
    if labels is not None and xml is not None:
        raise ValueError("give labels= or xml=, not both: each says which attributes are the labels.")
    if labels is None:
        stems = [path.stem, *(path.stem.removesuffix(suffix) for suffix in _PART_SUFFIXES)]
        beside = (path.with_name(f"{stem}.xml") for stem in stems)
        source = xml or next((found for found in beside if found.is_file()), None)
        if source is not None:
            labels = read_label_names(Path(source))
        elif meka := _MEKA.search(relation):
            labels = -int(meka[1]) or None
    if labels is None:
        raise DataFileError(
            f"{path.name}: nothing says which attributes are the labels: there is no {path.with_suffix('.xml').name} "
            "beside it. Give xml=, or labels= as their number (the last n; negative: the first n) or their names."
        )
    if isinstance(labels, int):
        if not 0 < abs(labels) < len(names):
            raise DataFileError(f"{path.name}: labels={labels} leaves no feature or label of {len(names)} attributes.")
        first = np.arange(len(names)) < (-labels % len(names))
        return ~first if labels > 0 else first
    wanted = {labels} if isinstance(labels, str) else set(labels)
    missing = sorted(wanted - set(names))
    if missing:
        raise DataFileError(
            f"{path.name}: {len(missing)} label(s) are not among its attributes: {missing[:5]}. "
            "Do the ARFF and the XML file belong together?"
        )
    return np.array([name in wanted for name in names])


def read_label_names(path: Path) -> tuple[str, ...]:
    """Return the names of all ``<label>`` elements of Mulan's XML file, nested ones too, in document order.

    A document type is refused before anything in it is parsed. A label file needs none, and its entities can turn a
    small XML file into gigabytes of memory or read other files.
    """
    names: list[str] = []
    tags: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        tags.append(tag.rpartition(":")[2])
        if tags[0] != "labels":
            raise DataFileError(f"{path.name}: root element must be <labels>; got <{tag}>. Is it a Mulan file?")
        if tags[-1] == "label":
            if "name" not in attributes:
                raise DataFileError(f"{path.name}, line {parser.CurrentLineNumber}: a <label> has no name attribute.")
            names.append(attributes["name"])

    def doctype(*_: object) -> NoReturn:
        raise DataFileError(
            f"{path.name}: holds a DOCTYPE, which a Mulan label file never needs and which can be used for attacks. "
            "Remove it if you trust the file."
        )

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(path.read_bytes(), True)
    except DataFileError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: an encoding that is not supported
        # The message of an ExpatError ends with the line and column.
        raise DataFileError(f"{path.name}: not well-formed XML ({error}). Is the file complete?") from error
    if not names:
        raise DataFileError(f"{path.name}: names no label: at least one <label name=...> expected.")
    check_distinct(names, path.name, "label")
    return tuple(names)


def _parse_rows(lines: list[str], start: int, path: Path, attributes: Sequence[_Attribute]) -> tuple[Any, list[int]]:
    """Return the codes of all rows, dense or CSR as the file is (left out: 0), and the number of each row's line."""
    numbered = enumerate(map(str.strip, lines[start:]), start=start + 1)
    rows = [(number, line) for number, line in numbered if line and line[0] != "%"]
    if not rows:
        raise DataFileError(f"{path.name}: no row follows @data. Is the file complete?")
    is_thin = rows[0][1].startswith("{")
    columns: list[int] = []
    values: list[float] = []
    starts = [0]
    for number, line in rows:
        try:
            if line.startswith("{") != is_thin:
                raise ValueError("a file must be all dense or all sparse ({index value, ...}); this one mixes them.")
            for column, token in (_sparse_cells if is_thin else _dense_cells)(line, len(attributes)):
                columns.append(column)
                values.append(attributes[column].code(token))
        except ValueError as error:
            raise DataFileError(f"{path.name}, line {number}: {error}") from error
        starts.append(len(columns))
    shape, numbers = (len(rows), len(attributes)), [number for number, _ in rows]
    if not is_thin:
        return np.array(values).reshape(shape), numbers
    codes = csr((np.array(values), np.array(columns, dtype=np.int64), starts), shape=shape)
    codes.sort_indices()
    codes.eliminate_zeros()
    return codes, numbers


def _dense_cells(line: str, width: int) -> list[tuple[int, str]]:
    tokens = _split_values(line)
    if len(tokens) != width:
        raise ValueError(f"{width} values expected, one per attribute; got {len(tokens)}. Is the file complete?")
    return list(enumerate(tokens))


def _sparse_cells(line: str, width: int) -> list[tuple[int, str]]:
    if _SPARSE_ROW.fullmatch(line) is None:
        raise ValueError(f"'{{index value, ...}}' expected; got {line[:60]!r}. Is the file complete?")
    # Python refuses to convert thousands of digits.
    cells = [(int(index[:20]), _unquote(token)) for index, token in _PAIR.findall(line)]
    for column, count in Counter(column for column, _ in cells).items():
        if column >= width:
            raise ValueError(f"index {column} is outside the {width} attributes (counted from 0).")
        if count > 1:
            raise ValueError(f"index {column} comes twice in the row.")
    return cells


def _features(codes: Any, attributes: Sequence[_Attribute]) -> tuple[Any, tuple[str, ...]]:
    if all(attribute.plain for attribute in attributes):
        return codes, tuple(attribute.name for attribute in attributes)
    names: list[str] = []
    # Columns of a sparse file are compressed one by one: all of them dense at once may not fit in memory.
    keep: Any = sparse.csc_array if sparse.issparse(codes) else np.asarray
    blocks: list[Any] = []
    for j, attribute in enumerate(attributes):
        column, values = np.asarray(to_dense(codes[:, [j]]), dtype=np.float64), attribute.values
        if values is not None and not set(values) <= {"0", "1"}:
            column = np.where(np.isnan(column), np.nan, column == np.arange(len(values)))
            names.extend(f"{attribute.name}={value}" for value in values)
        else:
            if not attribute.plain:
                column = _map(column, [float(value) for value in values or ()])
            names.append(attribute.name)
        blocks.append(keep(column))
    return stack_matrices(blocks, axis=1), tuple(names)


def _labels(codes: Any, attributes: Sequence[_Attribute], path: Path, numbers: list[int]) -> NDArray[np.uint8]:
    if sparse.issparse(codes) and all(attribute.plain for attribute in attributes) and (codes.data == 1).all():
        return np.asarray(codes.astype(np.uint8).toarray(), dtype=np.uint8)  # many labels: no dense float64
    values = np.array(to_dense(codes))
    for k, attribute in enumerate(attributes):
        if attribute.values is None or attribute.plain:
            continue
        strange = [value for value in attribute.values if value.lower() not in _POSITIVE | _NEGATIVE]
        if strange:
            raise DataFileError(
                f"{path.name}: label {attribute.name!r} must take the values 0/1, -1/1, false/true or no/yes; "
                f"it declares {strange[0]!r}. Is it really a label?"
            )
        values[:, k] = _map(values[:, k], [float(value.lower() in _POSITIVE) for value in attribute.values])
    place = first_illegal(values)
    if place is not None:
        raise DataFileError(
            f"{path.name}, line {numbers[place[0]]}: label {attributes[place[1]].name!r} must be 0/1 or -1/1; got "
            f"{values[place]}. Is it really a label?"
        )
    return (values > 0).astype(np.uint8)


def _map(codes: NDArray[np.float64], values: Sequence[float]) -> NDArray[np.float64]:
    """Replace each code by its value; NaN stays."""
    known = np.isfinite(codes)
    result = np.full(codes.shape, np.nan)
    result[known] = np.asarray(values)[codes[known].astype(np.int64)]
    return result
