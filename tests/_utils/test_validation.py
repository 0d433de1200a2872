"""One ``random_state`` for all: what is accepted, what is refused, and that torch is not needed for it."""

import numpy as np
import pytest

from onepos._utils.validation import expected, generator, numpy_generator, one_of_names, seed_from, shorten, spawn


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


def test_a_message_has_three_parts_or_two():
    assert expected("n must be above 0", -1, "Leave it out.") == "n must be above 0; got -1. Leave it out."
    assert expected("n must be above 0", "a") == "n must be above 0; got 'a'."


def test_a_name_that_is_not_known_is_answered_with_a_similar_one():
    known = ("average_precision", "coverage")
    assert one_of_names("metric", "coverage", known) == "coverage"
    with pytest.raises(ValueError, match=r"metric must be one of average_precision, coverage; got 'covrage'\. Did you"):
        one_of_names("metric", "covrage", known)
    with pytest.raises(ValueError, match=r"got 3\.$"):
        one_of_names("metric", 3, known)


def test_many_names_are_counted():
    assert shorten("abc") == "a, b, c"
    assert shorten(range(1000), 2) == "0, 1 … (1,000 in all)"
