"""Mulan's data format: an ARFF file, dense or sparse, whose labels are named in an XML file."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.datasets._table import Table, as_features, check_distinct, csr, stack_matrices, to_dense
from onepos.exceptions import DataFileError

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
    ``attribute=value``. A sparse file gives sparse features, in which a nominal value that is left out is the first one
    declared, as ARFF demands.

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
    data = _Data(lines, start, path, attributes)
    codes = data.sparse_codes() if data.lines[0].startswith("{") else data.dense_codes()
    X, names = _features(codes, attributes, np.flatnonzero(~is_label))
    Y = _labels(codes, np.flatnonzero(is_label), data)
    label_names = tuple(a.name for a, chosen in zip(attributes, is_label, strict=True) if chosen)
    return Table(as_features(X), Y, names, label_names)


@dataclass(frozen=True)
class _Attribute:
    """One column: its name and, if nominal, its declared values in order (else None)."""

    name: str
    values: tuple[str, ...] | None = None

    @property
    def plain(self) -> bool:
        """Numeric, or nominal with exactly 0 and 1 in this order, so that token, code and value coincide."""
        return self.values is None or self.values == ("0", "1")

    @property
    def code(self) -> Callable[[str], float]:
        """What turns a token into its code: a number is itself, a nominal value its position."""
        if self.values is None:
            return float
        return {value: float(code) for code, value in enumerate(self.values)}.__getitem__


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
        if not brace or not (rest.strip() == "" or rest.lstrip().startswith("%")):
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
        xml_path = _find_xml(path) if xml is None else Path(xml)
        meka = _MEKA.search(relation)
        labels = read_label_names(xml_path) if xml_path else (-int(meka[1]) or None) if meka else None
    if labels is None:
        raise DataFileError(
            f"{path.name}: nothing says which attributes are the labels: there is no "
            f"{path.with_suffix('.xml').name} beside it. Give xml=, or labels= as their "
            "number (the last n; negative: the first n) or their names."
        )
    mask = np.zeros(len(names), dtype=bool)
    if isinstance(labels, int):
        if not 0 < abs(labels) < len(names):
            raise DataFileError(
                f"{path.name}: labels={labels} leaves no feature or no label among {len(names)} attributes."
            )
        mask[slice(-labels, None) if labels > 0 else slice(None, -labels)] = True
        return mask
    wanted = {labels} if isinstance(labels, str) else set(labels)
    missing = sorted(wanted - set(names))
    if missing:
        raise DataFileError(
            f"{path.name}: {len(missing)} label(s) are not among its attributes: {missing[:5]}. "
            "Do the ARFF and the XML file belong together?"
        )
    mask[:] = [name in wanted for name in names]
    return mask


def _find_xml(path: Path) -> Path | None:
    stems = [path.stem, *(path.stem.removesuffix(suffix) for suffix in _PART_SUFFIXES)]
    candidates = (path.with_name(f"{stem}.xml") for stem in stems)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


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
                line = parser.CurrentLineNumber
                raise DataFileError(f"{path.name}, line {line}: a <label> has no name attribute.")
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


class _Data:
    """The non-empty, non-comment lines of a data section, each with its line number in the file.

    A value's code is the number itself or the position among the declared values: so what a sparse row leaves out is 0
    for both, as ARFF demands.
    """

    def __init__(self, lines: Sequence[str], start: int, path: Path, attributes: Sequence[_Attribute]) -> None:
        numbered = [(n, s) for n, s in enumerate(map(str.strip, lines[start:]), start=start + 1) if s and s[0] != "%"]
        self.path, self.attributes = path, attributes
        self.numbers = [number for number, _ in numbered]
        self.lines = [line for _, line in numbered]
        self.codes = [attribute.code for attribute in attributes]
        if not self.lines:
            raise DataFileError(f"{path.name}: no row follows @data. Is the file complete?")
        for row, line in enumerate(self.lines):
            if line.startswith("{") != self.lines[0].startswith("{"):
                self.fail(row, "a file must be all dense or all sparse ({index value, ...}); this one mixes them.")

    def fail(self, row: int, problem: str, error: Exception | None = None) -> NoReturn:
        """Raise a DataFileError that names the file and the line of the row."""
        raise DataFileError(f"{self.path.name}, line {self.numbers[row]}: {problem}") from error

    def dense_codes(self) -> NDArray[np.float64]:
        """Return the codes, shape (n_rows, n_attributes)."""
        width = len(self.attributes)
        codes = np.empty((len(self.lines), width))
        for row, line in enumerate(self.lines):
            try:
                tokens = _split_values(line)
            except ValueError as error:
                self.fail(row, str(error), error)
            if len(tokens) != width:
                self.fail(row, f"{width} values expected, one per attribute; got {len(tokens)}. Is the file complete?")
            try:
                codes[row] = [code(token) for code, token in zip(self.codes, tokens, strict=True)]
            except (ValueError, KeyError):  # a missing value, or a wrong one
                codes[row] = [self._code(row, column, token) for column, token in enumerate(tokens)]
        return codes

    def sparse_codes(self) -> Any:
        """Return the codes as CSR."""
        columns: list[int] = []
        values: list[float] = []
        starts = [0]
        width = len(self.attributes)
        for row, line in enumerate(self.lines):
            if _SPARSE_ROW.fullmatch(line) is None:
                self.fail(row, f"'{{index value, ...}}' expected; got {line[:60]!r}. Is the file complete?")
            for index, token in _PAIR.findall(line):
                column = int(index[:20])  # Python refuses to convert thousands of digits
                if column >= width:
                    self.fail(row, f"index {index[:20]} is outside the {width} attributes (counted from 0).")
                columns.append(column)
                values.append(self._code(row, column, _unquote(token)))
            here = columns[starts[-1] :]
            if len(set(here)) < len(here):
                twice = next(column for column in here if here.count(column) > 1)
                self.fail(row, f"index {twice} comes twice in the row.")
            starts.append(len(columns))
        codes = csr((np.array(values), np.array(columns, dtype=np.int64), starts), shape=(len(self.lines), width))
        codes.sort_indices()
        codes.eliminate_zeros()
        return codes

    def _code(self, row: int, column: int, token: str) -> float:
        if token == "?":
            return float("nan")
        try:
            return self.codes[column](token)
        except (ValueError, KeyError) as error:
            attribute = self.attributes[column]
            kind = "is numeric" if attribute.values is None else f"takes {{{', '.join(attribute.values[:6])}}}"
            self.fail(row, f"attribute {attribute.name!r} {kind}; got {token[:60]!r}.", error)


def _features(codes: Any, attributes: Sequence[_Attribute], chosen: NDArray[np.intp]) -> tuple[Any, tuple[str, ...]]:
    if all(attributes[j].plain for j in chosen):
        return codes[:, chosen], tuple(attributes[j].name for j in chosen)
    names: list[str] = []
    # Columns of a sparse file are compressed one by one: all of them dense at once may not fit in memory.
    keep: Any = sparse.csc_array if sparse.issparse(codes) else np.asarray
    blocks: list[Any] = []
    for j in chosen:
        column, attribute = np.asarray(to_dense(codes[:, [j]]), dtype=np.float64), attributes[j]
        if attribute.values is not None and not set(attribute.values) <= {"0", "1"}:
            missing = np.isnan(column)
            column = np.where(missing, np.nan, column == np.arange(len(attribute.values)))
            names.extend(f"{attribute.name}={value}" for value in attribute.values)
        else:
            if not attribute.plain:
                column = _map(column, [float(value) for value in attribute.values or ()])
            names.append(attribute.name)
        blocks.append(keep(column))
    return stack_matrices(blocks, axis=1), tuple(names)


def _labels(codes: Any, chosen: NDArray[np.intp], data: _Data) -> NDArray[np.uint8]:
    block = codes[:, chosen]
    attributes = [data.attributes[j] for j in chosen]
    if sparse.issparse(block) and all(attribute.plain for attribute in attributes) and (block.data == 1).all():
        return np.asarray(block.astype(np.uint8).toarray(), dtype=np.uint8)  # many labels: no dense float64
    values = np.array(to_dense(block))
    for k, attribute in enumerate(attributes):
        if attribute.values is not None and not attribute.plain:
            values[:, k] = _map(values[:, k], [_truth(value, attribute, data) for value in attribute.values])
    legal = (values == 0) | (values == 1) | (values == -1)
    if not legal.all():
        row, k = (int(i) for i in np.argwhere(~legal)[0])
        name = attributes[k].name
        data.fail(row, f"label {name!r} must be 0/1 or -1/1; got {values[row, k]}. Is it really a label?")
    return (values > 0).astype(np.uint8)


def _truth(value: str, attribute: _Attribute, data: _Data) -> float:
    word = value.lower()
    if word in _POSITIVE or word in _NEGATIVE:
        return float(word in _POSITIVE)
    raise DataFileError(
        f"{data.path.name}: label {attribute.name!r} must take the values 0/1, -1/1, false/true or no/yes; "
        f"it declares {value!r}. Is it really a label?"
    )


def _map(codes: NDArray[np.float64], values: Sequence[float]) -> NDArray[np.float64]:
    """Replace each code by its value; NaN stays."""
    known = np.isfinite(codes)
    result = np.full(codes.shape, np.nan)
    result[known] = np.asarray(values)[codes[known].astype(np.int64)]
    return result
