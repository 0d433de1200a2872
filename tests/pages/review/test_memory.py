"""What the review page remembers, and that it is its own."""

import json

from onepos.pages.review import write_review
from review_data import SMALL
from review_window import choices, name, progress, text


def test_decisions_survive_a_reload_and_do_not_mix_with_other_data(opened, small_page, tmp_path):
    opened.press("1")
    opened.press("Shift+2")
    opened.press("Enter")
    opened.press("Shift+1")
    assert opened.open(small_page) == []
    assert name(opened) == "two"  # the first that is open
    assert choices(opened) == {"night": "reject", "beach": "open"}
    opened.press("k")
    assert choices(opened) == {"night": "accept", "dog": "reject", "snow": "open"}
    assert progress(opened) == (1, 0)

    other = write_review(tmp_path / "other.html", **SMALL | {"texts": ["a", "b", "c"]})
    opened.open(other)
    assert progress(opened) == (0, 0)
    assert set(choices(opened).values()) == {"open"}
    opened.open(small_page)
    assert progress(opened) == (1, 0)


def test_a_broken_entry_of_the_storage_is_ignored(opened, small_page):
    opened.press("Enter")
    opened.run("Object.keys(localStorage).forEach(key => localStorage.setItem(key, '<broken>'))")
    opened.open(small_page)
    assert progress(opened) == (0, 0)


def test_a_browser_that_keeps_nothing_says_so(opened):
    opened.run("(() => { Storage.prototype.setItem = () => { throw new Error('full'); }; })()")
    opened.press("1")
    assert choices(opened)["night"] == "accept"
    assert opened.run("document.getElementById('notice').checkVisibility()")
    assert "does not keep decisions" in text(opened, "#notice")


def test_another_window_with_the_same_page_is_followed(opened):
    opened.press("1")
    key = opened.run("Object.keys(localStorage)[0]")
    opened.run(f"dispatchEvent(new StorageEvent('storage', {{key: {json.dumps(key)}, newValue: 'd1-'}}))")
    assert choices(opened) == {"night": "open", "dog": "reject", "snow": "open"}
    assert progress(opened) == (1, 0)


def test_all_decisions_can_be_forgotten_and_brought_back(opened):
    opened.press("a")
    opened.press("a")
    opened.press("?")
    opened.click("#forget")
    assert progress(opened) == (0, 0)
    assert opened.run("localStorage.length") == 0
    opened.press("u")
    assert progress(opened) == (2, 0)
