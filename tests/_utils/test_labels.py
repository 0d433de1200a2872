"""Cells become the text of tags, and spellings that look the same become one tag."""

import numpy as np
import pytest

from onepos._utils.labels import cell_text, normal_tag


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (1234567.0, "1234567"),
        (np.float32(2.5), "2.5"),
        (1e16, "1" + 16 * "0"),
        (" 07 ", "07"),
        ("3.0", "3.0"),
    ],
)
def test_whole_numbers_have_no_decimal_point(value, text):
    assert cell_text(value) == text


def test_spellings_that_look_the_same_are_one_tag():
    assert normal_tag("cafe\u0301 ") == normal_tag("caf\xe9\u200b") == "caf\xe9"
