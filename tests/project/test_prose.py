"""The prose check finds what the style guide replaces, and leaves ordinary sentences alone."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import prose  # noqa: E402

pytestmark = pytest.mark.long


def words(text, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return [hit for _, hit, _ in prose.found(path)]


@pytest.mark.parametrize(
    "text",
    [
        "one probability a label",
        "one random positive a row",
        "2.5 digits a picture",
        "it shall fit",
        "as is said here",
        "what is to be had",
        "That is what it does",
        "made if need be",
    ],
)
def test_wording_of_the_style_guide_is_found(text, tmp_path):
    assert len(words(f"Before.\n\n{text}\n", tmp_path)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "one label per row",
        "the column that identifies a row",
        "one of a row's labels",
        "two rows of a column",
        "marshalling",
    ],
)
def test_ordinary_sentences_are_left_alone(text, tmp_path):
    assert words(text, tmp_path) == []


def test_code_is_not_prose_but_comments_and_texts_are(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('shall = 1  # this shall be found\nhelp = "one tag a row"\n', encoding="utf-8")
    assert [(line, hit) for line, hit, _ in prose.found(path)] == [(2, "one tag a row"), (1, "shall")]
    assert words("```python\nshall = 1\n```\n", tmp_path) == []


def test_long_sentences_are_counted_without_tables_and_links():
    assert prose.long_sentences("word " * 35 + "end. Short.") == ["word " * 35 + "end."]
    assert prose.long_sentences("- " + "word " * 20 + "\n- " + "word " * 20) == []
