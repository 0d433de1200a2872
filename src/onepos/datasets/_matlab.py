"""MATLAB files (version 5 to 7): two matrices, features and labels, perhaps in several parts."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onepos.datasets._mat5 import Variable, scan
from onepos.datasets._sparse import stack_rows
from onepos.datasets._table import Table, as_features, as_indicator, numbered
from onepos.exceptions import DataFileError

#: Variable names in use, most specific first: (feature variables, label variables), stacked in this order.
KNOWN_NAMES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("X", "Xt"), ("Y", "Yt")),
    (("train_data", "test_data"), ("train_target", "test_target")),
    (("X_train", "X_test"), ("Y_train", "Y_test")),
    (("X_all",), ("Y_all",)),
    (("X",), ("Y",)),
    (("data",), ("target",)),
    (("data",), ("targets",)),
    (("data",), ("labels",)),
    (("features",), ("labels",)),
)


def read_matlab(
    path: Path,
    *,
    features: str | Sequence[str] | None = None,
    labels: str | Sequence[str] | None = None,
    orientation: Literal["auto", "rows", "columns"] = "auto",
) -> Table:
    """Read features and labels from a MATLAB file.

    Parameters
    ----------
    path : Path
        A file of version 5 to 7 (version 7.3 is HDF5: save it again with ``-v7``).
    features, labels : str or sequence of str, optional
        Variable names; several are stacked as rows in the order given. Guessed from the names in
        common use (``KNOWN_NAMES``: X/Y with Xt/Yt, X_all/Y_all, data/target, …) when both are left out.
    orientation : {"auto", "rows", "columns"}, default="auto"
        How the label matrix lies. "rows": one row per example. "columns": one column per example, as
        ML-kNN's MATLAB code stores targets. "auto": as rows if it has as many rows as the features,
        else as columns if its columns match. Features always have one row per example.

    Returns
    -------
    Table
        Features are sparse if they are sparse in the file. Labels may be 0/1 or −1/1.
    """
    if orientation not in ("auto", "rows", "columns"):
        raise ValueError(f"orientation must be 'auto', 'rows' or 'columns'; got {orientation!r}.")
    if (features is None) != (labels is None):
        raise ValueError("give both features= and labels= (variable names), or neither to have them guessed.")
    variables = scan(path)
    available = set(variables)
    if features is None or labels is None:
        features, labels = _guess(available, path)
    feature_names, label_names = _as_tuple(features), _as_tuple(labels)
    if len(feature_names) != len(label_names):
        raise ValueError(f"as many label as feature variables expected; got {feature_names} and {label_names}.")
    missing = [name for name in (*feature_names, *label_names) if name not in available]
    if missing:
        raise DataFileError(f"{path.name}: has no variable {missing}; it holds {sorted(available)}.")
    parts = [
        _pair(_decode(variables, x, path), _decode(variables, y, path), path, y, orientation)
        for x, y in zip(feature_names, label_names, strict=True)
    ]
    widths = {(part[0].shape[1], part[1].shape[1]) for part in parts}
    if len(widths) > 1:
        raise DataFileError(f"{path.name}: parts must have the same columns; got (features, labels) {sorted(widths)}.")
    X = stack_rows([x for x, _ in parts])
    Y = np.vstack([y for _, y in parts])
    return Table(as_features(X), Y, numbered("feature", X.shape[1]), numbered("label", Y.shape[1]))


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _decode(variables: dict[str, Variable], name: str, path: Path) -> Any:
    try:
        return variables[name].decode()
    except (ValueError, struct.error) as error:
        raise DataFileError(f"{path.name}: variable {name}: {error}. Is it the right one?") from error


def _guess(available: set[str], path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for features, labels in KNOWN_NAMES:
        if available.issuperset(features) and available.issuperset(labels):
            return features, labels
    raise DataFileError(
        f"{path.name}: none of the usual pairs of names (X/Y, data/target, …) among its variables "
        f"{sorted(available)}. Give features= and labels=."
    )


def _pair(x: Any, y: Any, path: Path, name: str, orientation: str) -> tuple[Any, Any]:
    n = x.shape[0]
    lies_in_columns = orientation == "columns" or (orientation == "auto" and y.shape[0] != n and y.shape[1] == n)
    y = y.T if lies_in_columns else y
    if y.shape[0] != n:
        raise DataFileError(
            f"{path.name}: {name} has no side of length {n}, the number of feature rows (or orientation="
            f"{orientation!r} is wrong); its shape as read is {y.shape}."
        )
    return x, as_indicator(y, path, name)
