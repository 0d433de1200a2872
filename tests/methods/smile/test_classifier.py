"""SMILE as a whole: what it recovers, what each choice does, and that runs repeat bit by bit."""

import warnings
from itertools import count

import numpy as np
import pytest
import torch
from sklearn.base import clone

from onepos import SMILEClassifier
from onepos.datasets import make_known_posterior
from onepos.exceptions import TrainingWarning
from onepos.label_sets.thresholds import estimate_n_positives
from onepos.methods.registry import make_classifier
from onepos.methods.smile.classifier import with_mean_sum
from onepos.metrics import average_precision
from onepos.training import Callback


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(400, 6, 5, n_positives=2.0, random_state=0)


def _fit(data, **params):
    return SMILEClassifier(**{"max_epochs": 6, "random_state": 0, "early_stopping": False, **params}).fit(
        data.X, data.observed
    )


def test_recovers_more_of_the_hidden_labels_than_their_frequency_does(data):
    model = _fit(data, max_epochs=15)
    hidden = data.observed == 0
    frequency = np.tile(data.observed.mean(axis=0), (len(data.X), 1))

    def precision(scores):
        return average_precision(data.Y * hidden, np.where(hidden, scores, -1.0))

    assert precision(model.soft_labels_) > precision(frequency) + 0.05


def test_soft_labels_are_probabilities_with_what_is_known_put_in(data):
    observed = data.observed.astype(int)
    observed[0, data.observed[0] == 0] = -1
    model = SMILEClassifier(max_epochs=3, random_state=0).fit(data.X, observed)
    assert model.soft_labels_.shape == observed.shape
    assert ((model.soft_labels_ >= 0) & (model.soft_labels_ <= 1)).all()
    assert (model.soft_labels_[observed == 1] == 1).all()
    assert (model.soft_labels_[observed == -1] == 0).all()


class Recovered(Callback):
    """Keeps the soft labels of all rows before observed labels are put in."""

    def __init__(self, data):
        self.observed = torch.from_numpy(data.observed.astype(np.int8))

    def on_epoch_end(self, objective, record):
        with torch.no_grad():
            self.soft = objective.corrected(torch.arange(len(self.observed)), self.observed).double().numpy()


def _recovered(data, correction, n_positives):
    model = SMILEClassifier(
        max_epochs=2, warm_up_epochs=2, cardinality_correction=correction, n_positives=n_positives, random_state=0
    )
    watch = Recovered(data)
    model.set_params(early_stopping=False).fit(data.X, data.observed, callbacks=[watch])
    return watch.soft


@pytest.mark.parametrize("n_positives", [1.0, 3.0])
def test_the_shift_recovers_the_assumed_number_of_positives(data, n_positives):
    """The mean of Σ_j d over rows is n_positives, which the single positives alone do not reveal."""
    assert _recovered(data, "shift", n_positives).sum(axis=1).mean() == pytest.approx(n_positives, abs=1e-3)


def test_the_weight_follows_the_assumed_number_of_positives(data):
    """One positive per row is what was observed; more lower the weight of the unobserved entries."""
    one, two, three = (_recovered(data, "weight", number).sum(axis=1).mean() for number in (1.0, 2.0, 3.0))
    assert one == pytest.approx(1.0, abs=0.1)
    assert one + 0.6 < two < three - 0.3


def test_without_correction_the_number_of_positives_does_not_enter(data):
    assert np.array_equal(_recovered(data, "none", 1.5), _recovered(data, "none", 3.0))


def test_n_positives_comes_from_full_validation_labels_and_says_so(data):
    model = clone(_fit(data)).fit(data.X, data.observed, validation=(data.X, data.Y), validation_labels="full")
    assert model.n_positives_ == pytest.approx(data.Y.sum(axis=1).mean())
    assert model.history_.facts["n_positives_from"] == "validation"
    assert _fit(data).history_.facts["n_positives_from"] == "default"


def test_warm_up_is_assume_negative_training(data):
    """With nothing but warm-up the classifier is AN's, bit by bit given the same start and the same batches."""
    losses = []

    class Watch(Callback):
        def on_epoch_end(self, objective, record):
            losses.append(record["risk"])

    model = SMILEClassifier(max_epochs=2, warm_up_epochs=2, random_state=0, early_stopping=False, elbo_weight=0.0)
    model.fit(data.X, data.observed, callbacks=[Watch()])
    reference = make_classifier("an", max_epochs=2, random_state=0, early_stopping=False).fit(data.X, data.observed)
    # The variational model draws its initial weights in between, so the batches differ; the level does not.
    assert losses == pytest.approx(reference.history_["assume_negative"], rel=0.05)


@pytest.mark.parametrize(
    "params",
    [
        {"elbo_weight": 0.0},
        {"warm_up_epochs": 0},
        {"network": (32, 16), "dropout": 0.2, "max_epochs": 20},
        {"weight_decay": 0.01},
        {"selection_metric": "ranking_loss", "early_stopping": True},
        {"selection_metric": "hamming_loss", "early_stopping": True},
    ],
    ids=str,
)
def test_every_choice_trains_and_ranks_better_than_chance(data, params):
    model = _fit(data, **params)
    assert all(np.isfinite(model.history_["risk"]))
    chance = average_precision(data.Y, np.random.default_rng(0).random(data.Y.shape))
    assert model.score(data.X, data.Y) > chance + 0.05


