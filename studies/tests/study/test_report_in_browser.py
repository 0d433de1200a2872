"""The study's page in a real browser: it loads nothing and reads well on a phone, in the dark and on paper."""

import http.server
import io
import json
import threading

import numpy as np
import pytest

from study_frame import NASTY, nasty_frame, nasty_page


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
    assert opened.run("document.scripts.length") == 0
    assert opened.run("document.title") == "Study made-up"
    assert NASTY in opened.run("document.body.innerText")
    assert opened.run("document.querySelectorAll('figure svg').length") == 2


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
    assert len(texts(browser, "table")) == browser.run("document.querySelectorAll('table').length") > 0
    assert texts(browser, "button, select, input") == []
