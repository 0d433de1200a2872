"""The study's page in a real browser: sorted, filtered and read by mouse and keyboard, loading nothing."""

import http.server
import io
import itertools
import json
import threading

import numpy as np
import pytest

from study_frame import NASTY, nasty_frame, nasty_page

SHOWN = ".study-table:not([hidden])"


@pytest.fixture(scope="module")
def frame():
    return nasty_frame()


@pytest.fixture(scope="module")
def page(frame):
    return nasty_page(frame)


@pytest.fixture(scope="module")
def path(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "study.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, path):
    """The page, newly opened; what a test does to it must bring no complaint and no request."""
    assert browser.open(path) == []
    yield browser
    assert browser.complaints == []
    assert browser.foreign_requests(path) == []


def texts(browser, selector):
    """The first line of each visible element that matches."""
    return browser.run(
        f"Array.from(document.querySelectorAll({json.dumps(selector)})).filter(e => e.checkVisibility())"
        ".map(e => e.innerText.trim().split('\\n')[0])"
    )


def datasets(browser):
    return texts(browser, f"{SHOWN} tbody th")


def focus(browser, selector):
    browser.run(f"document.querySelector({json.dumps(selector)}).focus()")


@pytest.fixture
def server():
    """Somewhere to send a request to, and who came."""
    visits = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            visits.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", visits
        server.shutdown()
        thread.join()


def test_nothing_is_loaded_nothing_complains_and_nothing_from_the_results_runs(opened):
    assert opened.run("document.scripts.length") == 1
    assert opened.run("document.title") == f"A study {NASTY}"
    assert opened.run("document.querySelectorAll('figure svg').length") == 2
    assert opened.run("document.querySelectorAll('#cells tbody').length") == 103


def test_the_policy_stops_requests_and_the_checks_can_fail(browser, path, server, tmp_path):
    address, visits = server
    loud = f"<img src='{address}/left'><script>console.error('no')</script>"
    broken = tmp_path / "broken.html"
    broken.write_text(f"<!DOCTYPE html>{loud}", encoding="utf-8")
    assert browser.open(broken) == [f"{address}/left"]
    assert visits == ["/left"]
    assert any("error" in complaint for complaint in browser.complaints)

    browser.open(path)
    browser.run(
        "window.stopped = new Promise(done =>"
        " document.addEventListener('securitypolicyviolation', e => done(e.blockedURI)));"
        f"document.body.insertAdjacentHTML('beforeend', \"<img src='{address}/stopped'>\")"
    )
    assert browser.run("stopped").startswith(address)
    assert visits == ["/left"]


def test_a_click_on_a_header_sorts_up_down_and_back(opened):
    assert datasets(opened) == ["yeast", "scene", "CAL500"]
    # By hand: levels fall by 0.05 from yeast to scene to CAL500, and Forest has no result on CAL500.
    header = f"{SHOWN} th[data-method=forest]"
    seen = []
    for _ in range(3):
        opened.click(f"{header} button")
        seen.append((opened.run(f"document.querySelector('{header}').ariaSort"), datasets(opened)))
    assert seen == [
        ("ascending", ["scene", "yeast", "CAL500"]),
        ("descending", ["yeast", "scene", "CAL500"]),
        ("none", ["yeast", "scene", "CAL500"]),
    ]
    opened.click(f"{header} button")
    opened.click(f"{SHOWN} th[data-method=smile] button")
    sorts = opened.run(f"Array.from(document.querySelectorAll('{SHOWN} thead th'), h => h.ariaSort)")
    assert sorts == ["none", "ascending", *["none"] * 6]
    assert opened.run("document.getElementById('result-status').textContent") == "Sorted by SMILE, ascending."
    # The average rank is no data set: it stays below.
    assert opened.run(f"document.querySelector('{SHOWN} table').lastElementChild.tagName") == "TFOOT"


def test_the_keyboard_alone_is_enough(opened):
    opened.press("Tab")
    assert opened.run("document.activeElement.className") == "skip"
    assert opened.run("document.activeElement.getBoundingClientRect().top >= 0")
    opened.press("Enter")
    assert opened.run("location.hash") == "#results"
    for count in itertools.count():
        opened.press("Tab")
        assert opened.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if opened.run("document.activeElement.matches('th button')"):
            break
        assert count < 30
    header = f"{SHOWN} thead th"
    for key, direction, expected in (
        ("Enter", "ascending", ["CAL500", "scene", "yeast"]),
        ("Space", "descending", ["yeast", "scene", "CAL500"]),
    ):
        opened.press(key)
        assert opened.run(f"document.querySelector('{header}').ariaSort") == direction
        assert datasets(opened) == expected
    assert opened.run("document.activeElement.textContent") == "Data set"

    focus(opened, "input[name=metric]")
    opened.press("ArrowRight")
    assert texts(opened, "#results h3")[0].startswith("One-error ↓")
    focus(opened, "#cells summary")
    opened.press("Enter")
    assert opened.run("document.querySelector('#cells details').open")


def test_measure_and_selection_rule_can_be_switched(opened):
    for metric, selection in itertools.product(("average_precision", "hamming_loss"), ("clean", "single-positive")):
        opened.click(f"input[value={metric}]")
        opened.click(f"input[value={selection}]")
        shown = opened.run(
            "Array.from(document.querySelectorAll('.study-table')).filter(t => t.checkVisibility())"
            ".map(t => [t.dataset.metric, t.dataset.selection])"
        )
        assert shown == [[metric, selection]]
        rules = opened.run("Array.from(document.querySelectorAll('[data-rule]:not([hidden])'), e => e.dataset.rule)")
        assert set(rules) == {selection}


def test_rows_and_columns_can_be_chosen(opened):
    focus(opened, "#result-filter")
    opened.type("C")
    assert datasets(opened) == ["scene", "CAL500"]
    opened.type("AL")
    assert datasets(opened) == ["CAL500"]
    assert opened.run("document.getElementById('result-status').textContent") == "1 of 3 rows shown."
    opened.click("input[value=one_error]")
    assert datasets(opened) == ["CAL500"]

    names = ["Data set", "SMILE", "ROLE", "AN", "Forest", "Frequency", "Full supervision", NASTY]
    assert texts(opened, f"{SHOWN} thead th") == names
    focus(opened, "input[name=method][value=an]")
    opened.press("Space")
    assert texts(opened, f"{SHOWN} thead th") == names[:3] + names[4:]
    assert len(texts(opened, f"{SHOWN} tfoot td")) == len(texts(opened, f"{SHOWN} tbody tr:not([hidden]) td")) == 6
    opened.click("[data-check=none]")
    assert texts(opened, f"{SHOWN} thead th") == names[:1]
    opened.click("[data-check=all]")
    assert texts(opened, f"{SHOWN} thead th") == names


def test_cells_can_be_sorted_and_filtered(opened):
    rows = "#cells tbody:not([hidden])"
    column = "#cells tbody:not([hidden]) tr:first-child > :nth-child({})"
    assert texts(opened, column.format(6))[:3] == ["✗ failed", "✗ failed", "ok"]
    opened.click("#cells thead th:nth-child(7) button")
    values = texts(opened, column.format(7))
    assert values[-2:] == ["–", "–"]
    assert [float(value) for value in values[:-2]] == sorted(float(value) for value in values[:-2])

    focus(opened, "#cell-filter")
    opened.type("traceback")
    assert texts(opened, rows) == []
    opened.run("document.getElementById('cell-filter').value = ''")
    opened.type("scene runtimeerror")
    assert texts(opened, column.format(2)) == ["ROLE"]
    assert opened.run("document.getElementById('cell-status').textContent") == "1 of 103 cells shown."
    opened.run("document.getElementById('cell-filter').select()")
    opened.type("smile")
    assert len(texts(opened, rows)) == 18
    focus(opened, "#cells select")
    opened.press("ArrowDown")
    assert set(texts(opened, column.format(1))) == {"CAL500"}
    assert len(texts(opened, rows)) == 6


@pytest.mark.parametrize("script", [True, False])
def test_a_phone_never_scrolls_sideways_but_inside_a_table(browser, path, script):
    browser.open(path, 360, 740, script=script)
    # Also with everything open that can be opened.
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") == 360
    assert browser.run("window.scrollTo(500, 0), window.scrollX") == 0
    assert browser.run("Array.from(document.querySelectorAll('.scroll')).some(s => s.scrollWidth > s.clientWidth)")


def test_dark_mode_is_dark_and_the_drawings_follow(browser, path):
    from PIL import Image

    pictures, inks = [], []
    for scheme in ("light", "dark"):
        browser.open(path, scheme=scheme)
        pictures.append(np.asarray(Image.open(io.BytesIO(browser.page.screenshot())).convert("L")).mean())
        inks.append(browser.run("getComputedStyle(document.querySelector('figure svg text')).fill"))
    assert pictures[0] > 200
    assert pictures[1] < 60
    assert inks == ["rgb(29, 33, 38)", "rgb(232, 230, 227)"]


@pytest.mark.parametrize(("script", "media"), [(False, None), (True, "print")])
def test_without_script_and_on_paper_every_table_is_there_and_no_control(browser, path, script, media):
    browser.open(path, script=script, media=media)
    assert len(texts(browser, ".study-table")) == 10
    assert texts(browser, ".controls") == []
    assert len(texts(browser, "#cells tbody")) == 103
