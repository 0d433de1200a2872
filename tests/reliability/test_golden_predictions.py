"""Predictions that were once kept still come out: a faster step must not be another method."""

import json

import numpy as np
import pytest

import golden_predictions

STORED = json.loads(golden_predictions.STORED.read_text(encoding="utf-8"))

#: Far above what other processors, and the kernel instead of torch, make of 60 steps; far below what another seed does.
TOLERANCE = 2e-3


def test_every_method_is_there():
    assert sorted(STORED) == sorted(golden_predictions.keys())


@pytest.mark.parametrize("key", sorted(STORED))
def test_predictions_are_those_kept(key):
    np.testing.assert_allclose(golden_predictions.predictions(key), STORED[key], atol=TOLERANCE)


@pytest.mark.parametrize("case", ["smile", golden_predictions.MANY_LABELS])
def test_predictions_of_smile_are_those_kept_without_kernels(case, without_kernels):
    np.testing.assert_allclose(golden_predictions.predictions(case), STORED[case], atol=TOLERANCE)


@pytest.mark.parametrize("case", ["smile", golden_predictions.MANY_LABELS])
def test_another_seed_is_noticed(case, monkeypatch):
    monkeypatch.setitem(golden_predictions.SHORT, "random_state", 1)
    assert np.abs(golden_predictions.predictions(case) - STORED[case]).max() > 5 * TOLERANCE
