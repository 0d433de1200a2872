"""Holm's correction against its definition and hand-worked cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepos_studies.study.statistics import holm

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def by_definition(values):
    """max over the tests with no larger p of (tests with no smaller p) · p, at most 1."""
    return [min(1.0, max(q * sum(r >= q for r in values) for q in values if q <= p)) for p in values]


def test_demsars_example():
    """C4.5 against its three variants: 0.016·3, then 0.019·2 lifted to it, then 0.607."""
    np.testing.assert_allclose(holm([0.019, 0.607, 0.016]), [0.048, 0.607, 0.048])


@pytest.mark.parametrize(
    ("given_p", "expected"),
    [([], []), ([0.3], [0.3]), ([0.6, 0.7], [1.0, 1.0]), ([0.01, 0.01, 0.01], [0.03, 0.03, 0.03]), ([0, 1], [0, 1])],
)
def test_hand_worked(given_p, expected):
    np.testing.assert_allclose(holm(given_p), expected)


@given(p_values)
def test_it_is_its_definition(values):
    np.testing.assert_allclose(holm(values), by_definition(values), rtol=1e-12)


@given(p_values, st.randoms(use_true_random=False))
def test_it_keeps_order_stays_below_bonferroni_and_follows_permutations(values, random):
    adjusted = holm(values)
    assert (adjusted >= values).all()
    assert (adjusted <= np.minimum(1, len(values) * np.asarray(values))).all()
    order = np.argsort(values)
    assert (np.diff(adjusted[order]) >= 0).all()
    random.shuffle(order)
    np.testing.assert_array_equal(holm(np.asarray(values)[order]), adjusted[order])


@pytest.mark.parametrize("bad", [[1.1], [-0.1], [np.nan], [[0.1]]])
def test_what_is_no_p_value_is_refused(bad):
    with pytest.raises(ValueError, match=r"p-values in \[0, 1\]"):
        holm(bad)