def test_runs_repeat_bit_by_bit_and_touch_no_global_seed(data):
    results = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        np.random.seed(global_seed)  # noqa: NPY002 - the point is that it does not matter
        before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        model = _fit(data, dropout=0.5)
        results.append((model.predict_proba(data.X), model.soft_labels_))
        assert torch.equal(torch.random.get_rng_state(), before[0])
        assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
    assert not np.array_equal(results[0][0], _fit(data, dropout=0.5, random_state=1).predict_proba(data.X))


def test_label_order_does_not_change_the_ranking_quality(data):
    """Permuting the labels permutes the problem: average precision agrees up to training noise."""
    order = np.array([3, 0, 4, 1, 2])
    straight = _fit(data, max_epochs=12).score(data.X, data.Y)
    permuted = SMILEClassifier(max_epochs=12, random_state=0, early_stopping=False).fit(data.X, data.observed[:, order])
    assert permuted.score(data.X, data.Y[:, order]) == pytest.approx(straight, abs=0.02)


def test_held_out_rows_teach_nothing(data, monkeypatch):
    """Changing the labels of held-out rows changes no weight: they only choose the epoch, here always the last."""
    scores = count()
    monkeypatch.setattr("onepos.methods._fit_network.selection_score", lambda *_: float(next(scores)))
    rows = np.arange(400)
    monkeypatch.setattr("onepos.methods._neural.hold_out", lambda *_, **__: (rows[80:], rows[:80]))
    flipped = data.observed.copy()
    flipped[:80] = np.roll(flipped[:80], 1, axis=1)
    model = SMILEClassifier(max_epochs=1, random_state=0, early_stopping=True)
    straight = clone(model).fit(data.X, data.observed).predict_proba(data.X)
    assert np.array_equal(clone(model).fit(data.X, flipped).predict_proba(data.X), straight)


def test_early_stopping_chooses_on_single_positives_when_that_is_all_there_is(data):
    model = _fit(data, early_stopping=True, max_epochs=5)
    assert model.history_.facts["best_epoch"] == 1 + int(np.argmax(model.history_["valid_average_precision"]))
    # Against single positives average precision is the mean reciprocal rank of the observed label.
    assert 0 < model.history_.facts["best_average_precision"] <= 1


def test_interrupted_training_leaves_a_usable_model(data):
    class Interrupt(Callback):
        def on_batch_end(self, done, total):
            raise KeyboardInterrupt

    model = SMILEClassifier(max_epochs=5, random_state=0)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(data.X, data.observed, callbacks=[Interrupt()])
    assert np.isfinite(model.predict_proba(data.X)).all()
    assert model.soft_labels_.shape == data.observed.shape


def test_a_network_of_your_own_is_copied_not_changed(data):
    network = torch.nn.Linear(6, 5)
    before = network.weight.detach().clone()
    model = _fit(data, network=network)
    assert torch.equal(network.weight, before)
    assert not torch.equal(model.network_.weight, before)


def test_verbose_shows_a_progress_bar(data, capsys):
    _fit(data, verbose=1, max_epochs=2)
    assert "epoch 2 of 2" in capsys.readouterr().err


def test_the_number_of_positives_can_be_estimated_from_near_rows(data):
    model = _fit(data, n_positives="estimate", max_epochs=1)
    expected = estimate_n_positives(model.scaler_.transform(data.X), data.observed)
    assert model.n_positives_ == pytest.approx(expected, rel=1e-6)
    assert model.history_.facts["n_positives_from"] == "estimated"


@pytest.mark.parametrize("learning_rate", [1e15, 1e25])
@pytest.mark.parametrize("n_labels", [4, 60])  # 60: the fast draws
def test_training_that_runs_away_ends_with_a_warning_and_a_usable_model(n_labels, learning_rate):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3)).astype(np.float32)
    Y = np.zeros((150, n_labels), dtype=np.int8)
    Y[np.arange(150), np.arange(150) % n_labels] = 1
    model = SMILEClassifier(learning_rate=learning_rate, max_epochs=3, early_stopping=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.warns(TrainingWarning, match="stopped being finite"):
            model.fit(X, Y)
    assert model.history_.facts["stopped"] == "diverged"
    assert np.isfinite(model.predict_proba(X)).all()


def test_shifted_soft_labels_have_the_mean_sum():
    soft, possible = torch.tensor([[0.9, 0.5], [0.5, 0.1]]), torch.ones(2, 2, dtype=torch.bool)
    assert torch.allclose(with_mean_sum(soft, possible, 1.0), soft)  # they have it already
    assert float(with_mean_sum(soft, possible, 1.5).sum(dim=1).mean()) == pytest.approx(1.5, abs=1e-3)
