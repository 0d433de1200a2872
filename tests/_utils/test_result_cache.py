"""Remembered graphs are the searched ones, for the same rows only, and few are kept."""

import numpy as np
import pytest
from scipy import sparse

from onepos._utils import result_cache as memory
from onepos._utils.result_cache import LIMIT, remember_work
from onepos.graph.exact import find_neighbors, nearest_neighbors


@pytest.fixture
def searches(monkeypatch):
    """Return the list of searches that were really made."""
    made = []

    def counted(X, n_neighbors, *, metric):
        made.append((n_neighbors, metric))
        return nearest_neighbors(X, n_neighbors, metric=metric)

    monkeypatch.setattr(memory, "nearest_neighbors", counted)
    monkeypatch.setattr(memory, "_memory", type(memory._memory)())
    return made


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_same_rows_are_searched_once(searches, container):
    X = np.random.default_rng(0).random((30, 4)).round(1)
    with remember_work():
        first = find_neighbors(container(X), 3)
    with remember_work():
        again = find_neighbors(container(X.copy()), 3)
    assert len(searches) == 1
    expected = nearest_neighbors(container(X), 3)
    for found in (first, again):
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])


def test_any_difference_is_another_search(searches):
    X = np.random.default_rng(0).random((30, 4))
    other = X.copy()
    other[7, 2] += 1e-12
    with remember_work():
        for rows, k, metric in [(X, 3, "euclidean"), (other, 3, "euclidean"), (X, 4, "euclidean"), (X, 3, "cosine")]:
            find_neighbors(rows, k, metric=metric)
        find_neighbors(X.astype(np.float32), 3)
    assert len(searches) == 5


def test_nothing_is_kept_unless_asked_for(searches):
    X = np.random.default_rng(0).random((30, 4))
    find_neighbors(X, 3)
    find_neighbors(X, 3)
    assert len(searches) == 2
    assert not memory._memory


def test_the_oldest_is_forgotten(searches):
    X = np.random.default_rng(0).random((30, 4))
    with remember_work():
        for k in range(1, LIMIT + 2):
            find_neighbors(X, k)
        assert len(memory._memory) == LIMIT
        find_neighbors(X, 1)
    assert len(searches) == LIMIT + 2


def test_what_is_remembered_cannot_be_changed(searches):
    X = np.random.default_rng(0).random((30, 4))
    with remember_work():
        indices, _ = find_neighbors(X, 3)
        with pytest.raises(ValueError, match="read-only"):
            indices[0, 0] = 5
