"""The list of the review page: filtered, sorted, long."""

import json

from onepos.pages.review import write_review
from review_data import LABELS, large
from review_window import choose, listed, name, text


def test_filters_and_orders(opened):
    assert listed(opened) == ["one", "two", "three"]
    choose(opened, "sort", "uncertainty")  # distances 0.10, 0.05, 0.20
    assert listed(opened) == ["two", "one", "three"]
    choose(opened, "sort", "confidence")  # best suggestions 0.81, 0.70, 0.30
    assert listed(opened) == ["one", "two", "three"]
    choose(opened, "label", LABELS.index("beach"))  # suggested for two (0.45) and three (0.02)
    assert listed(opened) == ["two", "three"]
    assert text(opened, "#count") == "2 of 3 examples listed"
    choose(opened, "sort", "uncertainty")
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
    assert text(browser, "#example-name") == "example-00000"
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
