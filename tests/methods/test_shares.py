"""What methods that estimate P(observed label | x) share: the level of probabilities, the ranking, noise."""

import numpy as np
import pytest
from scipy.special import softmax

from onepos.datasets import make_known_posterior

DATA = make_known_posterior(300, 6, 5, random_state=0)
X, Y, OBSERVED = DATA.X, np.asarray(DATA.Y), DATA.observed
pytestmark = pytest.mark.parametrize("key", ["logistic", "forest", "kernel", "centroid"])


def test_probabilities_add_up_to_the_number_of_positives_and_keep_the_ranking(key, quick):
    sets = quick(key, n_positives=2.5).fit(X, OBSERVED)
    classes = quick(key).fit(X, OBSERVED.argmax(axis=1))
    assert np.allclose(sets.predict_proba(X).sum(axis=1), 2.5)
    assert np.allclose(softmax(sets.decision_function(X), axis=1), classes.predict_proba(X), atol=1e-6)


def test_complete_validation_labels_tell_the_number_of_positives(key, quick):
    model = quick(key).fit(X[:200], OBSERVED[:200], validation=(X[200:], Y[200:]), validation_labels="full")
    counts = Y[200:].sum(axis=1)
    assert model.n_positives_ == pytest.approx(counts[counts > 0].mean())
    assert model.n_positives_from_ == "validation"


def test_noise_leaves_the_ranking_by_frequency(key, quick):
    noise = np.random.default_rng(1).standard_normal((300, 40))
    labels = np.eye(20, dtype=int)[(np.arange(300) % 20) * (np.arange(300) % 3 > 0)]
    strengths = {"l2": "auto"} if key == "logistic" else {}
    shares = softmax(quick(key, **strengths).fit(noise, labels).decision_function(noise), axis=1)
    assert np.abs(shares - labels.mean(axis=0)).mean() < 0.01
