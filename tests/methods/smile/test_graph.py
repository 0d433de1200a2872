"""SMILE's graph from given features, and its forms in memory and on disk."""

import numpy as np
import pytest
from scipy import sparse

from onepos import SMILEClassifier
from onepos.datasets import make_known_posterior


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(160, 6, 5, random_state=0)


def build(**params):
    settings = {"max_epochs": 6, "batch_size": 32, "random_state": 0, "early_stopping": False, "warm_up_epochs": 2}
    return SMILEClassifier(**{**settings, **params})


@pytest.mark.parametrize("form", ["sparse", "folder"])
def test_other_forms_of_features(data, form, tmp_path):
    X = np.where(np.abs(data.X) > 1.2, data.X, 0.0)
    params = {"cache_folder": str(tmp_path)} if form == "folder" else {}
    model = build(scale="none", **params).fit(sparse.csr_array(X) if form == "sparse" else X, data.observed)
    plain = build(scale="none").fit(X, data.observed)
    assert np.allclose(model.soft_labels_, plain.soft_labels_, atol=1e-3)


def test_given_features_make_the_graph_and_feed_the_variational_model(data):
    """Features of the network do not matter to the recovered labels: only those given for the graph do."""
    other = np.random.default_rng(1).normal(size=data.X.shape)
    soft = [build(network=(4,)).fit(X, data.observed, graph_features=data.X).soft_labels_ for X in (data.X, other)]
    assert np.array_equal(*soft)
