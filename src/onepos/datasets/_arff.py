"""Mulan's data format: an ARFF file, dense or sparse, whose labels are named in an XML file."""

import io
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.datasets._arff_header import Attribute, Header, parse_header, read_label_names, split_values, unquote
from onepos.datasets._table import Table, as_features, csr, is_sparse, stack_columns, to_dense
from onepos.exceptions import DataFileError

_VALUE = r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\s,{}'"]+)"""
_PAIR = re.compile(rf"(\d+)\s+({_VALUE})")
_SPARSE_ROW = re.compile(rf"\{{\s*(?:\d+\s+{_VALUE}\s*(?:,\s*\d+\s+{_VALUE}\s*)*)?\}}")
_PUNCTUATION = str.maketrans("{},", "   ")


class DataLines:
    """The non-empty, non-comment lines of a data section, each with its line number in the file."""

    def __init__(self, lines: Sequence[str], offset: int, path: Path) -> None:
        numbered = [(n, s) for n, s in enumerate(map(str.strip, lines), start=offset + 1) if s and s[0] != "%"]
        self.path = path
        self.numbers = [number for number, _ in numbered]
        self.lines = [line for _, line in numbered]
        if not self.lines:
            raise DataFileError(f"{path.name}: no row follows @data. Is the file complete?")

    def fail(self, row: int, problem: str, error: Exception | None = None) -> NoReturn:
        """Raise a DataFileError that names the file and the line of the row."""
        raise DataFileError(f"{self.path.name}, line {self.numbers[row]}: {problem}") from error


def parse_data(data: DataLines, attributes: Sequence[Attribute]) -> Any:
    """Return an array of shape (n_rows, n_attributes): float64 ndarray, or CSR if the file is sparse.

    A numeric value is itself, a nominal one its position among the declared values: so what a sparse
    row leaves out is 0 for both, as ARFF demands. Missing (``?``) is NaN.

    Parameters
    ----------
    data : DataLines
    attributes : sequence of Attribute
    """
    is_sparse = data.lines[0].startswith("{")
    for row, line in enumerate(data.lines):
        if line.startswith("{") != is_sparse:
            data.fail(row, "a file must be all dense or all sparse ({index value, ...}); this one mixes them.")
    plain = all(attribute.plain for attribute in attributes)
    if is_sparse:
        return _parse_sparse(data, attributes, plain)
    if plain and not any("'" in line or '"' in line for line in data.lines):
        return _parse_dense_numbers(data, attributes)
    return _parse_dense_tokens(data, attributes)


def _parse_dense_numbers(data: DataLines, attributes: Sequence[Attribute]) -> NDArray[np.float64]:
    import pandas as pd

    width = len(attributes)
    for row, line in enumerate(data.lines):  # pandas would pad a short row with NaN in silence
        if line.count(",") != width - 1:
            data.fail(row, _width_problem(line.count(",") + 1, width))
    try:
        frame = pd.read_csv(
            io.StringIO("\n".join(data.lines)),
            header=None,
            dtype=np.float64,
            na_values=["?"],
            keep_default_na=False,
            skipinitialspace=True,
            skip_blank_lines=False,
        )
    except ValueError:
        # Read again token by token, slowly: that finds the place. Values that only pandas dislikes pass.
        return _parse_dense_tokens(data, attributes)
    codes: NDArray[np.float64] = np.ascontiguousarray(frame.to_numpy(dtype=np.float64))
    nominal = np.array([attribute.values is not None for attribute in attributes])
    bad = nominal & ~((codes == 0) | (codes == 1) | np.isnan(codes)).all(axis=0)
    if bad.any():
        return _parse_dense_tokens(data, attributes)
    return codes


def _parse_dense_tokens(data: DataLines, attributes: Sequence[Attribute]) -> NDArray[np.float64]:
    lookups = [_lookup(attribute) for attribute in attributes]
    codes = np.empty((len(data.lines), len(attributes)))
    for row, line in enumerate(data.lines):
        try:
            tokens = split_values(line)
        except ValueError as error:
            data.fail(row, f"{error}.", error)
        if len(tokens) != len(attributes):
            data.fail(row, _width_problem(len(tokens), len(attributes)))
        codes[row] = [
            _encode(data, row, attribute, lookup, token)
            for attribute, lookup, token in zip(attributes, lookups, tokens, strict=True)
        ]
    return codes


