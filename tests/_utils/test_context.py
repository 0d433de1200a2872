"""A remembered result is the computed one, for the same inputs only, and few are kept."""

import numpy as np
import pytest
from scipy import sparse

from onepos._utils import context
from onepos._utils.context import LIMIT, recall, remember_work


@pytest.fixture
def doubled(monkeypatch):
    """A function that doubles through ``recall``, and the list of the calls that were really computed."""
    monkeypatch.setattr(context, "_memory", type(context._memory)())
    computed = []

    def double(X, *settings):
        def compute():
            computed.append(settings)
            return (X * 2,)

        return recall(compute, "double", X, *settings)[0]

    return double, computed


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_same_rows_are_computed_once(doubled, container):
    double, computed = doubled
    X = np.eye(4)
    with remember_work():
        first = double(container(X))
    with remember_work():
        again = double(container(X.copy()))
    assert len(computed) == 1
    assert again is first
    assert (first != container(2 * X)).sum() == 0


def test_any_difference_is_computed_again(doubled):
    double, computed = doubled
    X = np.random.default_rng(0).random((30, 4))
    other = X.copy()
    other[7, 2] += 1e-12
    with remember_work():
        for inputs in [(X, 3), (other, 3), (X, 4), (X, "3"), (X.astype(np.float32), 3), (X.reshape(4, 30), 3)]:
            double(*inputs)
    assert len(computed) == 6


def test_nothing_is_kept_unless_asked_for(doubled):
    double, computed = doubled
    double(np.eye(2))
    double(np.eye(2))
    assert len(computed) == 2
    assert not context._memory


def test_the_oldest_is_forgotten(doubled):
    double, computed = doubled
    with remember_work():
        for k in range(LIMIT + 1):
            double(np.eye(2), k)
        assert len(context._memory) == LIMIT
        double(np.eye(2), 0)
    assert len(computed) == LIMIT + 2


def test_what_is_remembered_cannot_be_changed(doubled):
    double, _ = doubled
    with remember_work(), pytest.raises(ValueError, match="read-only"):
        double(np.eye(2))[0, 0] = 5
