"""Mulan's data format: an ARFF file, dense or sparse, whose labels are named in an XML file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.datasets._arff_data import DataLines, parse_data
from onepos.datasets._arff_header import Attribute, Header, parse_header
from onepos.datasets._mulan_xml import read_label_names
from onepos.datasets._sparse import is_sparse, stack_columns, to_dense
from onepos.datasets._table import Table, as_features
from onepos.exceptions import DataFileError

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
