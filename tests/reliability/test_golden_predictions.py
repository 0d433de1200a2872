"""Methods behave as they once did, or declare another revision: a faster step must not be another method."""

import json
from dataclasses import replace

import numpy as np
import pytest

import golden_predictions
from golden_predictions import MANY_LABELS, TOLERANCE, check, fitted
from onepos.methods import assume_negative, hill, role
from onepos.methods.registry import METHODS

STORED = json.loads(golden_predictions.STORED.read_text(encoding="utf-8"))


def test_every_method_is_there():
    assert sorted(STORED) == sorted(golden_predictions.keys())


@pytest.mark.parametrize("case", sorted(STORED))
def test_predictions_and_losses_are_those_kept(case):
    check(case, STORED[case], fitted(case))


@pytest.mark.parametrize("case", ["smile", MANY_LABELS])
def test_another_seed_is_noticed(case, monkeypatch):
    monkeypatch.setitem(golden_predictions.SHORT, "random_state", 1)
    assert np.abs(np.subtract(fitted(case)["predictions"], STORED[case]["predictions"])).max() > 5 * TOLERANCE


@pytest.mark.parametrize(
    ("key", "module", "loss"),
    [("hill", hill, "hill"), ("role", role, "role"), ("wan", assume_negative, "assume_negative")],
)
def test_one_percent_of_a_loss_needs_another_revision(key, module, loss, monkeypatch):
    before = getattr(module, loss)
    monkeypatch.setattr(module, loss, lambda *inputs, **options: 1.01 * before(*inputs, **options))
    kept = STORED[key]["revision"]
    with pytest.raises(AssertionError, match=f"the revision of {key} is still {kept}. Raise the revision .* or revert"):
        check(key, STORED[key], fitted(key))


def test_another_revision_asks_for_new_predictions(monkeypatch):
    monkeypatch.setitem(METHODS, "wan", replace(METHODS["wan"], revision=STORED["wan"]["revision"] + 1))
    with pytest.raises(AssertionError, match=r"wan has revision 3, .*golden_predictions\.py wan`"):
        check("wan", STORED["wan"], fitted("wan"))
