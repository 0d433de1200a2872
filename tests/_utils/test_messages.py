"""Error messages say what was expected, what came and what to do."""

import pytest

from onepos._utils.messages import expected, one_of_names, shorten


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
