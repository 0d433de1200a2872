"""The five measures against definitions written out, scikit-learn, and hand-worked cases."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.metrics import (
    average_precision_score,
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
    roc_auc_score,
)

from onepos import metrics
from onepos.metrics import (
    LABEL_METRICS,
    METRICS,
    average_precision,
    coverage,
    evaluate,
    hamming_loss,
    higher_is_better,
    macro_auc,
    macro_average_precision,
    one_error,
    ranking_loss,
)

RANKING = METRICS[:4]


@st.composite
def problems(draw, max_labels=7, distinct=False, dtype=np.float64):
    """Truth with a positive and a negative in every row, and scores with or without ties."""
    n, c = draw(st.integers(1, 6)), draw(st.integers(2, max_labels))
    Y = draw(hnp.arrays(np.int8, (n, c), elements=st.integers(0, 1)))
    Y[:, 0], Y[:, 1] = 1, 0
    if distinct:
        S = np.array([draw(st.permutations(range(c))) for _ in range(n)])
    else:
        S = draw(hnp.arrays(np.int8, (n, c), elements=st.integers(-2, 2)))
    order = draw(st.permutations(range(c)))
    return Y[:, order], (S / 4).astype(dtype)


def by_order(y, order):
    """The four ranking measures of one row whose labels are ranked as in ``order``, from the definitions."""
    rank = {label: place for place, label in enumerate(order, start=1)}
    positives = [j for j in order if y[j]]
    negatives = [j for j in order if not y[j]]
    precision = [sum(rank[m] <= rank[j] for m in positives) / rank[j] for j in positives]
    wrong = sum(rank[j] > rank[m] for j in positives for m in negatives)
    return (
        sum(precision) / len(positives),
        float(not y[order[0]]),
        wrong / (len(positives) * len(negatives)),
        (max(rank[j] for j in positives) - 1) / len(y),
    )


@given(problems(max_labels=5))
@settings(max_examples=60, deadline=None)
def test_ties_give_the_worst_value_of_all_orders_of_the_tied_labels(problem):
    Y, S = problem
    worst = []
    for y, s in zip(Y, S, strict=True):
        orders = [o for o in permutations(range(len(y))) if all(np.diff(s[list(o)]) <= 0)]
        values = np.array([by_order(y, o) for o in orders])
        worst.append([values[:, 0].min(), *values[:, 1:].max(axis=0)])
    ours = [evaluate(Y, S)[name] for name in RANKING]
    np.testing.assert_allclose(ours, np.mean(worst, axis=0), rtol=0, atol=1e-12)


@given(problems())
@settings(deadline=None)
def test_ranking_loss_and_coverage_equal_scikit_learn_even_with_ties(problem):
    Y, S = problem
    assert ranking_loss(Y, S) == pytest.approx(label_ranking_loss(Y, S), abs=1e-12)
    assert coverage(Y, S) == pytest.approx((coverage_error(Y, S) - 1) / Y.shape[1], abs=1e-12)


@given(problems(distinct=True))
@settings(deadline=None)
def test_average_precision_equals_scikit_learn_without_ties(problem):
    Y, S = problem
    assert average_precision(Y, S) == pytest.approx(label_ranking_average_precision_score(Y, S), abs=1e-12)


@given(problems())
@settings(deadline=None)
def test_average_precision_never_exceeds_scikit_learn(problem):
    Y, S = problem
    assert average_precision(Y, S) <= label_ranking_average_precision_score(Y, S) + 1e-12


def test_a_large_float32_problem_over_several_chunks_equals_scikit_learn():
    rng = np.random.default_rng(0)
    S = rng.random((700, 1500), dtype=np.float32)
    Y = rng.random(S.shape) < 0.01
    Y[:, 3] = True
    assert S.size > metrics._CHUNK_ENTRIES
    ours = evaluate(Y, S)
    # distinct enough: float32 draws tie now and then, but two tied positives of a row do not occur here
    assert ours["average_precision"] == pytest.approx(label_ranking_average_precision_score(Y, S), abs=1e-12)
    assert ours["ranking_loss"] == pytest.approx(label_ranking_loss(Y, S), abs=1e-12)
    assert ours["coverage"] == pytest.approx((coverage_error(Y, S) - 1) / 1500, abs=1e-12)
    assert ours["hamming_loss"] == pytest.approx(np.mean((S >= 0.5) != Y), abs=1e-12)
    top = np.take_along_axis(Y, S.argmax(axis=1)[:, None], axis=1)
    assert ours["one_error"] == pytest.approx(1 - top.mean(), abs=1e-12)


#: Scores by how they are sorted: 32-bit keys for positive ones, 64-bit keys for others, none for other types.
SCORES = {
    "positive": lambda S: (np.abs(S) + 1).astype(np.float32),
    "around zero": lambda S: (S / 8).astype(np.float32),
    "wide": lambda S: (S * 1e20).astype(np.float32),
    "double": lambda S: S.astype(np.float64),
    "whole": lambda S: S.astype(np.int64),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_any_way_of_sorting_gives_the_definition(kind, share, as_sparse):
    rng = np.random.default_rng(0)
    S = SCORES[kind](rng.integers(-9, 10, (60, 40)))  # ties within each row
    if S.dtype.kind == "f":
        S[S == 0.0] *= rng.choice([-1.0, 1.0], int((S == 0.0).sum())).astype(S.dtype)  # zeros of either sign tie
    Y = (rng.random(S.shape) < share).astype(np.int8)
    Y[3], Y[5] = 0, 1  # nothing to rank; positives only
    wrong, depth, precision = [], [], []
    for y, s in zip(Y, S, strict=True):
        above = np.array([np.count_nonzero((s >= s[j]) & (y == 0)) for j in np.flatnonzero(y)])
        if len(above) and 0 in y:
            wrong.append(above.sum() / (len(above) * (len(y) - len(above))))
        if len(above):
            depth.append((above.max() + len(above) - 1) / len(y))
            places = np.arange(1, len(above) + 1)
            precision.append(np.mean(places / (places + np.sort(above))))
    found = evaluate(sparse.csr_array(Y) if as_sparse else Y, S)
    assert found["ranking_loss"] == pytest.approx(np.mean(wrong), abs=1e-12)
    assert found["coverage"] == pytest.approx(np.mean(depth), abs=1e-12)
    assert found["average_precision"] == pytest.approx(np.mean(precision), abs=1e-12)


def test_hand_worked_row_without_ties():
    Y, S = [[1, 0, 1, 0]], [[0.9, 0.5, 0.1, 0.0]]
    assert average_precision(Y, S) == pytest.approx((1 + 2 / 3) / 2)
    assert one_error(Y, S) == 0
    assert ranking_loss(Y, S) == pytest.approx(1 / 4)
    assert coverage(Y, S) == pytest.approx(2 / 4)
    assert hamming_loss(Y, S) == pytest.approx(2 / 4)


def test_two_tied_positives_behind_a_negative_differ_from_scikit_learn():
    Y, S = np.array([[0, 1, 1]]), np.array([[0.9, 0.5, 0.5]])
    assert average_precision(Y, S) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert label_ranking_average_precision_score(Y, S) == pytest.approx(2 / 3)


def test_a_constant_score_puts_every_negative_first():
    Y, S = np.array([[1, 0, 1, 0]]), np.full((1, 4), 0.5)
    assert average_precision(Y, S) == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert label_ranking_average_precision_score(Y, S) == pytest.approx(2 / 4)
    assert (one_error(Y, S), ranking_loss(Y, S), coverage(Y, S)) == (1, 1, 3 / 4)


def test_positives_tied_for_the_top_are_no_error_and_zero_signs_do_not_matter():
    assert one_error([[1, 1, 0]], [[0.7, 0.7, 0.1]]) == 0
    assert average_precision([[1, 0]], [[0.0, -0.0]]) == 0.5


def test_rows_without_a_positive_are_left_out_where_scikit_learn_scores_them():
    Y, S = np.array([[0, 1, 0], [0, 0, 0]]), np.array([[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]])
    alone = evaluate(Y[:1], S[:1])
    both = evaluate(Y, S)
    assert [both[name] for name in RANKING] == [alone[name] for name in RANKING]
    assert both["hamming_loss"] == pytest.approx(1 / 6)  # the empty row counts, and is right
    assert label_ranking_average_precision_score(Y, S) == pytest.approx((0.5 + 1) / 2)
    assert label_ranking_loss(Y, S) == pytest.approx((0.5 + 0) / 2)
    assert coverage_error(Y, S) == pytest.approx((2 + 0) / 2)


def test_full_rows_count_for_all_but_ranking_loss():
    Y, S = np.array([[1, 0], [1, 1]]), np.array([[0.1, 0.9], [0.1, 0.9]])
    assert average_precision(Y, S) == pytest.approx((1 / 2 + 1) / 2)
    assert one_error(Y, S) == 0.5
    assert coverage(Y, S) == pytest.approx(1 / 2)
    assert ranking_loss(Y, S) == 1
    assert label_ranking_loss(Y, S) == 0.5


@pytest.mark.parametrize("name", RANKING)
def test_no_row_left_is_an_error(name):
    with pytest.raises(ValueError, match=f"{name} expected at least one row with a positive"):
        getattr(metrics, name)(np.zeros((3, 2)), np.zeros((3, 2)))


def test_only_full_rows_leave_nothing_for_ranking_loss():
    with pytest.raises(ValueError, match="positive and a negative"):
        ranking_loss([[1, 1]], [[0.1, 0.2]])


@given(problems(), st.data())
@settings(deadline=None)
def test_every_container_and_dtype_gives_the_same(problem, data):
    Y, S = problem
    expected = evaluate(Y, S)
    names = [f"label {j}" for j in range(Y.shape[1])]
    truths = [Y.astype(bool), Y.astype(np.float32), np.where(Y, 1, -1), Y.tolist(), np.asfortranarray(Y)]
    truths += [pd.DataFrame(Y, columns=names), pd.DataFrame(Y.astype(object)), sparse.csr_matrix(Y)]
    truths += [sparse.csc_array(Y), sparse.coo_array(Y), sparse.csr_array(Y.astype(bool))]
    truths += [sparse.csr_array(np.where(Y, 1, -1)), pd.DataFrame(Y).astype("Int64")]
    scores = [S, S.astype(np.float32), S.astype(np.float16), pd.DataFrame(S, columns=names), S.tolist()]
    assert evaluate(data.draw(st.sampled_from(truths)), data.draw(st.sampled_from(scores))) == expected


@given(problems(), st.integers(1, 30))
@settings(deadline=None)
def test_chunk_size_does_not_change_the_result(problem, entries):
    Y, S = problem
    Y[0] = 0
    Y, S = np.vstack([Y, Y, Y[-1:], np.eye(1, Y.shape[1])]), np.vstack([S, S, S[-1:], S[:1]])
    whole = evaluate(Y, S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_CHUNK_ENTRIES", entries)
        assert evaluate(Y, S) == pytest.approx(whole, abs=1e-12)


@given(problems(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_of_rows_and_labels_and_monotone_maps_do_not_matter(problem, random):
    Y, S = problem
    expected = [evaluate(Y, S)[name] for name in RANKING]
    rows, columns = list(range(Y.shape[0])), list(range(Y.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    moved = evaluate(Y[rows][:, columns], np.exp(S[rows][:, columns]))
    assert [moved[name] for name in RANKING] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("decimals", [1, 6])
def test_measures_over_labels_are_those_of_scikit_learn_and_of_the_definition(decimals):
    """With ties and without. A label of no row and one of all rows are left out."""
    random = np.random.default_rng(0)
    S, Y = random.random((60, 7)).round(decimals), random.random((60, 7)) < 0.3
    Y[:, 0], Y[:, 1] = False, True
    expected = [measure(Y[:, 2:], S[:, 2:]) for measure in (average_precision_score, roc_auc_score)]
    assert [macro_average_precision(Y, S), macro_auc(Y, S)] == pytest.approx(expected)
    pairs = [np.mean(np.sign(S[Y[:, j], j][:, None] - S[~Y[:, j], j][None, :]) / 2 + 0.5) for j in range(2, Y.shape[1])]
    assert macro_auc(sparse.csr_array(Y.astype(int)), S) == pytest.approx(np.mean(pairs))
    steps = [
        np.mean([(Y[:, j] & (S[:, j] >= s)).sum() / (S[:, j] >= s).sum() for s in S[Y[:, j], j]])
        for j in range(2, Y.shape[1])
    ]
    assert macro_average_precision(Y, S) == pytest.approx(np.mean(steps))
    assert np.isnan(macro_auc(Y[:, :2], S[:, :2]))
    with pytest.raises(ValueError, match="finite"):
        macro_auc(Y, np.where(S > 0.5, np.nan, S))


def test_evaluate_equals_the_single_functions_in_order():
    rng = np.random.default_rng(1)
    S = rng.random((50, 9)).round(1)
    Y = rng.random(S.shape) < 0.3
    found = evaluate(Y, S, threshold=0.7)
    assert tuple(found) == (*METRICS, *LABEL_METRICS)
    assert all(type(value) is float for value in found.values())
    for name in RANKING:
        assert found[name] == getattr(metrics, name)(Y, S)
    assert found["hamming_loss"] == hamming_loss(Y, S, threshold=0.7)


def test_inputs_are_not_changed_and_unsummed_duplicates_are_understood():
    Y = sparse.csr_array((np.array([1, 1, -1]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    S = np.array([[0.2, 0.4, 0.9]])
    assert average_precision(Y, S) == pytest.approx(1 / 3)  # 1 - 1 = 0 at column 2
    assert Y.nnz == 3
    assert Y.indices.tolist() == [2, 0, 2]
    assert S.tolist() == [[0.2, 0.4, 0.9]]


def test_threshold_is_inclusive_and_compared_in_the_scores_precision():
    assert hamming_loss([[1, 0]], [[0.5, 0.4]]) == 0
    assert hamming_loss([[1, 0]], np.array([[0.7, 0.1]], dtype=np.float32), threshold=0.7) == 0


def test_large_finite_scores_are_accepted_and_integers_stay_exact():
    big = np.finfo(np.float32).max
    assert average_precision([[1, 0, 0]], np.array([[big, big / 2, big / 2]], dtype=np.float32)) == 1
    assert one_error([[1, 0]], np.array([[2**53 + 1, 2**53]])) == 0


@pytest.mark.parametrize(
    ("Y", "S", "message"),
    [
        ([[1, 0]], [[0.1, np.nan]], r"finite scores; got nan in row 0, column 1"),
        ([[1, 0]], [[0.1, np.inf]], "finite scores; got inf"),
        ([[1, 0]], [[0.1, 0.2, 0.3]], r"one shape; got \(1, 2\) and \(1, 3\)"),
        ([1, 0], [[0.1, 0.2]], "Y_true of shape"),
        ([[1, 0]], [0.1, 0.2], "scores of shape"),
        (np.zeros((0, 3)), np.zeros((0, 3)), "neither of them 0"),
        ([[1, 2]], [[0.1, 0.2]], "values 1 .* got 2"),
        ([[1, 0.5]], [[0.1, 0.2]], "got 0.5"),
        ([[1, np.nan]], [[0.1, 0.2]], "got nan"),
        (sparse.csr_array([[1, 3]]), [[0.1, 0.2]], "got 3"),
        ([["a", "b"]], [[0.1, 0.2]], "real numbers"),
        (pd.DataFrame({"a": [1], "b": [None]}, dtype=object), [[0.1, 0.2]], "got nan|numbers only"),
        (pd.DataFrame({"a": [1], "b": ["x"]}), [[0.1, 0.2]], "numbers only"),
        (pd.DataFrame([[1, 0]], columns=list("ab")), pd.DataFrame([[1, 0]], columns=list("ba")), "reorder"),
    ],
)
def test_bad_input_says_what_is_wrong(Y, S, message):
    with pytest.raises(ValueError, match=message):
        evaluate(Y, S)


def test_sparse_scores_and_an_infinite_threshold_are_refused():
    with pytest.raises(TypeError, match="toarray"):
        evaluate([[1, 0]], sparse.csr_array([[0.1, 0.2]]))
    with pytest.raises(ValueError, match="finite threshold"):
        hamming_loss([[1, 0]], [[0.1, 0.2]], threshold=np.nan)


def test_higher_is_better():
    assert [higher_is_better(name) for name in METRICS] == [True, False, False, False, False]
    assert all(map(higher_is_better, LABEL_METRICS))
    with pytest.raises(ValueError, match="average_precision, one_error"):
        higher_is_better("accuracy")
