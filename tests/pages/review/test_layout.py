"""The review page for every reader: wide, narrow, dark, by screen reader."""

import io

import numpy as np
import pytest

from review_window import listed, name, text


@pytest.mark.parametrize("width", [1280, 900, 390, 320])
def test_no_width_scrolls_sideways(browser, small_page, width):
    browser.open(small_page, width, 800)
    assert browser.run("document.documentElement.scrollWidth") == width
    small = browser.run(
        "Array.from(document.querySelectorAll('button, select')).filter(e => e.checkVisibility())"
        ".map(e => [e.id || e.className, Math.min(e.getBoundingClientRect().width, e.getBoundingClientRect().height)])"
        ".filter(([, size]) => size < 40)"
    )
    assert small == []
    browser.click("#help-button")
    assert browser.run("document.getElementById('help').scrollWidth <= document.getElementById('help').clientWidth")


def test_a_phone_opens_the_list_over_the_row(browser, small_page):
    browser.open(small_page, 390, 800)
    shown = "document.getElementById('list').checkVisibility()"
    assert not browser.run(shown)
    browser.click("#list-open")
    assert browser.run(shown)
    assert listed(browser) == ["one", "two", "three"]
    browser.click("#row-1")
    assert not browser.run(shown)
    assert name(browser) == "two"


def test_dark_mode_is_dark(browser, small_page):
    from PIL import Image

    levels = []
    for scheme in ("light", "dark"):
        browser.open(small_page, scheme=scheme)
        levels.append(np.asarray(Image.open(io.BytesIO(browser.page.screenshot())).convert("L")).mean())
    assert levels[0] > 200
    assert levels[1] < 60


def test_roles_and_names_for_screen_readers(opened):
    for role, label in (
        ("option", "open one beach + night + dog Waves at night"),
        ("listbox", "Rows"),
        ("button", "Accept night, 81 %, suggested"),
        ("group", "night"),
        ("searchbox", "Search"),
        ("main", None),
    ):
        found = opened.page.get_by_role(role, name=label, exact=True) if label else opened.page.get_by_role(role)
        assert found.count() == 1, (role, label)
    assert opened.run("document.getElementById('list').getAttribute('aria-activedescendant')") == "row-0"
    opened.press("j")
    assert opened.run("document.querySelector('[aria-selected=true]').id") == "row-1"
    assert text(opened, "#status") == "2 of 3: two, 2 suggestions, open"
