"""Whatever the texts say, a generated page shows them as text, runs nothing of them, and asks for nothing."""

import re

import pandas as pd
import pytest

import onepos
from hostile_texts import INJECTIONS, write_hostile_review
from onepos.datasets import make_known_posterior
from onepos.pages import model_report
from study_frame import nasty_frame, nasty_page

STRICT = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')


def _study(folder):
    (folder / "study.html").write_text(nasty_page(nasty_frame()), encoding="utf-8")


def _model(folder):
    data = make_known_posterior(400, 5, len(INJECTIONS), random_state=3)
    observed = pd.DataFrame(data.observed, columns=INJECTIONS)
    model = onepos.make_classifier("logistic", l2=1.0).fit(data.X, observed)
    texts = [INJECTIONS[row % len(INJECTIONS)] for row in range(400)]
    model_report(model, data.X, observed, folder / "model.html", texts=texts, title=INJECTIONS[2])


def _review(folder):
    write_hostile_review(folder / "review.html")


PAGES = {"study": _study, "model": _model, "review": _review}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for make in PAGES.values():
        make(folder)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_strict_policy_comes_before_anything_it_should_govern(pages, name):
    page = (pages / f"{name}.html").read_text(encoding="utf-8")
    found = STRICT.search(page)
    first = min(page.find(tag) for tag in ("<script", "<style", "<link", "<img") if tag in page)
    assert found.start() < first
    policy = dict(part.strip().partition(" ")[::2] for part in found[1].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["img-src"] == "data:"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]+'", policy.get("script-src", "'sha256-0'"))
    assert not set(policy) - {
        "default-src",
        "script-src",
        "style-src",
        "img-src",
        "base-uri",
        "form-action",
        "require-trusted-types-for",
    }
    assert "http:" not in found[1]


def test_nothing_runs_and_nothing_is_asked_for(browser, pages):
    for name in PAGES:
        path = pages / f"{name}.html"
        assert browser.open(path) == [], name
        assert browser.run("typeof window.hacked") == "undefined", name
        assert browser.run("document.querySelectorAll('iframe, base, object, embed, math').length") == 0, name
        assert browser.run("document.querySelectorAll('[onload], [onerror], [onfocus]').length") == 0, name
        assert browser.run("document.querySelectorAll('a[href^=javascript]').length") == 0, name
        assert browser.complaints == [], name
        if name != "study":  # its hostile texts are those of its own tests
            shown = browser.run("document.documentElement.innerText")
            assert any(text in shown for text in INJECTIONS[:2]), name
        assert browser.foreign_requests(path) == [], name
