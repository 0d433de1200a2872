"""Rows to train on and to judge by."""

import numpy as np
import pytest

from onepos.rows.splits import FEW_ROWS, N_FOLDS, can_hold_out, folds, hold_out, splits


@pytest.fixture
def observed():
    """2,500 rows of six labels; row 7 has none, and row 11 is the only one of the last label."""
    labels = np.minimum(np.random.default_rng(0).geometric(0.3, size=2500), 5) - 1
    rows = np.eye(6, dtype=np.int8)[labels]
    rows[:5] = np.eye(6)[:5]
    rows[7], rows[11] = 0, np.eye(6)[5]
    return rows


@pytest.mark.parametrize("n_rows", [30, 2500])
def test_no_label_is_unseen_and_no_row_is_in_two_parts(observed, n_rows):
    observed = observed[:n_rows]
    pairs = splits(observed, 0.2, np.random.default_rng(1))
    assert len(pairs) == (N_FOLDS if n_rows < FEW_ROWS else 1)
    held = np.concatenate([held for _, held in pairs])
    assert len(set(held.tolist())) == len(held) == (n_rows - 1 - 6 if n_rows < FEW_ROWS else 500)
    for train, out in pairs:
        assert sorted([*train, *out]) == list(range(n_rows))
        assert {7, 11} <= set(train)
        assert observed[train].any(axis=0).all()
        assert (np.diff(train) > 0).all()
        assert (np.diff(out) > 0).all()


def test_folds_of_all_rows_are_of_equal_size(observed):
    held = [out for _, out in folds(observed, 8, np.random.default_rng(0), keep_labels=False)]
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.delete(np.arange(2500), 7))
    assert {len(out) for out in held} == {312, 313}


def test_only_the_rows_given_are_held_out(observed):
    rows = np.arange(100, 200)
    _, held = hold_out(observed, 0.5, np.random.default_rng(0), rows=rows)
    assert len(held) == 50
    assert set(held) <= set(rows)
    pairs = folds(observed, 4, np.random.default_rng(0), rows=rows, keep_labels=False)
    np.testing.assert_array_equal(np.sort(np.concatenate([out for _, out in pairs])), rows)


def test_there_are_no_empty_folds():
    observed = np.eye(2, dtype=np.int8)[[0, 0, 0, 1]]
    assert [len(out) for _, out in folds(observed, 8, np.random.default_rng(0))] == [1, 1]
    assert len(folds(observed, 8, np.random.default_rng(0), keep_labels=False)) == 4


def test_at_least_one_row_is_held_out():
    _, held = hold_out(np.eye(2, dtype=np.int8)[[0, 0, 0, 1]], 0.01, np.random.default_rng(0))
    assert len(held) == 1


def test_rows_that_cannot_be_spared():
    observed = np.eye(3, dtype=np.int8)
    assert not can_hold_out(observed)
    assert can_hold_out(observed[[0, 1, 1]])
    for split in (
        lambda *args: hold_out(*args, 0.5, np.random.default_rng(0)),
        lambda *args: folds(*args, 2, np.random.default_rng(0)),
    ):
        with pytest.raises(ValueError, match="no row can be held out: 3 labelled rows for 3 observed labels"):
            split(observed)
