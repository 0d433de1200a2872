"""The rows that members of auto are trained on and judged by."""

import numpy as np
import pytest
from scipy import sparse

import onepos
from onepos.datasets import make_known_posterior
from onepos.methods._auto_folds import MOST_IN_FOLDS, LabelledRows, judged_labels, parts_of

OPTIONS = {"complete": False, "n_folds": None, "fraction": 0.1}


def rows_of(n, n_labels=4, seed=0, start=0):
    """Rows whose one feature is their number."""
    rng = np.random.default_rng(seed)
    features = np.arange(start, start + n, dtype=np.float32)[:, None]
    return LabelledRows(features, np.eye(n_labels, dtype=np.int8)[rng.integers(n_labels, size=n)])


def numbers(rows):
    return rows.features[:, 0].astype(int)


def split(rows, given=None, **options):
    return parts_of(rows, given, **{**OPTIONS, **options}, generator=np.random.default_rng(1))


def test_every_row_judges_once_and_is_learnt_from_by_all_other_models():
    rows = rows_of(203)
    parts = split(rows)
    assert len(parts) == 5
    held = np.concatenate([numbers(part.held) for part in parts])
    assert len(held) == len(set(held)) == 203 - 4  # the first row of each label is never held out
    for part in parts:
        assert not set(numbers(part.held)) & set(numbers(part.train))
        assert len(part.held.observed) + len(part.train.observed) == 203
        assert part.train.observed.any(axis=0).all()
        for side in part:
            np.testing.assert_array_equal(side.observed, rows.observed[numbers(side)])
    np.testing.assert_array_equal(judged_labels(parts), rows.observed[held])


def test_a_label_that_one_row_has_is_in_every_training_part():
    rows = rows_of(200)
    rows.observed[17] = 0
    rare = LabelledRows(rows.features, np.hstack([rows.observed, np.eye(200, dtype=np.int8)[:, [17]]]))
    for part in split(rare):
        assert 17 in numbers(part.train)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_given_rows_with_single_labels_are_rows_like_the_others(make):
    rows, given = rows_of(150), rows_of(50, seed=2, start=1000)
    parts = split(LabelledRows(make(rows.features), rows.observed), LabelledRows(make(given.features), given.observed))
    for part in parts:
        features = part.train.features
        assert sparse.issparse(features) is (make is not np.asarray)
        seen = (features.toarray() if sparse.issparse(features) else features)[:, 0]
        assert 0 < (seen >= 1000).sum() < 50
        assert len(part.train.observed) + len(part.held.observed) == 200


def test_given_rows_with_complete_labels_judge_alone():
    rows, given = rows_of(150), LabelledRows(np.zeros((9, 1), dtype=np.float32), np.ones((9, 4), dtype=np.int8))
    (part,) = split(rows, given, complete=True)
    assert part.train is rows
    assert part.held is given
    (part,) = split(rows, given, n_folds=1)
    assert part.held is given


def test_few_rows_are_not_held_out_and_many_once():
    (part,) = split(rows_of(49))
    assert part.held is None
    assert judged_labels([part]) is None
    (part,) = split(rows_of(60, n_labels=31))  # fewer than two rows a label
    assert part.held is None
    (part,) = split(rows_of(MOST_IN_FOLDS + 1))
    assert len(part.held.observed) == round(0.1 * (MOST_IN_FOLDS + 1))
    (part,) = split(rows_of(200), n_folds=1)
    assert len(part.held.observed) == 20


def test_rows_without_a_label_are_neither():
    rows = rows_of(120)
    rows.observed[:20] = 0
    for part in split(rows):
        assert len(part.train.observed) + len(part.held.observed) == 100
        assert min(numbers(part.train).min(), numbers(part.held).min()) >= 20


def test_validation_rows_with_single_labels_are_learnt_from():
    """Labels that only they have get probabilities above those of labels that nobody has."""
    data = make_known_posterior(200, 5, 4, random_state=0)
    observed, given = np.pad(data.observed, ((0, 0), (0, 2))), np.zeros((60, 6), dtype=np.int8)
    given[:, 4] = 1
    model = onepos.AutoClassifier(methods=("frequency",), time_budget=None, random_state=0)
    with pytest.warns(onepos.exceptions.LabelWarning):
        model.fit(data.X, observed, validation=(data.X[:60], given))
    logits = model.decision_function(data.X)
    assert (logits[:, 4] > logits[:, 5]).all()
    assert model.history_.facts["folds"] == 5
