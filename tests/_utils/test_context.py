"""A remembered result is the computed one, for the same inputs only, and few are kept."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from onepos._utils import context
from onepos._utils.context import LIMIT, other_warnings, quiet, recall, remember_work, warn
from onepos.exceptions import LabelWarning


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


def test_concurrent_work_leaves_no_filter_of_warnings_behind():
    def work(number):
        with quiet(LabelWarning, "known"), other_warnings("ignore", RuntimeWarning):
            time.sleep(0.001 * (number % 3))
            warn("this is known", LabelWarning)
            warnings.warn("of another package", RuntimeWarning, stacklevel=1)

    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert list(warnings.filters) == before
    with quiet(LabelWarning, "known"), pytest.warns(LabelWarning, match="this is new") as caught:
        warn("this is new", LabelWarning)
    assert caught[0].filename == __file__


def test_the_library_sets_filters_in_one_place():
    """Filters belong to the process. ``testing`` and the command line own theirs."""
    folder = Path(context.__file__).parents[1]
    users = [path for path in folder.rglob("*.py") if "catch_warnings(" in path.read_text()]
    assert {path.relative_to(folder).as_posix() for path in users} == {"_utils/context.py", "testing.py", "cli/fit.py"}
