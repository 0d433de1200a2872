"""The model's page in a real browser: sorted and filtered by mouse and keyboard, loading nothing, wide and narrow."""

import pytest

from model_page_data import LABELS, NASTY, nasty_model, nasty_texts
from onepos.doctor import diagnose
from onepos.pages import model_report


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page with observed labels, one with complete labels."""
    folder = tmp_path_factory.mktemp("pages")
    model, data, observed = nasty_model()
    options = {"texts": nasty_texts(240), "title": f"Model {NASTY}"}
    model_report(model, data.X, observed, folder / "observed.html", diagnosis=diagnose(data.X, observed), **options)
    model_report(model, data.X, data.Y, folder / "complete.html", complete=True, **options)
    return folder


@pytest.fixture
def opened(browser, pages):
    path = pages / "complete.html"
    assert browser.open(path) == []
    yield browser
    assert browser.complaints == []
    assert browser.foreign_requests(path) == []


def names(browser):
    return browser.run(
        "Array.from(document.querySelectorAll('.labels tbody th')).filter(e => e.checkVisibility())"
        ".map(e => e.innerText)"
    )


def test_nothing_runs_and_texts_are_texts(opened):
    assert opened.run("document.scripts.length") == 1
    assert opened.run("document.images.length") == 0
    assert opened.run("document.title") == f"Model {NASTY}"
    assert opened.run("document.querySelectorAll('figure svg').length") == 2
    assert names(opened) == LABELS
    assert NASTY in opened.run("document.querySelector('.completions .text').innerText")


def test_sorting_by_mouse_and_by_keyboard(opened):
    values = [
        float(v)
        for v in opened.run("Array.from(document.querySelectorAll('.labels tbody tr'), r => r.cells[3].dataset.value)")
    ]
    order = sorted(range(4), key=lambda j: values[j])
    opened.click(".labels thead th:nth-child(4) button")
    assert names(opened) == [LABELS[j] for j in order]
    opened.press("Enter")  # the header still has the focus
    assert names(opened) == [LABELS[j] for j in reversed(order)]
    opened.press("Space")
    assert names(opened) == LABELS
    assert "original order" in opened.run("document.getElementById('label-status').textContent")


def test_filtering_labels(opened):
    opened.run("document.getElementById('label-filter').focus()")
    opened.type("A &")
    assert names(opened) == ["a & b"]
    assert opened.run("document.getElementById('label-status').textContent") == "1 of 4 labels shown."


def test_the_keyboard_reaches_the_measures_first(opened):
    opened.press("Tab")
    assert opened.run("document.activeElement.className") == "skip"
    opened.press("Enter")
    assert opened.run("location.hash") == "#measures"


@pytest.mark.parametrize("page", ["observed.html", "complete.html"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 1200, 390, 360])
def test_it_fits_any_window_in_either_scheme(browser, pages, page, scheme, width):
    assert browser.open(pages / page, width=width, scheme=scheme) == []
    if width == 1400:  # no table is cut off
        clipped = "Array.from(document.querySelectorAll('.scroll')).filter(e => e.scrollWidth > e.clientWidth).length"
        assert browser.run(clipped) == 0
    assert browser.run("document.documentElement.scrollWidth") <= width
    colour = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in colour[4:-1].split(",")) < 300) == (scheme == "dark")
    assert browser.complaints == []


def test_without_script_everything_is_there(browser, pages):
    assert browser.open(pages / "observed.html", script=False) == []
    assert browser.run("document.querySelectorAll('.labels tbody tr').length") == 4
