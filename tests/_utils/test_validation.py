"""One ``random_state`` for all: what is accepted, what is refused, and that torch is not needed for it."""

import numpy as np
import pytest

from onepos._utils.validation import generator, numpy_generator, seed_from, spawn


@pytest.mark.parametrize("function", [seed_from, generator, numpy_generator, spawn])
@pytest.mark.parametrize("value", [True, np.True_, -1, 1.0, "0"])
def test_what_is_no_seed_is_refused(function, value):
    with pytest.raises(ValueError, match="random_state must be None"):
        function(value)


@pytest.mark.parametrize("function", [generator, numpy_generator])
def test_equal_seeds_equal_draws(function):
    for make in (lambda: 3, lambda: np.int64(3), lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)):
        assert function(make()).random() == function(make()).random()
    assert function(None).random() != function(None).random()


def test_a_generator_goes_on():
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
    assert numpy_generator(rng).random() != numpy_generator(rng).random()
