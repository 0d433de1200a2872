"""What chooses an epoch: the metrics as they are, and the likelihood of the observed labels."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from onepos import AssumeNegativeClassifier, SMILEClassifier, metrics
from onepos.datasets import make_known_posterior
from onepos.training.loop import SELECTION_METRICS, clearly_more_likely, higher_is_better, selection_score


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 6))
    labels = np.array([rng.choice(6, p=np.exp(log_softmax(1.5 * row))) for row in logits])
    return np.eye(6, dtype=np.int8)[labels], logits, labels


def test_likelihood_is_that_of_the_best_temperature(rows):
    observed, logits, labels = rows

    def loss(factor):
        return -log_softmax(factor * logits, axis=1)[np.arange(len(labels)), labels].mean()

    best = minimize_scalar(loss, bounds=(0.01, 100.0), method="bounded", options={"xatol": 1e-9})
    assert selection_score("observed_likelihood", observed, logits) == pytest.approx(-best.fun, abs=1e-9)


def test_likelihood_does_not_ask_for_a_scale(rows):
    observed, logits, _ = rows
    shifted = 7.0 * logits + np.arange(len(logits))[:, None]
    wanted = selection_score("observed_likelihood", observed, logits)
    assert selection_score("observed_likelihood", observed, shifted) == pytest.approx(wanted, abs=1e-9)


def test_noise_in_the_scores_costs_likelihood(rows):
    observed, logits, _ = rows
    noisy = logits + np.random.default_rng(1).normal(size=logits.shape)
    assert selection_score("observed_likelihood", observed, noisy) < selection_score(
        "observed_likelihood", observed, logits
    )


@pytest.mark.parametrize("name", metrics.METRICS)
def test_metrics_are_the_metrics(rows, name):
    observed, logits, _ = rows
    probabilities = 1.0 / (1.0 + np.exp(-logits))
    assert selection_score(name, observed, logits) == pytest.approx(getattr(metrics, name)(observed, probabilities))
    assert higher_is_better(name) == metrics.higher_is_better(name)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="expected a metric among"):
        higher_is_better("likelihood")


@pytest.mark.parametrize("name", SELECTION_METRICS)
def test_a_classifier_restores_the_epoch_with_the_best_score(name):
    data = make_known_posterior(600, 5, 4, random_state=0)
    model = AssumeNegativeClassifier(
        selection_metric=name, max_epochs=6, patience=None, early_stopping=True, random_state=0
    ).fit(data.X, data.observed)
    scores = [record[f"valid_{name}"] for record in model.history_.records]
    best = np.argmax(scores) if higher_is_better(name) else np.argmin(scores)
    assert model.history_.facts["best_epoch"] == best + 1


def test_auto_means_the_documented_rules():
    model = AssumeNegativeClassifier()
    schedules = [model._schedule(n, bags=False) for n in (100, 2000, 4000, 100_000)]
    assert [schedule.batch_size for schedule in schedules] == [16, 32, 64, 512]
    assert (schedules[0].learning_rate, model._schedule(4000, bags=True).learning_rate) == (0.001, 0.003)
    assert schedules[2].learning_rate == 0.002
    assert model._metric(500, 50, complete=False) == "observed_likelihood"
    assert model._metric(500, 50, complete=True) == "average_precision"
    smoothed = AssumeNegativeClassifier(label_smoothing=0.1)
    assert smoothed._metric(100, 50, complete=False) == "average_precision"
    assert [SMILEClassifier()._schedule(n, bags=False).batch_size for n in (400, 2000, 40_000)] == [32, 128, 128]
    smile = SMILEClassifier()  # does not learn the likelihood, which judges it on few rows only
    assert smile._metric(500, 50, complete=False) == "average_precision"
    assert smile._metric(100, 50, complete=False) == "observed_likelihood"
    assert [model._schedule(n, bags=True).n_pretraining for n in (100, 50_000)] == [30, 20]
    linear = AssumeNegativeClassifier(network=())
    assert model._schedule(100, bags=False).n_pretraining == linear._schedule(100, bags=True).n_pretraining == 0


def test_logits_that_know_the_labels_are_clearly_more_likely_than_a_constant():
    rng = np.random.default_rng(0)
    observed, constant = np.eye(5)[rng.integers(5, size=400)], np.zeros((400, 5))
    noise = rng.normal(size=(400, 5))
    assert not clearly_more_likely(observed, noise, constant)
    assert clearly_more_likely(observed, observed + noise, constant)