def _parse_sparse(data: DataLines, attributes: Sequence[Attribute], plain: bool) -> Any:
    for row, line in enumerate(data.lines):
        if _SPARSE_ROW.fullmatch(line) is None:
            data.fail(row, f"'{{index value, ...}}' expected; got {_shorten(line)}. Is the file complete?")
    counts = np.array([line.count(",") + 1 if line.strip("{} \t") else 0 for line in data.lines])
    quoted = any("'" in line or '"' in line for line in data.lines)
    flat = None if quoted or not plain else _sparse_numbers(data, attributes)
    if flat is None:
        counts, flat = _sparse_tokens(data, attributes)
    row_of = np.repeat(np.arange(len(data.lines)), counts)
    outside = np.flatnonzero(flat[0] >= len(attributes))  # before the cast, which would wrap a huge index around
    if outside.size:
        _fail_outside(data, int(row_of[outside[0]]), f"{flat[0][outside[0]]:.0f}", attributes)
    columns = flat[0].astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    shape = (len(data.lines), len(attributes))
    codes = csr((flat[1], columns, indptr), shape=shape)
    order = np.lexsort((columns, row_of))
    twice = np.flatnonzero((np.diff(columns[order]) == 0) & (np.diff(row_of[order]) == 0))
    if twice.size:
        at = order[twice[0]]
        data.fail(int(row_of[at]), f"index {int(columns[at])} comes twice in the row.")
    codes.sort_indices()
    codes.eliminate_zeros()
    return codes


def _sparse_numbers(data: DataLines, attributes: Sequence[Attribute]) -> NDArray[np.float64] | None:
    """Return indices and values of all rows, shape (2, nnz); None if a token needs a closer look."""
    tokens = " ".join(data.lines).translate(_PUNCTUATION).replace("?", "nan").split()
    try:
        pairs = np.array(tokens or [], dtype="S").astype(np.float64).reshape(-1, 2).T
    except (ValueError, UnicodeError):
        return None
    nominal = np.array([attribute.values is not None for attribute in attributes])
    of_nominal = nominal[np.minimum(pairs[0], len(attributes) - 1).astype(np.int64)]
    legal = (pairs[1] == 0) | (pairs[1] == 1) | np.isnan(pairs[1])
    return pairs if bool((legal | ~of_nominal).all()) else None


