"""Results frames of a known shape."""

import numpy as np
import pandas as pd
import pytest

from onepos.metrics import METRICS
from onepos_studies.study.tables import load_published
from table_frames import DATASETS, METHODS, make_frame


@pytest.fixture(scope="session")
def random_results():
    """Seven data sets, four methods, three trials, both rules; every number is random."""
    rng = np.random.default_rng(0)
    parts = [
        make_frame({(d, m): [0.0] * 3 for d in DATASETS for m in METHODS}, selection=rule)
        for rule in ("clean", "single-positive")
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame[list(METRICS)] = rng.uniform(0.1, 0.9, size=(len(frame), len(METRICS)))
    return frame


@pytest.fixture(scope="session")
def paper_results():
    """The paper's means as if each were one trial of ours."""
    wide = load_published().pivot(index=["dataset", "method"], columns="metric", values="mean").reset_index()
    return wide.assign(features="paper", trial=0, selection="clean", status="ok")
