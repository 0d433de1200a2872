"""Whatever the data say, the review page shows text, runs nothing of it and asks for nothing."""

import json

from hostile_texts import INJECTIONS, write_hostile_review
from onepos.pages.review import write_review
from review_data import SMALL
from review_window import choices, choose, given, text, wait_for


def test_markup_and_script_in_any_place_are_text(browser, tmp_path):
    path = write_hostile_review(tmp_path / "nasty.html")
    assert browser.open(path) == []
    assert browser.run("document.title") == INJECTIONS[1]
    choose(browser, "sort", "order")
    browser.run("document.getElementById('list').focus()")
    browser.press("Home")
    # Suggestions are stored up to the twentieth, so all others are on show.
    for place, injection in enumerate(INJECTIONS):
        assert text(browser, "#row-name") == injection
        assert text(browser, "#example .text") == injection
        assert given(browser) == (injection, "accept")
        assert sorted(choices(browser)) == sorted(INJECTIONS[:place] + INJECTIONS[place + 1 :])
        names = "Array.from(document.querySelectorAll('.features th'), e => e.textContent)"
        assert browser.run(names) == INJECTIONS
        browser.press("1")
        browser.press("Enter")
    assert browser.run("typeof hacked") == "undefined"
    assert browser.run("document.scripts.length") == 2
    assert browser.run("document.querySelectorAll('iframe, #pane svg, #pane img, #list img').length") == 0
    assert browser.complaints == []
    assert browser.foreign_requests(path) == []


def test_the_policy_stops_what_the_page_does_not_do(browser, small_page):
    browser.open(small_page)
    browser.run(
        "window.stopped = new Promise(done =>"
        " document.addEventListener('securitypolicyviolation', e => done(e.effectiveDirective)));"
        "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/a.png'}))"
    )
    assert browser.run("stopped") == "img-src"
    answer = browser.run(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done' } catch (e) { return e.name } })()"
    )
    assert answer == "TypeError"


def test_pictures_by_path_and_inside(browser, tmp_path):
    from PIL import Image

    Image.new("RGB", (40, 30), "red").save(tmp_path / "a #1.png")
    inside = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    path = write_review(tmp_path / "p.html", **SMALL | {"images": ["a #1.png", inside, "gone.png"], "texts": None})
    assert browser.open(path) == [(tmp_path / "a #1.png").as_uri()]
    loaded = "document.querySelector('#example img').naturalWidth"
    wait_for(lambda: browser.run(loaded) == 40)
    # Enlarged, it fills the window, and other keys still work.
    size = "JSON.stringify(document.querySelector('.picture').getBoundingClientRect())"
    narrow = json.loads(browser.run(size))["height"]
    for close in ("z", "Escape"):
        browser.press("z")
        box = json.loads(browser.run(size))
        assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 1200, 900)
        browser.press(close)
        assert json.loads(browser.run(size))["height"] == narrow
    browser.click(".picture")
    browser.press("x")
    assert json.loads(browser.run(size))["width"] == 1200
    browser.press("k")
    browser.press("z")
    assert text(browser, "#row-state") == "● complete"
    browser.press("j")
    wait_for(lambda: browser.run(loaded) == 1)
    browser.press("j")
    wait_for(lambda: "could not be shown: gone.png" in text(browser, "#example"))
