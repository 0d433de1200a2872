"""The rows that members of auto are trained on and judged by."""

import numpy as np
import pytest
from scipy import sparse

from onepos.methods.auto.judging import FOLDS, deal


def rows_of(n, n_labels=4, seed=0, start=0):
    """Rows whose one feature is their number."""
    generator = np.random.default_rng(seed)
    features = np.arange(start, start + n, dtype=np.float32)[:, None]
    return features, np.eye(n_labels, dtype=np.int8)[generator.integers(n_labels, size=n)]


def dealt(rows, given=None, **options):
    options = {"complete": False, "n_folds": None, "fraction": 0.1} | options
    return deal(*rows, given, np.random.default_rng(1), **options)


def numbers(part):
    return part[0][:, 0].astype(int)


def test_every_row_judges_once_and_is_learnt_from_by_all_other_models():
    rows = rows_of(203)
    folds = dealt(rows)
    assert len(folds) == FOLDS
    held = np.concatenate([numbers(folds.held(k)) for k in range(FOLDS)])
    assert len(held) == len(set(held)) == 203 - 4  # the first row of each label is never held out
    np.testing.assert_array_equal(folds.labels(FOLDS), rows[1][held])
    for k in range(FOLDS):
        train, out = folds.train(k), folds.held(k)
        assert not set(numbers(train)) & set(numbers(out))
        assert len(numbers(train)) + len(numbers(out)) == 203
        assert train[1].any(axis=0).all()
        for part in (train, out):
            np.testing.assert_array_equal(part[1], rows[1][numbers(part)])


def test_one_fold_holds_out_a_share():
    folds = dealt(rows_of(200), n_folds=1)
    assert len(folds) == 1
    assert [len(rows) for _, rows in folds.parts] == [20]


def test_rows_without_a_label_are_left_out():
    features, observed = rows_of(120)
    observed[:20] = 0
    folds = dealt((features, observed))
    assert folds.observed.any(axis=1).all()
    assert folds.features.min() == 20


def test_too_few_rows_have_no_folds():
    assert len(dealt(rows_of(49))) == 0
    assert len(dealt(rows_of(50))) == FOLDS
    assert len(dealt(rows_of(60, n_labels=60))) == 0


@pytest.mark.parametrize("as_sparse", [False, True])
def test_single_validation_labels_are_rows_like_the_others(as_sparse):
    features, observed = rows_of(100)
    more, labels = rows_of(30, start=100)
    if as_sparse:
        features, more = sparse.csr_array(features), sparse.csr_array(more)
    folds = dealt((features, observed), (more, labels))
    assert folds.features.shape == (130, 1)
    np.testing.assert_array_equal(folds.observed, np.concatenate([observed, labels]))


def test_complete_validation_labels_judge_alone():
    rows, given = rows_of(100), rows_of(30, start=100)
    folds = dealt(rows, given, complete=True)
    assert len(folds) == 1
    np.testing.assert_array_equal(numbers(folds.train(0)), np.arange(100))
    np.testing.assert_array_equal(numbers(folds.held(0)), np.arange(100, 130))
    np.testing.assert_array_equal(folds.labels(1), given[1])


def test_large_folds_are_judged_by_some_rows_and_the_others_are_trained_on(monkeypatch):
    monkeypatch.setattr("onepos.methods.auto.judging._MOST_JUDGED", 4 * 210)
    folds = dealt(rows_of(4000))
    assert len(folds.parts) == FOLDS
    assert {len(rows) for _, rows in folds.parts} <= {199, 200, 201}
    assert len(folds.train(0)[1]) + len(folds.held(0)[1]) == 4000
