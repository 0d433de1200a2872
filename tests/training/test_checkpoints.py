"""A run that dies goes on from its checkpoint to the same bits; a checkpoint of another run is not touched."""

import numpy as np
import pytest
import torch
from torch import nn

import onepos
from onepos.datasets import make_known_posterior
from onepos.exceptions import CheckpointError
from onepos.training import Callback

SETTINGS = {"max_epochs": 6, "batch_size": 16, "random_state": 3, "early_stopping": False}


class Died(Exception):
    """What a process does that is killed after an epoch."""


class DieAfter(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_end(self, objective, record):
        if record["epoch"] == self.epoch:
            raise Died


def make_dropping(n_features, n_labels):
    """A network that draws from torch's global generator."""
    return nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, n_labels))


@pytest.fixture(scope="module")
def known():
    return make_known_posterior(150, 6, 5, random_state=0)


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("an", {"dropout": 0.3}),
        ("an", {"early_stopping": True, "patience": None}),
        ("an", {"network": make_dropping}),
        ("an", {"gradient_accumulation": 2}),
        ("role", {}),
        ("em-apl", {"warm_up_epochs": 1}),
        ("ll-cp", {"rate_per_epoch": 0.02}),
        ("crisp", {"warm_up_epochs": 1, "refresh_epochs": 3}),
        ("smile-si", {"warm_up_epochs": 1}),
        ("smile", {"early_stopping": True, "dropout": 0.2}),
    ],
)
def test_a_resumed_run_ends_in_the_same_bits(known, tmp_path, key, settings):
    def build():
        return onepos.make_classifier(key, **{**SETTINGS, **settings})

    def fit(**arguments):
        return build().fit(known.X, known.observed, checkpoint=tmp_path, **arguments)

    whole = build().fit(known.X, known.observed)
    for epoch in (2, 4):  # it dies twice
        with pytest.raises(Died):
            fit(callbacks=[DieAfter(epoch)])
    torch.manual_seed(epoch)  # whatever the global generators are at
    resumed = fit()
    assert resumed.history_.facts["resumed_after_epoch"] == 4
    assert resumed.history_["loss"] == whole.history_["loss"]
    assert np.array_equal(resumed.predict_proba(known.X), whole.predict_proba(known.X))
    assert resumed.history_.facts.get("best_epoch") == whole.history_.facts.get("best_epoch")
    if hasattr(whole, "soft_labels_"):
        assert np.array_equal(resumed.soft_labels_, whole.soft_labels_)


def test_a_finished_run_is_not_trained_on(known, tmp_path):
    first = onepos.make_classifier("an", **SETTINGS).fit(known.X, known.observed, checkpoint=tmp_path)
    again = onepos.make_classifier("an", **SETTINGS).fit(
        known.X, known.observed, checkpoint=tmp_path, callbacks=[DieAfter(n) for n in range(9)]
    )
    assert np.array_equal(first.predict_proba(known.X), again.predict_proba(known.X))
    assert len(again.history_) == SETTINGS["max_epochs"]


def test_a_run_that_stopped_early_stays_stopped(known, tmp_path):
    settings = SETTINGS | {"early_stopping": True, "patience": 1, "max_epochs": 60, "learning_rate": 0.03}
    first = onepos.make_classifier("an", **settings).fit(known.X, known.observed, checkpoint=tmp_path)
    assert first.history_.facts["stopped"] == "early"
    again = onepos.make_classifier("an", **settings).fit(known.X, known.observed, checkpoint=tmp_path)
    assert again.history_.facts["stopped"] == "early"
    assert len(again.history_) == len(first.history_)
    assert np.array_equal(first.predict_proba(known.X), again.predict_proba(known.X))


def test_without_a_random_state_the_run_keeps_its_own(known, tmp_path, monkeypatch):
    settings = SETTINGS | {"random_state": None, "early_stopping": True}
    drawn = iter([7, 8])
    with monkeypatch.context() as patched:
        patched.setattr("onepos.methods._neural.seed_from", lambda random_state: next(drawn))
        with pytest.raises(Died):
            onepos.make_classifier("an", **settings).fit(
                known.X, known.observed, checkpoint=tmp_path, callbacks=[DieAfter(3)]
            )
        resumed = onepos.make_classifier("an", **settings).fit(known.X, known.observed, checkpoint=tmp_path)
    assert resumed.history_.facts["resumed_after_epoch"] == 3
    whole = onepos.make_classifier("an", **settings | {"random_state": 7}).fit(known.X, known.observed)
    assert np.array_equal(resumed.predict_proba(known.X), whole.predict_proba(known.X))


def test_labels_in_another_order_in_memory_are_the_same_run(known, tmp_path):
    for order in ("C", "F"):
        model = onepos.make_classifier("an", **SETTINGS)
        model.fit(known.X, np.asarray(known.observed, order=order), checkpoint=tmp_path)
    assert model.history_.facts["resumed_after_epoch"] == SETTINGS["max_epochs"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"learning_rate": 0.5}, "setting learning_rate was \"'auto'\" and is '0.5'"),
        ({"random_state": 4}, "seed was 3 and is 4"),
    ],
)
def test_another_run_is_refused_and_its_checkpoint_stays(known, tmp_path, change, said):
    onepos.make_classifier("an", **SETTINGS).fit(known.X, known.observed, checkpoint=tmp_path)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match="is of another run: ") as refused:
        onepos.make_classifier("an", **SETTINGS | change).fit(known.X, known.observed, checkpoint=tmp_path)
    assert said in str(refused.value)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_other_data_are_refused(known, tmp_path):
    onepos.make_classifier("an", **SETTINGS).fit(known.X, known.observed, checkpoint=tmp_path)
    for X, observed in ((known.X + 1.0, known.observed), (known.X, known.observed[::-1].copy())):
        with pytest.raises(CheckpointError, match=r"is of another run: (features|labels) was"):
            onepos.make_classifier("an", **SETTINGS).fit(X, observed, checkpoint=tmp_path)


def _flipped(content):
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize("damage", [lambda content: content[:200], lambda content: b"nonsense" * 9, _flipped])
def test_a_damaged_checkpoint_says_so(known, tmp_path, damage):
    onepos.make_classifier("an", **SETTINGS).fit(known.X, known.observed, checkpoint=tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match="remove it to begin again"):
        onepos.make_classifier("an", **SETTINGS).fit(known.X, known.observed, checkpoint=tmp_path)


def test_a_model_file_is_no_checkpoint(known, tmp_path):
    model = onepos.make_classifier("an", **SETTINGS).fit(known.X, known.observed)
    model.save(tmp_path / "checkpoint.safetensors")
    with pytest.raises(CheckpointError, match="is a safetensors file, but not a onepos checkpoint"):
        onepos.make_classifier("an", **SETTINGS).fit(known.X, known.observed, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("key", "settings"), [("an", {}), ("splc", {}), ("smile", {"elbo_weight": 0.0, "cardinality_correction": "weight"})]
)
def test_portions_make_the_step_of_the_batch(known, key, settings):
    """Of losses that are means over rows. SMILE's two steps alternate over the batch, not over its portions."""
    settings = SETTINGS | {"batch_size": 50, "max_epochs": 4, "learning_rate": 0.01} | settings
    whole = onepos.make_classifier(key, **settings).fit(known.X, known.observed)
    portions = onepos.make_classifier(key, gradient_accumulation=3, **settings).fit(known.X, known.observed)
    np.testing.assert_allclose(portions.history_["loss"], whole.history_["loss"], rtol=1e-5)
    np.testing.assert_allclose(portions.predict_proba(known.X), whole.predict_proba(known.X), rtol=1e-4)
