"""The list of the review page: filtered, sorted, long."""

import json

import numpy as np

from onepos.pages.review import write_review
from review_data import LABELS, SMALL, large
from review_window import choices, choose, listed, name, text, wait_for


def test_filters_and_orders(opened):
    assert listed(opened) == ["one", "two", "three"]
    choose(opened, "label", LABELS.index("beach"))  # 45 % for two, 2 % for three
    assert listed(opened) == ["two", "three"]
    assert text(opened, "#count") == "2 of 3 rows listed"
    choose(opened, "from", 40)
    assert listed(opened) == ["two"]
    opened.click("#reset")
    assert listed(opened) == ["one", "two", "three"]
    opened.press("x")
    choose(opened, "state", "complete")
    assert listed(opened) == ["two"]
    names = opened.run("Array.from(document.getElementById('label').options, o => o.text)")
    assert names == ["no: all labels of a row", "beach (2)", "dog (2)", "night (3)", "snow (2)"]


def test_rows_with_something_to_accept_come_first_and_the_order_of_the_table_can_be_chosen(browser, tmp_path):
    probabilities = np.array([[0.9, 0.49, 0.01], [0.9, 0.6, 0.5], [0.9, 0.7, 0.05]])
    path = write_review(
        tmp_path / "page.html",
        ids=["nothing", "likely", "likeliest"],
        observed=["a"] * 3,
        labels=["a", "b", "c"],
        probabilities=probabilities,
    )
    browser.open(path)
    assert (name(browser), listed(browser)) == ("likeliest", ["likeliest", "likely", "nothing"])
    choose(browser, "sort", "order")
    assert listed(browser) == ["nothing", "likely", "likeliest"]
    assert browser.complaints == []


def test_rows_that_were_asked_for_come_in_their_order(browser, tmp_path):
    path = write_review(tmp_path / "page.html", only=["three", "one"], **SMALL)
    browser.open(path)
    assert listed(browser) == ["three", "one"]
    assert text(browser, "#sort option:checked") == "as asked"
    assert text(browser, "#example .text") == "Nothing much"
    choose(browser, "sort", "accept")
    assert listed(browser) == ["one", "three"]
    assert browser.complaints == []


def test_titles_are_headings_and_ids_stay_beside_them(browser, tmp_path):
    path = write_review(tmp_path / "page.html", titles=["Night swim", "Asleep", ""], **SMALL)
    browser.open(path)
    assert (name(browser), text(browser, "#row-id")) == ("Night swim", "one")
    assert listed(browser) == ["Night swim", "Asleep", "three"]  # without a title the id is the heading
    choose(browser, "search", "asleep")
    wait_for(lambda: listed(browser) == ["Asleep"])
    assert browser.complaints == []


def test_suggested_labels_are_marked(browser, tmp_path):
    """The sets given count, not the threshold: snow of "one" is below it, night of "two" above."""
    path = write_review(tmp_path / "page.html", sets=[[1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]], **SMALL)
    browser.open(path)
    marked = "Array.from(document.querySelectorAll('.in-set:not([hidden]) .name'), e => e.textContent)"
    assert browser.run(marked) == ["night", "snow"]
    assert text(browser, "#accept-all-text") == "Accept 2 suggested, next"
    assert text(browser, ".row[aria-selected=true] .row-outcomes") == "beach + night + snow Waves at night"
    choose(browser, "sort", "order")
    browser.press("j")
    assert text(browser, "#accept-all-text") == "Nothing to accept, next"
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
    assert (name(opened), listed(opened)) == ("No row matches", [])
    assert text(opened, "#empty-text") == "Every row is decided. Save the decisions."
    opened.press("1")
    opened.press("u")
    assert (name(opened), listed(opened)) == ("two", ["two"])
    choose(opened, "state", "decided")
    assert listed(opened) == ["one", "three"]


def test_twenty_thousand_rows_keep_few_elements(browser, tmp_path):
    path = write_review(tmp_path / "large.html", **large(20_000, 20))
    assert browser.open(path) == []
    choose(browser, "sort", "order")
    assert text(browser, "#count") == "20,000 of 20,000 rows listed"
    assert browser.run("document.querySelectorAll('.row').length") < 60
    ready = browser.run("performance.getEntriesByName('review-ready')[0].startTime")
    browser.run("document.getElementById('list').focus()")
    browser.press("End")
    assert text(browser, "#row-name") == "example-19999"
    assert listed(browser)[-1] == "example-19999"
    taken = browser.run(
        "(() => { const start = performance.now();"
        " document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', code: 'KeyK'}));"
        " document.body.offsetHeight; return performance.now() - start; })()"
    )
    assert text(browser, "#row-name") == "example-19998"
    assert browser.complaints == []
    print(json.dumps({"ready_ms": round(ready), "key_ms": round(taken, 1)}))  # noqa: T201
