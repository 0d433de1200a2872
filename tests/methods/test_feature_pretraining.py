"""Hidden layers that learn the features first: what they learn it from, what it is worth, where it ends."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

import onepos
import onepos.training.loop
from onepos.exceptions import TrainingWarning
from onepos.methods._network_settings import are_bags
from onepos.methods._pretraining import pretrain
from onepos.metrics import average_precision
from onepos.training import Schedule, TrainingRows
from onepos.training.networks import MLP


def topics(n_rows, *, seed, n_topics=30, words=6):
    """Rows with two topics each: some words of either, and the topics as labels, one of them observed."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((n_rows, n_topics), dtype=np.int8)
    X = np.zeros((n_rows, n_topics * words), dtype=np.float32)
    for row in range(n_rows):
        for topic in rng.choice(n_topics, 2, replace=False):
            Y[row, topic] = 1
            X[row, topic * words + rng.choice(words, 2, replace=False)] = 1
    return X, Y, onepos.datasets.make_single_positive(Y, random_state=seed)


def _rows(X, observed):
    return TrainingRows.from_arrays(X, observed.astype(np.int8), np.arange(len(X)))


def _pretrained(X, observed, n_epochs=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    network = MLP([X.shape[1], 32, observed.shape[1]], generator=generator)
    last = network[-1].weight.detach().clone()
    rows = _rows(X, observed)
    facts = pretrain(network, rows, Schedule(25, 16, 1e-3), n_epochs, generator, bags=are_bags(rows))
    assert (network[-1].weight == last).all()  # nothing about labels was learnt
    return network, facts


def test_labels_are_not_looked_at_and_the_seed_decides():
    X, _, observed = topics(200, seed=0)
    first, facts = _pretrained(X, observed)
    other, _ = _pretrained(X, np.roll(observed, 7, axis=0))
    again, _ = _pretrained(X, observed, seed=1)
    assert (first[0].weight == other[0].weight).all()
    assert (first[0].weight != again[0].weight).any()
    assert facts["pretraining_epochs"] == 5


@pytest.mark.parametrize("dense", [False, True], ids=["bags", "numbers"])
def test_hidden_features_are_told_better_than_by_their_means(dense):
    rng = np.random.default_rng(0)
    X, _, observed = topics(600, seed=0)
    if dense:  # ten numbers, twice
        X = np.repeat(rng.normal(size=(600, 10)), 2, axis=1).astype(np.float32)
    assert are_bags(_rows(X, observed)) != dense
    _, facts = _pretrained(X, observed, n_epochs=40)
    if dense:
        known = np.square(X - X.mean(axis=0)).sum(axis=1).mean()
    else:
        share = X / X.sum(axis=1, keepdims=True)
        known = -(share * np.log(share.mean(axis=0))).sum(axis=1).mean()
    assert facts["pretraining_loss"] < 0.75 * known


def test_it_helps_where_rows_are_few():
    """Words of a topic come together in rows whose label is another: single labels alone hardly show that."""
    X, _, observed = topics(400, seed=0)
    X_test, Y_test, _ = topics(1000, seed=1)
    scores = {}
    for n_epochs in (0, 30):
        found = []
        for seed in range(2):
            # A rate at which 25 epochs are few for the network alone.
            settings = {"network": (128,), "input_dropout": 0.5, "learning_rate": 0.5e-3, "early_stopping": False}
            model = onepos.SoftmaxClassifier(pretraining_epochs=n_epochs, random_state=seed, **settings)
            found.append(average_precision(Y_test, model.fit(X, observed).decision_function(X_test)))
        scores[n_epochs] = np.mean(found)
    assert scores[30] > scores[0] + 0.02


def test_none_leaves_the_training_as_it_was_and_the_history_tells_of_some():
    X, _, observed = topics(300, seed=0)
    short = {"max_epochs": 2, "early_stopping": False, "random_state": 0}
    plain = onepos.AssumeNegativeClassifier(pretraining_epochs=0, **short).fit(sparse.csr_array(X), observed)
    none = onepos.AssumeNegativeClassifier(pretraining_epochs=0, **short).fit(X, observed)
    some = onepos.AssumeNegativeClassifier(pretraining_epochs=3, **short).fit(X, observed)
    auto = onepos.AssumeNegativeClassifier(**short).fit(X, observed)
    assert auto.history_.facts["pretraining_epochs"] == 30  # bags of rare features
    assert (plain.predict_proba(X) == none.predict_proba(X)).all()
    assert (some.predict_proba(X) != none.predict_proba(X)).any()
    assert "pretraining_epochs" not in plain.history_.facts
    assert some.history_.facts["pretraining_epochs"] == 3
    assert len(some.history_) == 2


@pytest.mark.parametrize("network", [(), nn.Linear(180, 30)], ids=["no hidden layer", "own"])
def test_only_hidden_layers_of_the_librarys_own(network):
    X, _, observed = topics(300, seed=0)
    model = onepos.AssumeNegativeClassifier(network=network, pretraining_epochs=2, random_state=0)
    with pytest.raises(ValueError, match="hidden layers of the library's own network"):
        model.fit(X, observed)


def test_one_ctrl_c_ends_it_and_what_follows(monkeypatch):
    X, _, observed = topics(300, seed=0)
    epochs = []
    run_epoch = onepos.training.loop.Run.run_epoch

    def interrupt(*arguments):
        epochs.append(0)
        if len(epochs) == 2:
            raise KeyboardInterrupt
        return run_epoch(*arguments)

    monkeypatch.setattr(onepos.training.loop.Run, "run_epoch", interrupt)
    model = onepos.AssumeNegativeClassifier(pretraining_epochs=5, random_state=0)
    with pytest.warns(TrainingWarning, match="interrupted in epoch 2"):
        model.fit(X, observed)
    assert len(epochs) == 2
    assert model.history_.facts["stopped"] == "interrupted"
    assert np.isfinite(model.predict_proba(X)).all()
