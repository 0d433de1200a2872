"""The review page in a real browser: decided by key and by mouse."""

from onepos.pages.decisions import read_decisions
from onepos.pages.review import write_review
from review_data import SMALL
from review_window import check_label, choices, choose, given, listed, name, progress, save, text, wait_for


def test_a_row_is_shown_with_its_given_tag_and_suggestions_most_probable_first(opened):
    assert name(opened) == "one"
    assert text(opened, "#example .text") == "Waves at night"
    assert given(opened) == ("beach", "accept")
    assert choices(opened) == {"night": "open", "dog": "open", "snow": "open"}
    shown = "document.querySelectorAll('.suggestion:not([hidden], .given) .percent')"
    rows = opened.run(f"Array.from({shown}, percent => percent.textContent)")
    assert rows == ["81 %", "62 %", "40 %"]
    assert opened.run("document.querySelectorAll('.suggestion.in-set').length") == 2
    assert text(opened, "#position") == "1 of 3"
    assert text(opened, "#progress-text") == "0 of 3 decided, 0 complete"
    opened.press("j")
    opened.press("j")
    assert given(opened) is None
    assert opened.run("document.getElementById('no-tag').checkVisibility()")


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


def test_a_accepts_what_is_suggested_and_enter_is_done(opened):
    opened.press("Shift+1")
    opened.press("a")
    assert name(opened) == "two"
    opened.press("Enter")
    assert name(opened) == "three"
    assert progress(opened) == (2, 0)
    assert opened.run("document.getElementById('progress').value") == 2
    opened.press("k")
    assert choices(opened) == {"night": "open", "beach": "open"}
    assert text(opened, "#row-state") == "✓ decided"
    opened.press("k")
    # Rejected stays rejected; below the threshold stays open.
    assert choices(opened) == {"night": "reject", "dog": "accept", "snow": "open"}
    opened.press("u")
    assert name(opened) == "two"
    assert text(opened, "#row-state") == "○ open"
    opened.press("u")
    assert name(opened) == "one"
    assert choices(opened) == {"night": "reject", "dog": "open", "snow": "open"}


def test_a_row_whose_every_suggestion_is_decided_is_decided(opened):
    for key in ("1", "Shift+2", "Shift+3"):
        assert text(opened, "#row-state") == "○ open"
        opened.press(key)
    assert text(opened, "#row-state") == "✓ decided"


def test_the_mouse_is_enough(opened):
    opened.click(".suggestion:nth-child(3) .accept")
    opened.click(".suggestion:nth-child(4) .reject")
    assert choices(opened) == {"night": "open", "dog": "accept", "snow": "reject"}
    assert opened.run("document.querySelector('.suggestion:nth-child(3) .accept').ariaPressed") == "true"
    opened.click(".suggestion:nth-child(3) .accept")
    assert choices(opened)["dog"] == "open"
    # After a click, Enter means done and not the button again.
    opened.press("Enter")
    assert name(opened) == "two"
    opened.click("#previous")
    opened.click("#reopen")
    assert text(opened, "#row-state") == "○ open"
    opened.click("#accept-all")
    assert name(opened) == "two"
    opened.click("#undo")
    assert name(opened) == "one"
    opened.click("#row-2")
    assert name(opened) == "three"
    opened.click("#done")
    assert progress(opened) == (1, 0)


def test_buttons_work_by_keyboard_and_keep_the_focus(opened):
    opened.run("document.querySelector('.suggestion:nth-child(3) .reject').focus()")
    opened.press("Enter")
    assert choices(opened)["dog"] == "reject"
    assert opened.run("document.activeElement.getAttribute('aria-label')") == "Reject dog, 62 %, suggested"
    assert opened.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    opened.press("j")
    assert opened.run("document.activeElement.id") == "row-name"


def test_a_label_that_was_not_suggested_can_be_added(opened):
    opened.press("j")
    opened.press("o")
    opened.type("snowy")
    opened.press("Enter")
    assert text(opened, "#notice") == "There is no label “snowy”."
    opened.press("Control+a")
    opened.type(" Snow")
    opened.press("Enter")
    opened.press("9")  # the field no longer takes keys
    assert text(opened, "#status") == "There is no suggestion 9."
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


