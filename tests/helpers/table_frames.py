"""Results frames made by hand. Not in conftest: every folder of tests has one, and `import conftest` takes any."""

import numpy as np
import pandas as pd

from onepos.metrics import METRICS

DATASETS = ("CAL500", "image", "scene", "yeast", "corel5k", "rcv1-s1", "iaprtc12-hue")
METHODS = ("smile", "an", "wan", "bce")


def make_frame(values, **columns):
    """Build results from {(dataset, method): [value of each trial, None if it failed]}, one value for all metrics."""
    rows = [
        {
            "dataset": dataset,
            "features": "substitute" if dataset.endswith(("-hue", "-tags")) else "paper",
            "method": method,
            "trial": trial,
            "selection": "clean",
            "status": "failed" if value is None else "ok",
            "error": "boom" if value is None else None,
        }
        | dict.fromkeys(METRICS, np.nan if value is None else value)
        | columns
        for (dataset, method), trials in values.items()
        for trial, value in enumerate(trials)
    ]
    return pd.DataFrame(rows)
