"""The neighbourhood of a batch, against Â's and A's definition over the whole graph."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onepos.graph.exact import adjacency
from onepos.graph.neighborhoods import Neighborhood


@given(n=st.integers(2, 60), k=st.integers(1, 8), size=st.integers(1, 30), seed=st.integers(0, 999))
def test_rows_places_and_links_are_those_of_the_whole_graph(n, k, size, seed):
    rng = np.random.default_rng(seed)
    others = [rng.choice(np.delete(np.arange(n), i), min(k, n - 1), replace=False) for i in range(n)]
    table, rows = np.column_stack([np.arange(n), others]), rng.permutation(n)[:size]
    found = Neighborhood(table, rows)
    assert found.needed.tolist() == sorted(set(table[rows].ravel().tolist()))
    np.testing.assert_array_equal(found.needed[found.places], table[rows])
    np.testing.assert_array_equal(found.linked, adjacency(table[:, 1:], n).toarray()[np.ix_(rows, rows)])
