"""Scores of labels from elsewhere: who uses them, how, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import torch

from onepos.datasets import make_known_posterior
from onepos.methods.role import initial_label_logits

USERS = ["role", "em", "em-apl"]


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(300, 6, 5, n_positives=2.5, signal=1.0, random_state=0)


@pytest.mark.parametrize("key", USERS)
def test_good_scores_help_and_none_are_no_scores(quick, data, key):
    settings = {"max_epochs": 10, "learning_rate": 3e-3}
    without = quick(key, **settings).fit(data.X, data.observed)
    silent = quick(key, **settings).fit(data.X, data.observed, label_scores=np.full(data.Y.shape, np.nan))
    told = quick(key, **settings).fit(data.X, data.observed, label_scores=0.02 + 0.96 * data.Y)
    assert np.array_equal(without.predict_proba(data.X), silent.predict_proba(data.X))
    assert told.score(data.X, data.Y) > without.score(data.X, data.Y) + 0.01


@pytest.mark.parametrize("key", USERS)
def test_columns_of_a_frame_are_matched_by_name(quick, data, key):
    names = list("abcde")
    Y, scores = pd.DataFrame(data.observed, columns=names), pd.DataFrame(data.posterior, columns=names)
    straight = quick(key).fit(data.X, Y, label_scores=scores)
    shuffled = quick(key).fit(data.X, Y, label_scores=scores[list("ecadb")])
    assert np.array_equal(straight.predict_proba(data.X), shuffled.predict_proba(data.X))
    with pytest.raises(ValueError, match="columns of label_scores must be the labels of y"):
        quick(key).fit(data.X, Y, label_scores=scores.rename(columns={"a": "z"}))


@pytest.mark.parametrize("key", ["an", "smile"])
def test_other_methods_refuse(quick, data, key):
    with pytest.raises(TypeError, match="unexpected keyword argument 'label_scores'"):
        quick(key).fit(data.X, data.observed, label_scores=data.posterior)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda scores: scores[:-1], r"shape \(300, 5\); got \(299, 5\)"),
        (lambda scores: scores[:, :-1], r"shape \(300, 5\); got \(300, 4\)"),
        (lambda scores: scores * 8 - 4, "between 0 and 1, or NaN.*expit"),
        (lambda scores: np.full_like(scores, np.inf), "between 0 and 1"),
    ],
)
def test_bad_scores(quick, data, change, message):
    with pytest.raises(ValueError, match=message):
        quick("em").fit(data.X, data.observed, label_scores=change(data.posterior))


def test_start_of_the_label_matrix():
    observed = torch.tensor([[1, -1, 0, 0, 0, 0]], dtype=torch.int8)
    scores = torch.tensor([[0.2, 0.9, 0.8, 1.0, 0.0, torch.nan]])
    start = initial_label_logits(observed, torch.Generator().manual_seed(0), scores).sigmoid()[0]
    assert torch.allclose(start[:5], torch.tensor([0.995, 0.005, 0.8, 0.995, 0.005]))
    assert 0.4 <= start[5] <= 0.6


def test_they_are_pseudo_labels_of_entropy_maximisation_from_the_beginning(quick, data):
    """With β = 0 scored entries are left out, whatever the scores; without it the scores matter."""
    for weight, alike in ((0.0, True), (0.4, False)):
        low, high = (
            quick("em", pseudo_label_weight=weight, max_epochs=1, early_stopping=False).fit(
                data.X, data.observed, label_scores=np.full(data.Y.shape, score)
            )
            for score in (0.1, 0.9)
        )
        assert np.array_equal(low.predict_proba(data.X), high.predict_proba(data.X)) == alike
