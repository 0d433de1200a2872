"""Rows to train on and to judge by."""

import numpy as np
import pytest
from scipy import sparse

import onepos
from onepos.rows.splits import FEW_ROWS, N_FOLDS, can_hold_out, first_alike, first_equal, folds, hold_out, splits


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


def twins(seed, n_things=60, n_labels=4):
    """Rows of things, between one and five of each, mixed; the things, and tags that differ within a thing."""
    random = np.random.default_rng(seed)
    thing = random.permutation(np.repeat(np.arange(n_things), random.integers(1, 6, n_things)))
    return thing, np.eye(n_labels, dtype=np.int8)[random.integers(n_labels, size=len(thing))]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("keep_labels", [True, False])
def test_no_thing_is_on_both_sides(seed, keep_labels):
    thing, observed = twins(seed)
    alike, generator = first_equal(thing), np.random.default_rng(seed)
    dealt = folds(observed, 5, generator, keep_labels=keep_labels, alike=alike)
    held_once = np.concatenate([held for _, held in dealt])
    assert len(np.unique(held_once)) == len(held_once)
    if not keep_labels:
        assert len(held_once) == len(thing)
    for train, held in [*dealt, hold_out(observed, 0.2, generator, alike=alike)]:
        assert not np.isin(thing[held], thing[train]).any()
        assert len(held)
        if keep_labels:
            assert (observed[train] > 0).any(axis=0).all()
    _, held = hold_out(observed, 0.2, generator, alike=alike)
    assert 0.2 * len(thing) - 1 <= len(held) < 0.2 * len(thing) + 5


def test_rows_that_do_not_repeat_are_dealt_as_ever():
    observed, expected = np.eye(3, dtype=np.int8)[np.arange(90) % 3], None
    for alike in (None, np.arange(90)):
        dealt = folds(observed, 5, np.random.default_rng(1), alike=alike)
        dealt.append(hold_out(observed, 0.3, np.random.default_rng(1), alike=alike))
        parts = [part.tolist() for pair in dealt for part in pair]
        expected = parts if alike is None else expected
        assert parts == expected


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_equal_rows_are_found(convert):
    thing, _ = twins(3)
    values = np.random.default_rng(0).integers(-2, 3, (60, 12)).astype(np.float64)
    values[:, :6] *= 0.0  # −0 is 0
    found = first_alike(convert(values[thing]))
    _, expected = np.unique(values[thing], axis=0, return_inverse=True)
    assert np.array_equal(found[:, None] == found, expected[:, None] == expected)
    assert (found <= np.arange(len(thing))).all()
    assert (found[found] == found).all()


def test_coarse_features_are_no_things():
    assert first_alike(np.arange(500.0)[:, None]) is None
    assert first_alike(np.arange(500.0)[:, None] % 10) is None
    assert first_alike(np.zeros((40, 3))) is None
    assert first_alike(np.arange(500.0)[:, None] % 400) is not None


def test_a_forest_leaves_out_things_as_a_whole():
    """Tags are noise, and the same within a thing: a forest judged by other things leaves them to the prior."""
    random = np.random.default_rng(0)
    X, tag = np.repeat(random.normal(size=(150, 4)), 4, axis=0), np.repeat(random.integers(5, size=150), 4)
    model = onepos.ForestClassifier(n_trees=60, random_state=0).fit(X, np.eye(5, dtype=int)[tag])
    assert model.prior_weight_ > 100