def _sparse_tokens(data: DataLines, attributes: Sequence[Attribute]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    lookups = [_lookup(attribute) for attribute in attributes]
    rows: list[list[tuple[float, float]]] = []
    for row, line in enumerate(data.lines):
        pairs = []
        for index, token in _PAIR.findall(line):
            column = int(index) if len(index) < 20 else len(attributes)  # Python refuses to convert thousands of digits
            if column >= len(attributes):
                _fail_outside(data, row, index[:20], attributes)
            value = _encode(data, row, attributes[column], lookups[column], unquote(token))
            pairs.append((float(column), value))
        rows.append(pairs)
    flat = np.array(list(chain.from_iterable(rows)), dtype=np.float64).reshape(-1, 2).T
    return np.array([len(pairs) for pairs in rows], dtype=np.int64), flat


def _lookup(attribute: Attribute) -> dict[str, float] | None:
    if attribute.values is None:
        return None
    return {value: float(code) for code, value in enumerate(attribute.values)}


def _encode(data: DataLines, row: int, attribute: Attribute, lookup: dict[str, float] | None, token: str) -> float:
    if token == "?":
        return float("nan")
    if lookup is None:
        try:
            return float(token)
        except ValueError as error:
            data.fail(row, f"attribute {attribute.name!r} is numeric; got {_shorten(token)}.", error)
    if token not in lookup:
        expected = ", ".join(list(lookup)[:6])
        data.fail(row, f"attribute {attribute.name!r} takes {{{expected}}}; got {_shorten(token)}.")
    return lookup[token]


def _fail_outside(data: DataLines, row: int, index: str, attributes: Sequence[Attribute]) -> NoReturn:
    data.fail(row, f"index {index} is outside the {len(attributes)} attributes (counted from 0).")


def _width_problem(found: int, expected: int) -> str:
    return f"{expected} values expected, one per attribute; got {found}. Is the file complete?"


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


_POSITIVE = {"1", "true", "yes", "t", "y"}
_NEGATIVE = {"0", "-1", "false", "no", "f", "n"}
_PART_SUFFIXES = ("-train", "-test", "-sparse")


def read_arff(path: Path, *, labels: int | Sequence[str] | None = None, xml: Path | str | None = None) -> Table:
    """Read a multi-label ARFF file.

    Columns keep the order of the ARFF file. Nominal features with the values 0 and 1 become one number,
    others one indicator per value, named ``attribute=value``. A sparse file gives sparse features, in
    which a nominal value that is left out is the first one declared, as ARFF demands.

    Parameters
    ----------
    path : Path
        The ARFF file.
    labels : int or sequence of str, optional
        Which attributes are labels: the last n, the first n if negative, or their names. Without it the
        XML file decides; without that, MEKA's ``-C`` in the relation's name.
    xml : path, optional
        Mulan's label file. Default: the XML file of the same name beside the ARFF file, also without
        an ending ``-train``, ``-test`` or ``-sparse``.

    Returns
    -------
    Table
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # older Weka wrote the platform's encoding
    # Only these end a line in ARFF; str.splitlines would also split at characters inside quoted names.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    header = parse_header(lines, path)
    is_label = _label_mask(header, path, labels, xml)
    data = DataLines(lines[header.n_lines :], header.n_lines, path)
    codes = parse_data(data, header.attributes)
    features = np.flatnonzero(~is_label)
    X, names = _features(codes, header.attributes, features)
    Y = _labels(codes, header.attributes, np.flatnonzero(is_label), data)
    label_names = tuple(a.name for a, chosen in zip(header.attributes, is_label, strict=True) if chosen)
    return Table(as_features(X), Y, names, label_names)


def _label_mask(
    header: Header, path: Path, labels: int | Sequence[str] | None, xml: Path | str | None
) -> NDArray[np.bool_]:
    names = [attribute.name for attribute in header.attributes]
    if labels is None:
        xml_path = _find_xml(path) if xml is None else Path(xml)
        labels = read_label_names(xml_path) if xml_path is not None else header.meka_labels
    elif xml is not None:
        raise ValueError("give labels= or xml=, not both: each says which attributes are the labels.")
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
    wanted = [labels] if isinstance(labels, str) else list(labels)
    missing = sorted(set(wanted) - set(names))
    if missing:
        raise DataFileError(
            f"{path.name}: {len(missing)} label(s) are not among its attributes: {missing[:5]}. "
            "Do the ARFF and the XML file belong together?"
        )
    chosen = set(wanted)
    mask[:] = [name in chosen for name in names]
    return mask


def _find_xml(path: Path) -> Path | None:
    stems = [path.stem] + [path.stem.removesuffix(s) for s in _PART_SUFFIXES if path.stem.endswith(s)]
    candidates = (path.with_name(f"{stem}.xml") for stem in stems)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _features(codes: Any, attributes: Sequence[Attribute], chosen: NDArray[np.intp]) -> tuple[Any, tuple[str, ...]]:
    if all(attributes[j].plain for j in chosen):
        return codes[:, chosen], tuple(attributes[j].name for j in chosen)
    names: list[str] = []
    # Columns of a sparse file are compressed one by one: all of them dense at once may not fit in memory.
    keep: Any = sparse.csc_array if is_sparse(codes) else np.asarray
    blocks: list[Any] = []
    for j in chosen:
        column, attribute = _column(codes, j), attributes[j]
        if attribute.values is None:
            blocks.append(keep(column[:, None]))
            names.append(attribute.name)
        elif set(attribute.values) <= {"0", "1"}:
            blocks.append(keep(_map(column, [float(value) for value in attribute.values])[:, None]))
            names.append(attribute.name)
        else:
            one_hot = (column[:, None] == np.arange(len(attribute.values))).astype(np.float64)
            one_hot[np.isnan(column)] = np.nan
            blocks.append(keep(one_hot))
            names.extend(f"{attribute.name}={value}" for value in attribute.values)
    return stack_columns(blocks), tuple(names)


def _labels(
    codes: Any, attributes: Sequence[Attribute], chosen: NDArray[np.intp], data: DataLines
) -> NDArray[np.uint8]:
    block = codes[:, chosen]
    if is_sparse(block) and all(attributes[j].plain for j in chosen) and (block.data == 1).all():
        return np.asarray(block.astype(np.uint8).toarray(), dtype=np.uint8)  # many labels: no dense float64
    values = np.array(to_dense(block))
    for k, j in enumerate(chosen):
        attribute = attributes[j]
        if attribute.values is not None and not attribute.plain:
            values[:, k] = _map(values[:, k], [_truth(value, attribute, data) for value in attribute.values])
    legal = (values == 0) | (values == 1) | (values == -1)
    if not legal.all():
        row, k = (int(i) for i in np.argwhere(~legal)[0])
        name = attributes[int(chosen[k])].name
        data.fail(row, f"label {name!r} must be 0/1 or -1/1; got {values[row, k]}. Is it really a label?")
    return (values > 0).astype(np.uint8)


def _truth(value: str, attribute: Attribute, data: DataLines) -> float:
    word = value.lower()
    if word in _POSITIVE or word in _NEGATIVE:
        return float(word in _POSITIVE)
    raise DataFileError(
        f"{data.path.name}: label {attribute.name!r} must take the values 0/1, -1/1, false/true or no/yes; "
        f"it declares {value!r}. Is it really a label?"
    )


def _column(codes: Any, j: int) -> NDArray[np.float64]:
    return np.asarray(to_dense(codes[:, [j]])[:, 0], dtype=np.float64)


def _map(codes: NDArray[np.float64], values: Sequence[float]) -> NDArray[np.float64]:
    """Replace each code by its value; NaN stays."""
    known = np.isfinite(codes)
    result = np.full(codes.shape, np.nan)
    result[known] = np.asarray(values)[codes[known].astype(np.int64)]
    return result
