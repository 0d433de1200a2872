"""Compare a data set on disk with what the registry says about it."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onepos.datasets._load import load_table
from onepos.datasets._registry import get_entry

if TYPE_CHECKING:
    import pandas as pd

# The registry rounds cardinality to four decimals (three for the authors' own files) and sums to three.
_CARDINALITY_TOLERANCE = 1e-3
_SUM_TOLERANCE = 1e-5


def verify_dataset(
    name: str, *, data_home: str | Path | None = None, offline: bool | None = None, progress: bool = False
) -> "pd.DataFrame":
    """Recompute the facts of a data set and compare them with the registry.

    Checksums are compared on the way: a file that differs raises ChecksumError, one with other
    dimensions DataFileError.

    Parameters
    ----------
    name : str
    data_home, offline, progress
        As for ``load_dataset``.

    Returns
    -------
    pandas.DataFrame
        One row per fact (index: instances, features, labels, rows_without_label, cardinality,
        feature_sum), columns ``expected`` (NaN: the registry does not know), ``found``, ``ok``.
    """
    import pandas as pd

    entry = get_entry(name)
    table = load_table(entry, data_home=data_home, offline=offline, progress=progress)
    n, counts = len(table.Y), table.Y.sum(axis=1, dtype=np.int64)
    # A user's copy without its unlabelled rows has their labels, all of them, on fewer rows.
    dropped = entry.instances - n
    facts: dict[str, tuple[float, float, float]] = {
        "instances": (entry.instances - dropped, n, 0.0),
        "features": (entry.features, table.X.shape[1], 0.0),
        "labels": (entry.labels, table.Y.shape[1], 0.0),
        "rows_without_label": (entry.rows_without_label - dropped, int(np.count_nonzero(counts == 0)), 0.0),
        "cardinality": (
            entry.cardinality * entry.instances / n,
            float(counts.mean()),
            _CARDINALITY_TOLERANCE,
        ),
        "feature_sum": (
            np.nan if entry.feature_sum is None else entry.feature_sum,
            float(table.X.sum(dtype=np.float64)),
            _SUM_TOLERANCE * abs(entry.feature_sum or 0.0),
        ),
    }
    rows = {
        fact: {
            "expected": expected,
            "found": found,
            "ok": bool(np.isnan(expected) or abs(found - expected) <= tolerance),
        }
        for fact, (expected, found, tolerance) in facts.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")
