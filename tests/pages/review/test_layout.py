"""The review page for every reader: wide, narrow, dark, by screen reader."""

import io

import numpy as np
import pytest

from review_keys import forget, listed, name, press, text, wait_for


@pytest.mark.parametrize("width", [1280, 900, 390, 320])
def test_no_width_scrolls_sideways(review_browser, small_page, width):
    review_browser.open(small_page, width, 800)
    assert review_browser.run("document.documentElement.scrollWidth") == width
    small = review_browser.run(
        "Array.from(document.querySelectorAll('button, select')).filter(e => e.checkVisibility())"
        ".map(e => [e.id || e.className, Math.min(e.getBoundingClientRect().width, e.getBoundingClientRect().height)])"
        ".filter(([, size]) => size < 40)"
    )
    assert small == []
    review_browser.click("#help-button")
    assert review_browser.run(
        "document.getElementById('help').scrollWidth <= document.getElementById('help').clientWidth"
    )


def test_a_phone_opens_the_list_over_the_example(review_browser, small_page):
    forget(review_browser, small_page)
    review_browser.open(small_page, 390, 800)
    shown = "document.getElementById('list').checkVisibility()"
    assert not review_browser.run(shown)
    review_browser.click("#list-open")
    assert review_browser.run(shown)
    assert listed(review_browser) == ["one", "two", "three"]
    review_browser.click("#row-1")
    assert not review_browser.run(shown)
    assert name(review_browser) == "two"


def test_dark_mode_is_dark(review_browser, small_page):
    from PIL import Image

    levels = []
    for scheme in ("light", "dark"):
        review_browser.open(small_page, scheme=scheme)
        levels.append(np.asarray(Image.open(io.BytesIO(review_browser.picture())).convert("L")).mean())
    assert levels[0] > 200
    assert levels[1] < 60


def test_roles_and_names_for_screen_readers(opened):
    def parts():
        tree = opened.call("Accessibility.getFullAXTree")["nodes"]
        return {(node["role"]["value"], node.get("name", {}).get("value")) for node in tree if not node["ignored"]}

    # The browser makes the tree in its own time.
    wait_for(lambda: ("option", "open one night 81 % Waves at night") in parts())
    found = parts()
    assert ("listbox", "Examples") in found
    assert ("button", "Accept night, 81.0 %") in found
    assert ("group", "night") in found
    assert ("searchbox", "Search") in found
    assert ("main", "") in found
    assert opened.run("document.getElementById('list').getAttribute('aria-activedescendant')") == "row-0"
    press(opened, "j")
    assert opened.run("document.querySelector('[aria-selected=true]').id") == "row-1"
    assert text(opened, "#status") == "2 of 3: two, 2 suggestions, open"
