"""The review page in a real browser: decided by key and by mouse."""

from review_data import LABELS
from review_window import choices, choose, listed, name, text, wait_for


def test_an_example_is_shown_with_its_given_label_and_suggestions_surest_first(opened):
    assert name(opened) == "one"
    assert text(opened, "#example .text") == "Waves at night"
    assert text(opened, "#given") == "● given beach"
    assert choices(opened) == {"night": "open", "dog": "open", "snow": "open"}
    shown = "document.querySelectorAll('.suggestion:not([hidden]) .percent')"
    rows = opened.run(f"Array.from({shown}, percent => percent.textContent)")
    assert rows == ["81 %", "62 %", "40 %"]
    assert opened.run("document.querySelectorAll('.suggestion.in-set').length") == 2
    assert text(opened, "#position") == "1 of 3"
    assert text(opened, "#progress-text") == "0 of 3 decided"
    opened.press("j")
    opened.press("j")
    assert text(opened, "#given") == "No label was given."


def test_keys_move_accept_reject_and_take_back(opened):
    for key, expected in (
        ("j", "two"),
        ("ArrowDown", "three"),
        ("j", "three"),
        ("k", "two"),
        ("ArrowUp", "one"),
        ("k", "one"),
    ):
        opened.press(key)
        assert name(opened) == expected
    opened.press("1")
    opened.press("Shift+2")
    assert choices(opened) == {"night": "accept", "dog": "reject", "snow": "open"}
    assert text(opened, "#status") == "dog: rejected"
    opened.press("2")
    assert choices(opened)["dog"] == "accept"
    opened.press("2")
    assert choices(opened)["dog"] == "open"
    opened.press("9")
    assert text(opened, "#status") == "There is no suggestion 9."
    for expected in ("accept", "reject", "open"):
        opened.press("u")
        assert choices(opened)["dog"] == expected
    opened.press("u")
    assert set(choices(opened).values()) == {"open"}
    opened.press("u")
    assert text(opened, "#status") == "Nothing to undo."


def test_a_accepts_the_set_and_enter_is_done(opened):
    opened.press("Shift+1")
    opened.press("a")
    assert name(opened) == "two"
    opened.press("Enter")
    assert name(opened) == "three"
    assert text(opened, "#progress-text") == "2 of 3 decided"
    assert opened.run("document.getElementById('progress').value") == 2
    opened.press("k")
    assert choices(opened) == {"night": "open", "beach": "open"}
    assert text(opened, "#example-state") == "✓ decided"
    opened.press("k")
    # Rejected stays rejected; below the threshold stays open.
    assert choices(opened) == {"night": "reject", "dog": "accept", "snow": "open"}
    opened.press("u")
    assert name(opened) == "two"
    assert text(opened, "#example-state") == "○ open"
    opened.press("u")
    assert name(opened) == "one"
    assert choices(opened) == {"night": "reject", "dog": "open", "snow": "open"}


def test_an_example_whose_every_suggestion_is_decided_is_decided(opened):
    for key in ("1", "Shift+2", "Shift+3"):
        assert text(opened, "#example-state") == "○ open"
        opened.press(key)
    assert text(opened, "#example-state") == "✓ decided"


def test_the_mouse_is_enough(opened):
    opened.click(".suggestion:nth-child(2) .accept")
    opened.click(".suggestion:nth-child(3) .reject")
    assert choices(opened) == {"night": "open", "dog": "accept", "snow": "reject"}
    assert opened.run("document.querySelector('.suggestion:nth-child(2) .accept').ariaPressed") == "true"
    opened.click(".suggestion:nth-child(2) .accept")
    assert choices(opened)["dog"] == "open"
    # After a click, Enter means done and not the button again.
    opened.press("Enter")
    assert name(opened) == "two"
    opened.click("#previous")
    opened.click("#reopen")
    assert text(opened, "#example-state") == "○ open"
    opened.click("#accept-all")
    assert name(opened) == "two"
    opened.click("#undo")
    assert name(opened) == "one"
    opened.click("#row-2")
    assert name(opened) == "three"
    opened.click("#done")
    assert text(opened, "#progress-text") == "1 of 3 decided"


def test_buttons_work_by_keyboard_and_keep_the_focus(opened):
    opened.run("document.querySelector('.suggestion:nth-child(2) .reject').focus()")
    opened.press("Enter")
    assert choices(opened)["dog"] == "reject"
    assert opened.run("document.activeElement.getAttribute('aria-label')") == "Reject dog, 62 %, in the set"
    assert opened.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    opened.press("j")
    assert opened.run("document.activeElement.id") == "example-name"


def test_a_label_that_was_not_suggested_can_be_added(opened):
    opened.press("j")
    options = opened.run("Array.from(document.getElementById('add').options).filter(o => !o.hidden).map(o => o.text)")
    assert options == ["choose…", "snow"]
    choose(opened, "add", LABELS.index("snow"))
    assert choices(opened) == {"night": "open", "beach": "open", "snow": "accept"}
    opened.press("Shift+3")
    assert choices(opened)["snow"] == "reject"


def test_help_and_search_by_key(opened):
    opened.press("Shift+?")
    assert opened.run("document.getElementById('help').open")
    opened.press("1")
    opened.press("Escape")
    assert not opened.run("document.getElementById('help').open")
    assert set(choices(opened).values()) == {"open"}
    opened.press("/")
    assert opened.run("document.activeElement.id") == "search"
    opened.type("SLEEPS dog")
    wait_for(lambda: listed(opened) == ["two"])
    opened.press("Escape")
    assert name(opened) == "two"
    opened.press("1")
    assert choices(opened)["night"] == "accept"


def test_single_keys_can_be_switched_off(opened, small_page):
    opened.press("Shift+?")
    opened.click("#keys-on")
    opened.press("Escape")
    opened.press("1")
    opened.press("j")
    assert name(opened) == "one"
    assert choices(opened)["night"] == "open"
    opened.press("ArrowDown")
    assert name(opened) == "two"
    opened.open(small_page)
    opened.press("j")
    assert name(opened) == "one"
