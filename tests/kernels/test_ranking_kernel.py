"""Coverage by kernels, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

from onepos import kernels
from onepos.kernels.ranking import depth_of_last, mark_positives
from onepos.metrics import coverage


@given(seed=st.integers(0, 9999), n_rows=st.integers(1, 20), n_labels=st.integers(1, 30), share=st.floats(0.0, 1.0))
def test_depth_is_the_number_of_labels_before_the_last_positive(seed, n_rows, n_labels, share):
    rng = np.random.default_rng(seed)
    # Few values, so that many are equal; both zeros, both signs.
    scores = rng.choice(np.float32([-3.5, -1e-30, -0.0, 0.0, 1e-30, 0.25, 3e38]), size=(n_rows, n_labels))
    mask = rng.random((n_rows, n_labels)) < share
    expected = [(row >= row[own].min()).sum() - 1 for row, own in zip(scores, mask, strict=True) if own.any()]
    assert depth_of_last(scores, mask) == (sum(expected), len(expected))


@pytest.mark.parametrize("kind", [bool, np.int8, np.int64])
def test_coverage_is_that_of_numpy(kind, monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(700, 300)).astype(np.float32)
    truth = (rng.random((700, 300)) < 0.1 * (rng.random((700, 1)) < 0.8)).astype(kind)  # a fifth of the rows has none
    assert kernels.loaded()
    found = coverage(truth, scores)
    monkeypatch.setattr(kernels, "loaded", lambda: False)
    assert found == pytest.approx(coverage(truth, scores), rel=1e-14)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("values", [(0, 1), (-1, 0, 1), (-2, 0, 1, 2)])
def test_positives_are_ones(kind, values):
    truth = np.random.default_rng(0).choice(np.array(values, dtype=kind), size=(40, 33))
    mask = np.ones((40, 33), dtype=np.bool_)
    n_positives, n_wrong = mark_positives(truth, mask)
    np.testing.assert_array_equal(mask, truth == 1)
    assert n_positives == (truth == 1).sum()
    assert n_wrong == (np.abs(truth) > 1).sum()


def test_a_wrong_value_is_named_with_kernels_too():
    truth = np.zeros((700, 300), dtype=np.int64)
    truth[:, 0], truth[650, 7] = 1, 4
    with pytest.raises(ValueError, match="got 4 in rows"):
        coverage(truth, np.random.default_rng(0).random((700, 300), dtype=np.float32))


def test_labels_in_columns_are_read_in_their_place():
    rng = np.random.default_rng(1)
    truth, scores = rng.integers(0, 2, (300, 700)), rng.random((700, 300), dtype=np.float32)
    assert coverage(truth.T, scores) == coverage(np.ascontiguousarray(truth.T), scores)
