"""A small results frame for examples: two data sets, three methods, two trials, one failed cell."""

import pandas as pd

from onepos.metrics import METRICS
from onepos.tables._results import SELECTIONS

_PRECISION = {
    ("scene", "smile"): (0.82, 0.84),
    ("scene", "an"): (0.80, 0.81),
    ("scene", "bce"): (0.87, 0.88),
    ("yeast", "smile"): (0.75, 0.76),
    ("yeast", "an"): (0.74, None),
    ("yeast", "bce"): (0.77, 0.78),
}


def example_results() -> pd.DataFrame:
    """Return made-up results in the form that every function of this package takes.

    Examples
    --------
    >>> example_results().groupby("status").size().to_dict()
    {'failed': 2, 'ok': 22}
    """
    rows = []
    for selection, loss in zip(SELECTIONS, (0.0, 0.01), strict=True):
        for (dataset, method), values in _PRECISION.items():
            for trial, value in enumerate(values):
                key = {"dataset": dataset, "features": "paper", "method": method, "trial": trial}
                state = {"selection": selection, "status": "failed" if value is None else "ok"}
                precision = float("nan") if value is None else value - loss
                measures = dict.fromkeys(METRICS, 1 - precision) | {"average_precision": precision}
                rows.append(key | state | measures)
    return pd.DataFrame(rows)
