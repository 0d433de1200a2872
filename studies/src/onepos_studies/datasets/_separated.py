"""CSV, TSV and parquet files as matrices of features and labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from onepos._utils.labels import cell_text, one_positive
from onepos.exceptions import DataFileError
from onepos.table import read_table
from onepos_studies.datasets._table import Table, as_features, as_indicator


def read_separated(
    path: Path, *, labels: Sequence[str] | None = None, label: str | None = None, drop: Sequence[str] = ()
) -> Table:
    """Read a parquet, CSV or TSV file with 0/1 or −1/1 columns ``labels``, or one column ``label`` of tags."""
    frame = read_table(path, plain=[] if label is None else [label]).frame
    if (labels is None) == (label is None):
        raise ValueError("say which columns are the labels: labels=[names] (0/1) or label=name (one tag per row).")
    if isinstance(labels, str):
        raise ValueError(f"labels= takes a list of column names; for one column of tags pass label={labels!r}.")
    chosen = [label] if label is not None else list(labels or ())
    missing = [name for name in (*chosen, *drop) if name not in frame.columns]
    if missing:
        raise DataFileError(f"{path.name}: has no column {missing[:5]}; it has {list(map(str, frame.columns[:10]))}…")
    features = frame.drop(columns=[*chosen, *drop])
    X = _numbers(features, path, "feature columns must be numbers", "Encode them, or leave them out with drop=.")
    if label is not None:
        Y, names = _tags(frame[label], path)
    else:
        columns = _numbers(frame[chosen], path, "label columns must be 0/1", "A column of tags is given as label=.")
        Y, names = as_indicator(columns, path, "label columns"), tuple(map(str, chosen))
    return Table(as_features(X), Y, tuple(map(str, features.columns)), names)


def _numbers(frame: pd.DataFrame, path: Path, expected: str, advice: str) -> Any:
    words = [str(name) for name in frame.columns if frame[name].dtype.kind not in "biuf"]
    if words:
        raise DataFileError(f"{path.name}: {expected}; these are not: {words[:5]}. {advice}")
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def _tags(column: "pd.Series[Any]", path: Path) -> tuple[Any, tuple[str, ...]]:
    empty = np.flatnonzero((column.isna() | (column.astype(str).str.strip() == "")).to_numpy())
    if empty.size:
        raise DataFileError(
            f"{path.name}: {empty.size} rows have no tag in column {column.name!r} (first: row {empty[0]}, "
            "counted from 0). Fill in the label or drop these rows."
        )
    indicator = one_positive(column)
    return indicator.to_numpy(dtype=np.uint8), tuple(cell_text(name) for name in indicator.columns)
