"""A fitted model whose label names and texts try to be markup, for the tests of its page."""

import numpy as np
import pandas as pd

import onepos
from onepos.datasets import make_known_posterior

NASTY = '<img src="http://127.0.0.1:9/x" onerror="alert(1)">'
LABELS = [f"sun {NASTY}", "a & b", '"quoted"', "</script><script>console.error('ran')</script>"]


def nasty_model(**params):
    """A network, its data with all labels, and the indicator of observed ones."""
    data = make_known_posterior(240, 5, 4, random_state=3)
    observed = pd.DataFrame(data.observed, columns=LABELS)
    settings = {"max_epochs": 4, "early_stopping": True, "random_state": 0} | params
    model = onepos.make_classifier("an", **settings).fit(data.X[:160], observed[:160])
    return model, data, observed


def nasty_texts(n_rows):
    return [f"row {number} {NASTY}" for number in np.arange(n_rows)]
