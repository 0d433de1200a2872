"""The neighbour graph against brute force in float64."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from onepos._utils.context import remember_work
from onepos.graph.neighbors import nearest_neighbors, neighbor_means
from sparse_case import random_csr


def brute(X, k, metric="euclidean"):
    """All distances, self excluded, ties by lower index."""
    X = np.asarray(X, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        D = cdist(X, X, metric)
    if metric == "cosine":
        zero = ~X.any(axis=1)
        D[zero], D[:, zero] = 1, 1
    np.fill_diagonal(D, np.inf)
    indices = np.argsort(D, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(D, indices, axis=1)


@st.composite
def integer_data(draw):
    """Small integers with many duplicates and ties, where float64 distances are exact; and a k."""
    n, q = draw(st.integers(2, 25)), draw(st.integers(1, 4))
    X = draw(hnp.arrays(np.int64, (n, q), elements=st.integers(-2, 2))).astype(np.float64)
    return X, draw(st.integers(1, n - 1))


@given(integer_data(), st.sampled_from([np.float32, np.float64]), st.booleans())
@settings(deadline=None)
def test_duplicates_and_ties_have_the_distances_of_brute_force_in_every_form(problem, dtype, as_csr):
    X, k = problem
    data = sparse.csr_array(X.astype(dtype)) if as_csr else X.astype(dtype)
    indices, distances = nearest_neighbors(data, k)
    assert indices.dtype == np.int64
    np.testing.assert_allclose(distances, brute(X, k)[1], rtol=1e-6)
    np.testing.assert_allclose(cdist(X, X)[np.arange(len(X))[:, None], indices], distances, rtol=1e-6)
    assert (indices != np.arange(len(X))[:, None]).all()
    assert all(len(set(row)) == k for row in indices.tolist())
    np.testing.assert_array_equal(nearest_neighbors(data, k)[0], indices)


@given(integer_data(), st.booleans())
@settings(deadline=None)
def test_cosine_distances_equal_brute_force_with_zero_rows(problem, as_csr):
    X, k = problem
    found, distances = nearest_neighbors(sparse.csr_array(X) if as_csr else X, k, metric="cosine")
    np.testing.assert_allclose(distances, brute(X, k, "cosine")[1], atol=1e-14)
    assert (found != np.arange(len(X))[:, None]).all()
    assert all(len(set(row)) == k for row in found.tolist())


@given(hnp.arrays(np.float64, (9, 3), elements=st.floats(-1e3, 1e3, allow_subnormal=False)))
@settings(deadline=None)
def test_any_floats_give_the_smallest_distances(X):
    """Up to the rounding of squares of the largest entries."""
    found, distances = nearest_neighbors(X, 4)
    rounding = 1e-7 * np.abs(X).max()
    np.testing.assert_allclose(distances, brute(X, 4)[1], atol=rounding)
    np.testing.assert_allclose(cdist(X, X)[np.arange(9)[:, None], found], distances, atol=rounding)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_brute_force(metric, dtype):
    X = np.random.default_rng(0).normal(size=(400, 30)).astype(dtype)
    expected, lengths = brute(X, 7, metric)
    found, distances = nearest_neighbors(X, 7, metric=metric)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(distances, lengths, atol=1e-6)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_csr_equals_dense(metric, density):
    X = random_csr((300, 80), density, seed=1)
    dense, lengths = nearest_neighbors(X.toarray(), 5, metric=metric)
    for form in (X, sparse.csr_matrix(X), X.tocoo()):
        found, distances = nearest_neighbors(form, 5, metric=metric)
        np.testing.assert_allclose(distances, lengths, atol=1e-13)
        # The last bit of distances that tie on paper may differ, so compare where neighbours are distinct.
        distinct = (np.diff(brute(X.toarray(), 6, metric)[1], axis=1) > 1e-9).all(axis=1)
        assert distinct.any()
        np.testing.assert_array_equal(found[distinct], dense[distinct])


def test_rows_that_come_again_are_searched_once():
    X = np.random.default_rng(2).normal(size=(50, 3))
    with remember_work():
        assert nearest_neighbors(X, 4)[0] is nearest_neighbors(X.copy(), 4)[0]
    assert nearest_neighbors(X, 4)[0] is not nearest_neighbors(X, 4)[0]


def test_translation_and_rotation_do_not_change_neighbours():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 8))
    found, distances = nearest_neighbors(X, 5)
    rotation = ortho_group.rvs(8, random_state=4)
    for moved in (X + 1e4, X @ rotation, 1e-30 * X, 1e30 * X):
        np.testing.assert_array_equal(nearest_neighbors(moved, 5)[0], found)
    np.testing.assert_allclose(nearest_neighbors(X + 1e4, 5)[1], distances, rtol=1e-6)
    np.testing.assert_allclose(nearest_neighbors(X @ rotation, 5)[1], distances, rtol=1e-10)
    scaled = X * rng.uniform(0.1, 10, size=(200, 1))
    cosine = nearest_neighbors(X, 5, metric="cosine")[0]
    np.testing.assert_array_equal(nearest_neighbors(scaled, 5, metric="cosine")[0], cosine)


def test_an_outlier_does_not_spoil_the_others():
    X = np.random.default_rng(6).normal(size=(100, 5))
    X[7] = 1e12
    np.testing.assert_array_equal(nearest_neighbors(X, 3)[0], brute(X, 3)[0])


def test_all_rows_equal_and_all_rows_zero():
    for X, metric in [(np.full((4, 3), 0.1), "euclidean"), (np.zeros((4, 3)), "cosine")]:
        for data in (X, sparse.csr_array(X)):
            found, distances = nearest_neighbors(data, 2, metric=metric)
            assert (found != np.arange(4)[:, None]).all()
            np.testing.assert_allclose(distances, 1 if metric == "cosine" else 0, atol=1e-8)


def test_memory_stays_far_below_a_square_matrix():
    X = np.random.default_rng(7).normal(size=(6000, 10)).astype(np.float32)
    tracemalloc.start()
    nearest_neighbors(X, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24e6  # a 6000 x 6000 float32 array would be 144 MB


def test_inputs_are_not_changed():
    X = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    nearest_neighbors(X, 1, metric="cosine")
    assert X.indices.tolist() == [1, 0, 1]
    assert X.data.tolist() == [1, 2, 3]


@pytest.mark.parametrize("k", [0, 3, -1])
def test_too_many_or_too_few_neighbours_are_refused(k):
    with pytest.raises(ValueError, match="n_neighbors"):
        nearest_neighbors(np.eye(3), k)


def test_what_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        nearest_neighbors([[np.nan], [1.0]], 1)


@given(integer_data())
@settings(deadline=None)
def test_neighbor_means_are_the_means_of_the_neighbours(problem):
    X, k = problem
    indices, _ = nearest_neighbors(X, k)
    means = neighbor_means(indices, len(X))
    assert (means.format, means.dtype) == ("csr", np.float32)
    np.testing.assert_allclose(means @ X, X[indices].mean(axis=1), atol=1e-6)


def test_integers_and_lists_are_accepted():
    X = [[0, 0], [3, 4], [3, 5]]
    found, distances = nearest_neighbors(X, 1)
    assert found.ravel().tolist() == [1, 2, 1]
    assert distances.ravel().tolist() == [5, 1, 1]


def test_the_means_leave_the_neighbours_as_they_are():
    X = np.random.default_rng(0).normal(size=(30, 3))
    indices, _ = nearest_neighbors(X, 4)
    before = indices.copy()
    neighbor_means(indices, len(X))
    assert np.array_equal(indices, before)
