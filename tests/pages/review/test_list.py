"""The list of the review page: filtered, sorted, long."""

import json

import numpy as np

from onepos.pages.review import write_review
from review_data import LABELS, SMALL, large
from review_window import choices, choose, listed, name, text, wait_for


def test_filters_and_orders(opened):
    assert listed(opened) == ["one", "two", "three"]
    choose(opened, "sort", "confidence")  # best suggestions 0.81, 0.70, 0.20
    assert listed(opened) == ["one", "two", "three"]
    choose(opened, "label", LABELS.index("beach"))  # suggested for two (0.45) and three (0.02)
    assert listed(opened) == ["two", "three"]
    assert text(opened, "#count") == "2 of 3 examples listed"
    choose(opened, "sort", "worth")  # of this label, distances 0.05 and 0.48
    assert listed(opened) == ["two", "three"]
    choose(opened, "to", 40)
    assert listed(opened) == ["three"]
    assert text(opened, "#range-text") == "0–40 %"
    opened.run("document.getElementById('filters').open = true")
    opened.click("#reset")
    assert listed(opened) == ["one", "two", "three"]
    choose(opened, "from", 75)
    assert listed(opened) == ["one"]
    names = opened.run("Array.from(document.getElementById('label').options, o => o.text)")
    assert names == ["any", "beach (2)", "dog (2)", "night (3)", "snow (2)"]


def test_the_most_informative_example_comes_first_and_the_order_of_the_table_can_be_chosen(browser, tmp_path):
    probabilities = np.array([[0.9, 0.99, 0.01], [0.9, 0.5, 0.5], [0.9, 0.7, 0.05]])
    path = write_review(
        tmp_path / "page.html",
        ids=["sure", "unsure", "between"],
        observed=["a"] * 3,
        labels=["a", "b", "c"],
        probabilities=probabilities,
    )
    browser.open(path)
    assert (name(browser), listed(browser)) == ("unsure", ["unsure", "between", "sure"])
    choose(browser, "sort", "order")
    assert listed(browser) == ["sure", "unsure", "between"]
    choose(browser, "sort", "confidence")
    assert listed(browser) == ["sure", "between", "unsure"]
    assert browser.complaints == []


def test_titles_are_headings_and_ids_stay_beside_them(browser, tmp_path):
    path = write_review(tmp_path / "page.html", titles=["Night swim", "Asleep", ""], **SMALL)
    browser.open(path)
    assert (name(browser), text(browser, "#example-id")) == ("Night swim", "one")
    assert listed(browser) == ["Night swim", "Asleep", "three"]  # without a title the id is the heading
    choose(browser, "search", "asleep")
    wait_for(lambda: listed(browser) == ["Asleep"])
    assert browser.complaints == []


def test_labels_in_the_set_are_marked(browser, tmp_path):
    """The sets given count, not the threshold: snow of "one" is below it, night of "two" above."""
    path = write_review(tmp_path / "page.html", sets=[[1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]], **SMALL)
    browser.open(path)
    shown = "Array.from(document.querySelectorAll('.set-mark'), e => e.closest('li')).filter(e => e && e.offsetHeight)"
    marked = (
        f"{shown}.filter(e => e.querySelector('.set-mark').offsetHeight).map(e => e.querySelector('.name').textContent)"
    )
    assert browser.run(marked) == ["night", "snow"]
    assert text(browser, "#accept-all-text") == "Accept set (2), next"
    assert text(browser, ".row[aria-selected=true] .row-set") == "+ night  + snow"
    browser.press("j")
    assert browser.run(marked) == []
    browser.press("k")
    browser.press("a")
    browser.press("k")
    assert choices(browser) == {"night": "accept", "dog": "open", "snow": "accept"}


def test_what_is_decided_leaves_the_list_of_open_ones_when_one_goes_on(opened):
    choose(opened, "state", "open")
    for key in ("1", "2", "3"):
        opened.press(key)
    assert listed(opened) == ["one", "two", "three"]
    opened.press("Enter")
    assert (name(opened), listed(opened)) == ("two", ["two", "three"])
    opened.press("j")
    opened.press("Enter")
    assert (name(opened), listed(opened)) == ("two", ["two"])
    opened.press("a")
    assert (name(opened), listed(opened)) == ("No example matches", [])
    assert text(opened, "#example") == "Every example is decided. Save the decisions as CSV."
    opened.press("1")
    opened.press("u")
    assert (name(opened), listed(opened)) == ("two", ["two"])
    choose(opened, "state", "decided")
    assert listed(opened) == ["one", "three"]


def test_five_thousand_examples_keep_few_elements(browser, tmp_path):
    path = write_review(tmp_path / "large.html", **large())
    assert browser.open(path) == []
    choose(browser, "sort", "order")
    assert text(browser, "#count") == "5,000 of 5,000 examples listed"
    assert browser.run("document.querySelectorAll('.row').length") < 60
    ready = browser.run("performance.getEntriesByName('review-ready')[0].startTime")
    browser.run("document.getElementById('list').focus()")
    browser.press("End")
    assert text(browser, "#example-name") == "example-04999"
    assert listed(browser)[-1] == "example-04999"
    taken = browser.run(
        "(() => { const start = performance.now();"
        " document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', code: 'KeyK'}));"
        " document.body.offsetHeight; return performance.now() - start; })()"
    )
    assert text(browser, "#example-name") == "example-04998"
    assert browser.complaints == []
    print(json.dumps({"ready_ms": round(ready), "key_ms": round(taken, 1)}))  # noqa: T201
