"""The svmlight / libsvm format with several labels per row: ``3,17 5:0.2 9:1``."""

import re
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from onepos._utils.validation import FloatArray, IntArray
from onepos.datasets._table import Table, as_features, csr, numbered, plausible_width
from onepos.exceptions import DataFileError

# Digits and letters are spelt out: \d and IGNORECASE also match those of other scripts, which are no numbers here.
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[nN][aA][nN]|[iI][nN][fF])"
_ROW = re.compile(rf"(?:([^\s:,]+(?:,[^\s:,]+)*)(?=\s|$))?((?:\s*\b[0-9]+:{_NUMBER}(?=\s|$))*)\s*")


def read_svmlight(path: Path, *, n_features: int | None = None, zero_based: bool | Literal["auto"] = "auto") -> Table:
    """Read a multi-label svmlight file.

    Parameters
    ----------
    path : Path
        Rows of ``label,label index:value index:value``; a row may have no label; ``#`` starts a comment.
    n_features : int, optional
        Number of features, if it is more than the largest index in the file.
    zero_based : bool or "auto", default="auto"
        Whether indices count from 0. "auto": they do if an index 0 occurs, else they count from 1.

    Returns
    -------
    Table
        X is CSR. Labels are sorted, as numbers if all of them are integers.
    """
    numbers: list[int] = []
    tags: list[list[str]] = []
    entries: list[str] = []
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8").partition("#")[0].rstrip()
        except UnicodeDecodeError as error:
            raise DataFileError(f"{path.name}, line {number}: not UTF-8 text. Is this an svmlight file?") from error
        if not line:
            continue
        found = _ROW.fullmatch(line)
        if found is None:
            raise DataFileError(
                f"{path.name}, line {number}: 'label,label index:value ...' expected; got {line[:60]!r}."
            )
        numbers.append(number)
        tags.append(found[1].split(",") if found[1] else [])
        entries.append(found[2])
    if not numbers:
        raise DataFileError(f"{path.name}: holds no row. Is the file complete?")
    counts = [part.count(":") for part in entries]
    tokens = " ".join(entries).replace(":", " ").split()
    pairs = np.array(tokens, dtype="S").astype(np.float64).reshape(-1, 2) if tokens else np.empty((0, 2))
    rows = np.repeat(np.arange(len(numbers)), counts)
    _check_plausible(pairs[:, 0], rows, n_features, numbers, path)
    columns = pairs[:, 0].astype(np.int64)
    if not (zero_based is True or (zero_based == "auto" and (columns == 0).any())):
        columns = columns - 1
    width = int(columns.max(initial=-1)) + 1 if n_features is None else n_features
    _check(columns, rows, width, numbers, path)
    X = csr((pairs[:, 1], (rows, columns)), shape=(len(numbers), width))
    names = _label_names(set(chain.from_iterable(tags)))
    position = {name: k for k, name in enumerate(names)}
    Y = np.zeros((len(numbers), len(names)), dtype=np.uint8)
    label_rows = np.repeat(np.arange(len(tags)), [len(row) for row in tags])
    Y[label_rows, [position[tag] for tag in chain.from_iterable(tags)]] = 1
    return Table(as_features(X), Y, numbered("feature", width), names)


def _check_plausible(
    indices: FloatArray, rows: IntArray, n_features: int | None, numbers: list[int], path: Path
) -> None:
    """Refuse an index so large that its column alone, with all the empty ones before it, would fill the memory."""
    most = max(plausible_width(len(indices)), n_features or 0)
    beyond = np.flatnonzero(indices > most)
    if beyond.size:
        first = int(beyond[0])
        raise DataFileError(
            f"{path.name}, line {numbers[int(rows[first])]}: feature index {indices[first]:.0f} is far beyond what "
            f"{len(indices)} values in the file make plausible. If it is right, give n_features=."
        )


def _check(columns: IntArray, rows: IntArray, width: int, numbers: list[int], path: Path) -> None:
    outside = np.flatnonzero((columns < 0) | (columns >= width))
    if outside.size:
        row = int(rows[outside[0]])
        raise DataFileError(
            f"{path.name}, line {numbers[row]}: a feature index is outside the {width} features. "
            "Check n_features= and zero_based=."
        )
    order = np.lexsort((columns, rows))
    twice = np.flatnonzero((np.diff(columns[order]) == 0) & (np.diff(rows[order]) == 0))
    if twice.size:
        row = int(rows[order[twice[0]]])
        raise DataFileError(f"{path.name}, line {numbers[row]}: a feature index comes twice in the row.")


def _label_names(tags: set[str]) -> tuple[str, ...]:
    try:
        return tuple(sorted(tags, key=int))
    except ValueError:
        return tuple(sorted(tags))
