"""One browser for the whole folder, and a small page in it."""

import pytest

from devtools import CHROMIUM, Browser
from onepos.pages.review import write_review
from review_data import SMALL
from review_keys import forget


@pytest.fixture(scope="session")
def review_browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it to see the page in a real browser")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def small_page(tmp_path_factory):
    return write_review(tmp_path_factory.mktemp("page") / "small.html", title="Small", **SMALL)


@pytest.fixture
def opened(review_browser, small_page):
    """The page, newly opened and without memory; what a test does to it must bring no complaint and no request."""
    assert forget(review_browser, small_page) == []
    yield review_browser
    assert review_browser.complaints == []
    assert review_browser.foreign_requests(small_page) == []
