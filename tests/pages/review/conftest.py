"""A small review page, and the page opened in a browser."""

import pytest

from onepos.pages.review import write_review
from review_data import SMALL


@pytest.fixture(scope="session")
def small_page(tmp_path_factory):
    return write_review(tmp_path_factory.mktemp("page") / "small.html", title="Small", **SMALL)


@pytest.fixture
def opened(browser, small_page):
    """The page, newly opened and without memory; what a test does to it must bring no complaint and no request."""
    assert browser.open(small_page) == []
    yield browser
    assert browser.complaints == []
    assert browser.foreign_requests(small_page) == []
