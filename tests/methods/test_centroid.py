"""Centroids: cosines and votes against their formulas and scikit-learn, weights, sparse labels."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_softmax
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.naive_bayes import ComplementNB

import onepos
from onepos._utils import validation

N_LABELS = 6
WORDS = np.random.default_rng(0)
#: Words of each label are frequent in its rows.
RATES = 0.05 + 0.9 * (WORDS.random((N_LABELS, 40)) < 0.1)


def bags(n_rows, seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, N_LABELS, n_rows)
    return sparse.csr_array((generator.random((n_rows, 40)) < RATES[labels]).astype(np.float32)), labels


X, TAGS = bags(600, 1)
X_NEW, TAGS_NEW = bags(300, 2)
Y = np.eye(N_LABELS, dtype=np.int8)[TAGS]


@pytest.fixture(scope="module")
def model():
    return onepos.CentroidClassifier(random_state=0).fit(X, Y)


def unit(rows):
    dense = rows.toarray().astype(float)
    return dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)


def test_evidence_is_that_of_the_formulas(model):
    rows, new = unit(X), unit(X_NEW)
    sums = Y.T.astype(float) @ rows
    votes = new @ -np.log1p(-sums / (rows.sum(axis=0) + 1.0)).T
    prior = (Y.sum(axis=0) + 0.5) / (len(Y) + 0.5 * N_LABELS)
    expected = np.stack([cosine_similarity(new, sums), votes, np.log(votes + 1e-3 * prior)], axis=2)
    assert np.allclose(model._evidence(model._rows(X_NEW)), expected, atol=1e-4)


def test_votes_rank_as_complement_naive_bayes_with_equal_classes(model):
    """With classes of one size the terms that the votes leave out are the same for all labels, up to smoothing."""
    theirs = ComplementNB(alpha=1.0).fit(unit(X), TAGS).predict(unit(X_NEW))
    votes = model._evidence(model._rows(X_NEW))[:, :, 1]
    assert (votes.argmax(axis=1) == theirs).mean() > 0.97


def test_weights_are_the_likeliest(model):
    held = onepos.CentroidClassifier(random_state=0).fit(X, Y, validation=(X_NEW, np.eye(N_LABELS)[TAGS_NEW]))
    evidence = held._evidence(held._rows(X_NEW))

    def likelihood(weights):
        return log_softmax(evidence @ weights, axis=1)[np.arange(300), TAGS_NEW].mean()

    best = likelihood(held.weights_)
    for place in range(3):
        for factor in (0.8, 1.25):
            moved = held.weights_.copy()
            moved[place] = max(moved[place] * factor, 0.01 if place == 2 else 0.0)
            assert likelihood(moved) <= best + 1e-6


def test_blocks_of_labels_change_nothing(model, monkeypatch):
    expected = model.decision_function(X_NEW)
    monkeypatch.setattr("onepos.methods.centroid._BLOCK", 80)
    assert np.allclose(model.decision_function(X_NEW), expected, atol=1e-5)


def test_a_row_without_known_words_is_ranked_by_frequency(model):
    ranking = np.argsort(model.decision_function(sparse.csr_array((1, 40))))[0]
    assert (np.diff(Y.sum(axis=0)[ranking]) >= 0).all()


@pytest.mark.parametrize("key", ["frequency", "logistic", "centroid", "forest", "capped", "wan", "kernel"])
def test_sparse_labels_give_the_same_model_as_dense_ones(key, monkeypatch):
    settings = {"max_epochs": 2} if key in ("capped", "wan") else {}
    dense = onepos.make_classifier(key, random_state=0, **settings).fit(X, Y)
    monkeypatch.setattr(validation, "DENSE_LABELS", 10)
    few = onepos.make_classifier(key, random_state=0, **settings).fit(X, sparse.csr_array(Y))
    assert np.allclose(few.predict_proba(X_NEW), dense.predict_proba(X_NEW), atol=1e-6)


def test_auto_takes_sparse_labels(monkeypatch):
    settings = {"methods": ("frequency", "centroid", "logistic"), "n_folds": 2, "time_budget": None, "random_state": 0}
    dense = onepos.AutoClassifier(**settings).fit(X, Y)
    monkeypatch.setattr(validation, "DENSE_LABELS", 10)
    few = onepos.AutoClassifier(**settings).fit(X, sparse.csr_array(Y))
    assert np.allclose(few.predict_proba(X_NEW), dense.predict_proba(X_NEW), atol=1e-6)
    assert few.comparison_["methods"].keys() == dense.comparison_["methods"].keys()


def test_labels_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(validation, "DENSE_LABELS", 10)
    monkeypatch.setattr("onepos.methods._base._MOST_LABELS", 100)
    with pytest.raises(ValueError, match="SMILEClassifier needs labels as a dense matrix, and 600 rows × 6 labels"):
        onepos.SMILEClassifier().fit(X, sparse.csr_array(Y))


def test_more_scores_than_fit_are_refused(model, monkeypatch):
    monkeypatch.setattr("onepos.methods._label_sets._MOST_SCORES", 60)
    with pytest.raises(ValueError, match="pass at most 10 rows at a time"):
        model.predict_proba(X_NEW)
    assert model.predict_proba(X_NEW[:10]).shape == (10, N_LABELS)
