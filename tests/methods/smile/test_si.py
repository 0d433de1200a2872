"""SMILE-SI: the risk with one's own confidence; what it pulls, what it leaves, and when the confidence is taken."""

import numpy as np
import pytest
import torch

from onepos import AssumeNegativeClassifier
from onepos.datasets import make_known_posterior
from onepos.methods.smile.classifier import SMILESIClassifier, SMILESIObjective
from onepos.training import Batch, TrainingRows
from onepos.training.networks import MLP


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(240, 6, 4, random_state=0)


def _objective(data):
    rows = TrainingRows.from_arrays(data.X[:24], data.observed[:24].astype(np.int8), np.arange(24))
    network = MLP([6, 4], generator=torch.Generator().manual_seed(0))
    objective = SMILESIObjective(network, 1)
    return objective, Batch(torch.arange(8), rows.gather(torch.arange(8)), rows.observed[:8])


def test_risk_equals_the_formula(data):
    objective, batch = _objective(data)
    objective.begin_epoch(1)
    ((name, loss),) = list(objective.losses(batch))
    f = torch.sigmoid(objective.network(batch.features)).detach().double().numpy()
    s = batch.observed.numpy()
    d = np.where(s == 1, 1.0, f)
    weights = np.minimum(1.0 / (f[s == 1] * 4), 2.0)
    expected = (weights * -(d * np.log(f) + (1 - d) * np.log(1 - f)).sum(axis=1)).mean()
    assert name == "risk"
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_only_observed_entries_pull_when_the_confidence_is_current(data):
    objective, batch = _objective(data)
    objective.begin_epoch(1)
    ((_, loss),) = list(objective.losses(batch))
    # One output bias a label, no hidden layer: the bias gradient is Σ_i w_i (f − d) / B, zero but for observed entries.
    (gradient,) = torch.autograd.grad(loss, objective.network[-1].bias)
    f = torch.sigmoid(objective.network(batch.features)).detach()
    positive = batch.observed > 0
    weights = (1.0 / (4 * f[positive])).clamp(max=2.0)[:, None]
    assert torch.allclose(gradient, (weights * torch.where(positive, f - 1.0, 0.0)).sum(dim=0) / 8, atol=1e-6)


def test_warm_up_alone_is_assume_negative(data):
    settings = {"max_epochs": 3, "random_state": 0}
    ours = SMILESIClassifier(warm_up_epochs=3, **settings).fit(data.X, data.observed)
    theirs = AssumeNegativeClassifier(**settings).fit(data.X, data.observed)
    assert np.array_equal(ours.predict_proba(data.X), theirs.predict_proba(data.X))


def test_trusting_itself_ends_the_assumption_that_unknown_is_negative(data):
    settings = {"max_epochs": 20, "random_state": 0}
    ours = SMILESIClassifier(**settings).fit(data.X, data.observed)
    theirs = AssumeNegativeClassifier(**settings).fit(data.X, data.observed)
    assert theirs.predict_proba(data.X).sum(axis=1).mean() == pytest.approx(1.0, abs=0.15)
    assert ours.predict_proba(data.X).sum(axis=1).mean() > 1.4
    assert ours.score(data.X, data.Y) > 0.7


def test_soft_labels_are_the_confidence_with_known_entries(data):
    observed = data.observed.astype(np.int8)
    row = int(np.flatnonzero(observed[:, 3] == 0)[0])
    observed[row, 3] = -1
    model = SMILESIClassifier(max_epochs=5, dropout=0.2, random_state=0).fit(data.X, observed)
    expected = model.predict_proba(data.X)
    expected[observed == 1] = 1.0
    expected[row, 3] = 0.0
    assert model.soft_labels_.dtype == np.float32
    assert np.allclose(model.soft_labels_, expected, atol=1e-6)


def test_equal_seeds_give_equal_bits_whatever_the_global_state(data):
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the global state is what must not matter
        models.append(SMILESIClassifier(max_epochs=5, random_state=0).fit(data.X, data.observed))
    assert np.array_equal(models[0].soft_labels_, models[1].soft_labels_)


def test_bad_parameters_name_themselves(data):
    with pytest.raises(ValueError, match="'warm_up_epochs' parameter"):
        SMILESIClassifier(warm_up_epochs=-1).fit(data.X, data.observed)
