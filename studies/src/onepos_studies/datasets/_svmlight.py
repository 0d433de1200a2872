"""The svmlight / libsvm format with several labels per row: ``3,17 5:0.2 9:1``."""

from collections.abc import Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file

from onepos._utils.labels import mark_labels
from onepos._utils.matrices import csr
from onepos.exceptions import DataFileError
from onepos_studies.datasets._table import Table, as_features, numbered, plausible_width


def read_svmlight(path: Path, *, n_features: int | None = None, zero_based: bool | Literal["auto"] = "auto") -> Table:
    """Read rows of ``label,label index:value index:value``; a row may have no label, ``#`` starts a comment.

    ``n_features`` is needed if it is more than the largest index. Indices count from 0 if ``zero_based``; "auto": if an
    index 0 occurs. X is CSR. Labels are sorted, as numbers if all of them are integers.
    """
    lines: list[int] = []
    tags: list[list[str]] = []
    features: list[bytes] = []
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        words = raw.partition(b"#")[0].split()
        if not words:
            continue
        try:
            # Labels may be words, which scikit-learn does not read: it gets a 0 in their place.
            tags.append([] if b":" in words[0] else words.pop(0).decode("utf-8").split(","))
        except UnicodeDecodeError as error:
            raise DataFileError(f"{path.name}, line {number}: not UTF-8 text. Is this an svmlight file?") from error
        if "" in tags[-1]:
            raise DataFileError(f"{path.name}, line {number}: 'label,label' expected; got an empty label.")
        lines.append(number)
        features.append(b" ".join([b"0", *words]))
    if not lines:
        raise DataFileError(f"{path.name}: holds no row. Is the file complete?")
    found = _features(features, zero_based, lines, path)
    width = found.shape[1] if n_features is None else n_features
    limit, problem = width, f"is outside the {width} features. Check n_features= and zero_based=."
    if n_features is None and width > plausible_width(found.nnz):
        limit = plausible_width(found.nnz)
        problem = f"is far beyond what {found.nnz} values in the file make plausible. If it is right, give n_features=."
    beyond = np.flatnonzero(found.indices >= limit)
    if beyond.size:
        row = int(np.searchsorted(found.indptr, beyond[0], side="right")) - 1
        raise DataFileError(f"{path.name}, line {lines[row]}: feature index {found.indices[beyond[0]]} {problem}")
    X = csr((found.data, found.indices, found.indptr), shape=(len(lines), width))
    distinct = set(chain.from_iterable(tags))
    try:
        names = tuple(sorted(distinct, key=int))
    except ValueError:
        names = tuple(sorted(distinct))
    rows = np.repeat(np.arange(len(tags)), [len(row) for row in tags])
    Y, _ = mark_labels(list(chain.from_iterable(tags)), pd.Index(names, dtype=object), rows, len(tags), dtype=np.uint8)
    return Table(as_features(X), Y, numbered("feature", width), names)


def _features(rows: Sequence[bytes], zero_based: bool | str, lines: Sequence[int], path: Path) -> Any:
    """Return the features of all rows as CSR; DataFileError names the first line that scikit-learn refuses."""

    def parse(start: int, stop: int) -> Any:
        return load_svmlight_file(BytesIO(b"\n".join(rows[start:stop])), zero_based=zero_based)[0]

    try:
        return parse(0, len(rows))
    except (ValueError, OverflowError) as error:
        first, bad = 0, len(rows)  # rows before first are good; one of those from first to bad is not
        while bad - first > 1:
            middle = (first + bad) // 2
            try:
                parse(first, middle)
            except (ValueError, OverflowError):
                bad = middle
            else:
                first = middle
        shown = rows[first][2:62].decode("utf-8", "replace")
        raise DataFileError(
            f"{path.name}, line {lines[first]}: 'label,label index:value ...' expected, with indices in ascending "
            f"order; got {shown!r} ({str(error)[:80]})."
        ) from error