def test_x_means_these_and_no_others(opened):
    opened.press("2")
    opened.press("x")
    assert name(opened) == "two"
    opened.press("k")
    assert choices(opened) == {"night": "reject", "dog": "accept", "snow": "reject"}
    assert text(opened, "#row-state") == "● complete"
    assert progress(opened) == (1, 1)
    assert text(opened, ".row[aria-selected=true] .row-outcomes").split("Waves")[0] == "beach ✓ dog ✗ night "
    # A complete row stays complete: a label is accepted or rejected, and Enter changes nothing.
    opened.press("1")
    assert choices(opened)["night"] == "accept"
    opened.press("1")
    assert choices(opened)["night"] == "reject"
    opened.press("Enter")
    assert progress(opened) == (1, 1)
    for _ in range(2):
        opened.press("u")
    assert text(opened, "#row-state") == "● complete"
    opened.press("u")
    assert choices(opened) == {"night": "open", "dog": "accept", "snow": "open"}
    opened.press("x")
    opened.press("k")
    opened.click("#reopen")
    assert choices(opened) == {"night": "open", "dog": "accept", "snow": "open"}
    assert progress(opened) == (0, 0)
    opened.click("#only")
    assert progress(opened) == (1, 1)


def test_the_given_tag_can_be_rejected(opened):
    for key in ("0", "Shift+0"):
        opened.press(key)
        assert given(opened) == ("beach", "reject")
        assert text(opened, ".row[aria-selected=true] .row-outcomes").startswith("+ night + dog ✗ beach")
        opened.press(key)
        assert given(opened) == ("beach", "accept")
    opened.click(".suggestion.given .reject")
    assert given(opened) == ("beach", "reject")
    opened.click(".suggestion.given .accept")
    assert given(opened) == ("beach", "accept")
    opened.press("Enter")
    opened.press("j")
    opened.press("0")
    assert text(opened, "#status") == "This row has no given tag."


def test_a_row_may_come_with_several_tags(browser, tmp_path):
    path = write_review(tmp_path / "page.html", **SMALL | {"observed": [["beach", "snow"], "dog", None]})
    browser.open(path)
    names, keys = (f"Array.from(document.querySelectorAll('{one}'), e => e.textContent)" for one in
                   (".suggestion.given .name", ".suggestion:not([hidden]) kbd"))  # fmt: skip
    assert browser.run(names) == ["beach", "snow"]
    assert browser.run(keys) == ["0", "", "1", "2"]
    browser.press("2")
    browser.press("0")
    browser.click(".suggestion:nth-child(2) .reject")
    browser.press("x")
    browser.press("k")
    outcomes = text(browser, ".row[aria-selected=true] .row-outcomes").split("Waves")[0]
    assert outcomes == "✓ dog ✗ beach ✗ snow ✗ night "
    assert read_decisions(save(browser, tmp_path))["decision"].tolist() == ["accept", "reject", "reject", "complete"]
    assert browser.complaints == []


def test_one_label_is_checked_in_all_rows(opened):
    opened.press("y")
    assert text(opened, "#status") == "Choose a label to check first."
    check_label(opened, "night")  # 81 %, 70 %, 5 %
    assert listed(opened) == ["one", "two", "three"]
    assert text(opened, "#question") == "Does night apply?"
    assert not opened.run("document.getElementById('done').checkVisibility()")
    opened.press("y")
    assert name(opened) == "two"
    opened.press("n")
    assert name(opened) == "three"
    shown = "Array.from(document.querySelectorAll('.row-outcomes'), e => e.firstChild.textContent)"
    assert opened.run(shown) == ["✓ 81 %", "✗ 70 %", "5 %"]
    choose(opened, "state", "open")
    assert listed(opened) == ["three"]
    opened.click("#no")
    assert listed(opened) == []
    opened.press("u")
    assert listed(opened) == ["three"]
    opened.click("#reset")
    assert opened.run("document.getElementById('done').checkVisibility()")
    opened.press("Home")
    opened.press("k")
    assert choices(opened) == {"night": "reject", "beach": "open"}


def test_a_label_is_accepted_in_many_rows_at_once_and_the_button_says_in_how_many(opened):
    check_label(opened, "night")
    assert text(opened, "#bulk") == "Accept “night” in 3 open rows listed"
    opened.press("n")
    assert text(opened, "#bulk") == "Accept “night” in 2 open rows listed"
    choose(opened, "from", 60)
    assert text(opened, "#from-text") == "60 %"
    assert text(opened, "#bulk") == "Accept “night” in 1 open row listed"
    opened.click("#bulk")
    assert text(opened, "#notice") == "“night” accepted in 1 row. Undo takes all of it back."
    assert opened.run("document.getElementById('bulk').disabled")
    opened.click("#reset")
    for row, choice in (("#row-0", "reject"), ("#row-1", "accept"), ("#row-2", "open")):
        opened.click(row)
        assert choices(opened)["night"] == choice
    opened.press("u")
    assert (name(opened), choices(opened)["night"]) == ("two", "open")
