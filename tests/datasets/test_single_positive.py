"""make_single_positive: what must always hold, and how often each label is drawn."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.stats import chisquare

from onepos.datasets import make_single_positive

N = 6000


@st.composite
def indicators(draw):
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 6)))
    Y = draw(arrays(np.uint8, shape, elements=st.integers(0, 1)))
    Y[np.arange(shape[0]), draw(arrays(np.intp, shape[0], elements=st.integers(0, shape[1] - 1)))] = 1
    return Y


@settings(max_examples=60, deadline=None)
@given(Y=indicators(), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_one_positive_per_row_and_it_is_a_true_one(Y, seed, data):
    finite = st.floats(-50, 50)
    selection = data.draw(st.sampled_from(["uniform", "frequency", "dominance", "weights"]))
    extra = {}
    if selection == "dominance":
        extra["scores"] = data.draw(arrays(float, Y.shape, elements=finite))
    if selection == "weights":
        extra["weights"] = data.draw(arrays(float, Y.shape, elements=st.floats(0.01, 9)))
    results = [
        make_single_positive(container(Y), selection, random_state=seed, **extra)
        for container in (np.asarray, sparse.csr_array, sparse.csr_matrix, pd.DataFrame, sparse.csc_matrix)
    ]
    first = results[0]
    assert first.dtype == np.uint8
    assert (first.sum(axis=1) == 1).all()
    assert (first <= Y).all()
    for other in results[1:]:
        np.testing.assert_array_equal(other.toarray() if sparse.issparse(other) else other.to_numpy(), first)


def test_container_type_is_kept():
    Y = pd.DataFrame([[1, 0], [1, 1]], index=["p", "q"], columns=["a", "b"])
    out = make_single_positive(Y, random_state=0)
    assert out.index.equals(Y.index)
    assert out.columns.equals(Y.columns)
    assert (out.dtypes == np.uint8).all()
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix):
        result = make_single_positive(kind(Y.to_numpy()), random_state=0)
        assert type(result) is kind
        assert result.dtype == np.uint8
    assert isinstance(make_single_positive(Y.to_numpy().tolist(), random_state=0), np.ndarray)


def test_sparse_input_is_left_alone():
    # Unsorted, with an explicit zero: the result is right and the matrix still is what it was.
    Y = sparse.csr_array((np.array([1, 0, 1]), np.array([2, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    out = make_single_positive(Y, random_state=0)
    np.testing.assert_array_equal(out.toarray(), [[0, 0, 1], [1, 0, 0]])
    assert (Y.data.tolist(), Y.indices.tolist()) == ([1, 0, 1], [2, 1, 0])


def draws(selection, pattern=(1, 1, 0, 1), **extra):
    Y = np.tile(np.array(pattern, dtype=np.uint8), (N, 1))
    return make_single_positive(Y, selection, random_state=7, **extra).sum(axis=0)


def test_uniform_is_uniform():
    counts = draws("uniform")
    assert counts[2] == 0
    assert chisquare(counts[[0, 1, 3]]).pvalue > 0.01


def test_weights_set_the_proportions():
    for weights in ([1, 2, 9, 5], np.tile([1, 2, 9, 5], (N, 1))):
        counts = draws("weights", weights=weights)
        assert chisquare(counts[[0, 1, 3]], np.array([1, 2, 5]) * N / 8).pvalue > 0.01
    assert draws("weights", weights=[0, 1, 1, 0]).tolist() == [0, N, 0, 0]


def test_dominance_is_the_softmax_over_the_positives():
    logits = np.array([0.0, 1.0, 30.0, -0.5])
    for temperature in (1.0, 2.5):
        counts = draws("dominance", scores=np.tile(logits, (N, 1)), temperature=temperature)
        p = np.exp(logits[[0, 1, 3]] / temperature)
        assert counts[2] == 0
        assert chisquare(counts[[0, 1, 3]], N * p / p.sum()).pvalue > 0.01
    cold = draws("dominance", scores=np.tile(logits, (N, 1)), temperature=1e-3)
    assert cold.tolist() == [0, N, 0, 0]


def test_frequency_follows_the_counts_of_the_labels():
    Y = np.vstack([np.tile([1, 1, 1], (N, 1)), np.tile([0, 1, 1], (N, 1)), np.tile([0, 0, 1], (2 * N, 1))])
    counts = make_single_positive(Y, "frequency", random_state=3)[:N].sum(axis=0)
    assert chisquare(counts, np.array([1, 2, 4]) * N / 7).pvalue > 0.01


def test_seeds():
    Y = np.ones((50, 5), dtype=int)
    same = [make_single_positive(Y, random_state=4) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    for make in (lambda: np.random.default_rng(4), lambda: np.random.RandomState(4)):
        np.testing.assert_array_equal(*(make_single_positive(Y, random_state=make()) for _ in range(2)))
    rng = np.random.default_rng(4)
    assert (make_single_positive(Y, random_state=rng) != make_single_positive(Y, random_state=rng)).any()
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - that it is left alone is the point
    make_single_positive(Y)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    ("Y", "options", "message"),
    [
        ([[1, 0], [0, 0]], {}, "1 of 2 rows have no positive label.*Drop these rows"),
        ([[1, 2]], {}, "only 0 and 1"),
        ([[1, np.nan]], {}, "only 0 and 1"),
        ([["a", "b"]], {}, "2-D indicator matrix"),
        ([1, 0], {}, "2-D indicator matrix"),
        ([[1, 1]], {"selection": "best"}, "must be one of uniform"),
        ([[1, 1]], {"selection": "weights"}, "needs weights="),
        ([[1, 1]], {"weights": [1, 1]}, "takes no weights="),
        ([[1, 1]], {"selection": "dominance"}, "needs scores="),
        ([[1, 1]], {"selection": "weights", "weights": [1, -1]}, "must not be negative"),
        ([[1, 1]], {"selection": "weights", "weights": [1, np.nan]}, "finite"),
        ([[1, 1]], {"selection": "weights", "weights": [1, 1, 1]}, "shape"),
        ([[1, 0]], {"selection": "weights", "weights": [0, 1]}, "in 1 rows .*weight 0"),
        ([[1, 1]], {"selection": "dominance", "scores": [[1, 1]], "temperature": 0}, "temperature"),
        ([[1, 1]], {"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_input(Y, options, message):
    with pytest.raises(ValueError, match=message):
        make_single_positive(np.array(Y), **options)
