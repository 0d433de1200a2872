"""Mulan's data format: an ARFF file, dense or sparse, whose labels are named in an XML file."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.labels import check_distinct
from onepos._utils.validation import csr, to_dense
from onepos.exceptions import DataFileError
from onepos_studies.datasets._table import Table, as_features, first_illegal, stack_matrices

#: MEKA writes the number of labels into the name of the relation: ``-C 3`` the first three, ``-C -3`` the last.
_MEKA = re.compile(r"-C\s+(-?\d{1,9})\b")
_SPARSE = re.compile(r"^\s*@data\s+(?:%.*\s+)*\{", re.IGNORECASE | re.MULTILINE)
_POSITIVE = {"1", "true", "yes", "t", "y"}
_NEGATIVE = {"0", "-1", "false", "no", "f", "n"}
_PART_SUFFIXES = ("-train", "-test", "-sparse")

#: Name of an attribute, and its values in order if it is nominal, else None.
Attribute = tuple[str, list[str] | None]


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
    relation, attributes, codes = _parse(text, path)
    is_label = _label_mask(relation, [name for name, _ in attributes], path, labels, xml)
    X, names = _features(codes[:, ~is_label], [attributes[j] for j in np.flatnonzero(~is_label)])
    chosen = [attributes[j] for j in np.flatnonzero(is_label)]
    return Table(as_features(X), _labels(codes[:, is_label], chosen, path), names, tuple(name for name, _ in chosen))


def _parse(text: str, path: Path) -> tuple[str, list[Attribute], Any]:
    """Return relation, attributes, and numbers or codes of nominal values, dense or CSR as the file is."""
    import arff

    is_sparse = _SPARSE.search(text) is not None
    try:
        content = arff.loads(text, encode_nominal=True, return_type=arff.LOD if is_sparse else arff.DENSE)
    except Exception as error:  # besides its own errors liac-arff raises those of what it calls
        raise DataFileError(f"{path.name}: not a readable ARFF file ({error}). Is it complete?") from error
    attributes = [
        (name, [value or "" for value in kind] if isinstance(kind, list) else None)
        for name, kind in content["attributes"]
    ]
    other = [name for name, kind in content["attributes"] if kind in ("STRING", "DATE")]
    if other:
        raise DataFileError(f"{path.name}: attribute {other[0]!r} is text or a date. Turn it into numbers first.")
    rows = content["data"]
    if not rows:
        raise DataFileError(f"{path.name}: no row follows @data. Is the file complete?")
    if not is_sparse:
        return content["relation"], attributes, np.array(rows, dtype=np.float64)
    columns = [column for row in rows for column in sorted(row)]
    values = [row[column] for row in rows for column in sorted(row)]
    starts = np.cumsum([0, *map(len, rows)])
    # A missing value is None, which NumPy takes for NaN.
    codes = csr((np.array(values, dtype=np.float64), columns, starts), shape=(len(rows), len(attributes)))
    codes.eliminate_zeros()
    return content["relation"], attributes, codes


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

    Files with entities are refused: expat limits how far they grow, and opens no other file.
    """
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the last two: an encoding not supported
        raise DataFileError(f"{path.name}: not well-formed XML ({error}). Is the file complete?") from error
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    if tags[0] != "labels":
        raise DataFileError(f"{path.name}: root element must be <labels>; got <{tags[0]}>. Is it a Mulan file?")
    names = [element.get("name") for element, tag in zip(root.iter(), tags, strict=True) if tag == "label"]
    known = tuple(name for name in names if name is not None)
    if not known or len(known) < len(names):
        raise DataFileError(f"{path.name}: one or more <label name=...> expected, each with its name.")
    check_distinct(known, path.name, "label")
    return known


def _is_plain(attribute: Attribute) -> bool:
    """Numeric, or nominal with exactly 0 and 1 in this order, so that code and value coincide."""
    return attribute[1] is None or attribute[1] == ["0", "1"]


def _features(codes: Any, attributes: Sequence[Attribute]) -> tuple[Any, tuple[str, ...]]:
    if all(map(_is_plain, attributes)):
        return codes, tuple(name for name, _ in attributes)
    names: list[str] = []
    # Columns of a sparse file are compressed one by one: all of them dense at once may not fit in memory.
    keep: Any = sparse.csc_array if sparse.issparse(codes) else np.asarray
    blocks: list[Any] = []
    for j, (name, values) in enumerate(attributes):
        column = np.asarray(to_dense(codes[:, [j]]), dtype=np.float64)
        if values is not None and not set(values) <= {"0", "1"}:
            column = np.where(np.isnan(column), np.nan, column == np.arange(len(values)))
            names.extend(f"{name}={value}" for value in values)
        else:
            if not _is_plain((name, values)):
                column = _map(column, [float(value) for value in values or ()])
            names.append(name)
        blocks.append(keep(column))
    return stack_matrices(blocks, axis=1), tuple(names)


def _labels(codes: Any, attributes: Sequence[Attribute], path: Path) -> NDArray[np.uint8]:
    if sparse.issparse(codes) and all(map(_is_plain, attributes)) and (codes.data == 1).all():
        return np.asarray(codes.astype(np.uint8).toarray(), dtype=np.uint8)  # many labels: no dense float64
    values = np.array(to_dense(codes))
    for k, (name, declared) in enumerate(attributes):
        if declared is None or _is_plain((name, declared)):
            continue
        strange = [value for value in declared if value.lower() not in _POSITIVE | _NEGATIVE]
        if strange:
            raise DataFileError(
                f"{path.name}: label {name!r} must take the values 0/1, -1/1, false/true or no/yes; it declares "
                f"{strange[0]!r}. Is it really a label?"
            )
        values[:, k] = _map(values[:, k], [float(value.lower() in _POSITIVE) for value in declared])
    place = first_illegal(values)
    if place is not None:
        raise DataFileError(
            f"{path.name}, row {place[0] + 1}: label {attributes[place[1]][0]!r} must be 0/1 or -1/1; got "
            f"{values[place]}. Is it really a label?"
        )
    return (values > 0).astype(np.uint8)


def _map(codes: NDArray[np.float64], values: Sequence[float]) -> NDArray[np.float64]:
    """Replace each code by its value; NaN stays."""
    known = np.isfinite(codes)
    result = np.full(codes.shape, np.nan)
    result[known] = np.asarray(values)[codes[known].astype(np.int64)]
    return result
