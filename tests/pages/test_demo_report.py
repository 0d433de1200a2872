"""The report: what it says follows the numbers, and the page is whole, safe and self-contained."""

import base64
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onepos.exceptions import MissingDependencyError
from onepos.metrics import METRICS
from onepos.pages import Example, render, require_report, summarise, write_report
from onepos.pages.demo_summary import png_address, top_labels
from onepos.training import History
from page_elements import Elements

SECTIONS = {"top", "result", "setting", "comparison", "recovered", "learning", "settings"}
NASTY = '<script>alert("1")</script>'
NAMES = {"frequency": "Frequency", "linear": "Linear AN", "an": "AN", "smile": "SMILE", "bce": "Full supervision"}
PRECISION = {"frequency": 0.4, "linear": 0.5, "an": 0.6, "smile": 0.65, "bce": 0.8}
FACTS = {
    "n_train": 2500,
    "n_validation": 500,
    "n_test": 2000,
    "n_labels": 10,
    "mean_labels": 2.5,
    "hidden": 3700,
    "claimed": 100,
    "found": 60,
    "first_guess": 0.5,
    "first_guess_blind": 0.2,
    "n_positives": 2.0,
    "version": "0.0",
    "python": "3.11",
    "random_state": 7,
    "n_runs": 2,
    "settings": {"max_epochs": 3},
    "seconds": 12.3,
}


def scores(precision=PRECISION, runs=2):
    rows = []
    for key, value in precision.items():
        for run in range(runs):
            row = {"method": key, "name": NAMES[key], "full_labels": key == "bce", "seed": run, "seconds": 1.0}
            rows.append(row | dict.fromkeys(METRICS, 1 - value) | {"average_precision": value + 0.01 * run})
    return pd.DataFrame(rows)


def history():
    records = [{"epoch": e, "loss": 1.0 / e, "valid_average_precision": 0.3 + 0.1 * e} for e in (1, 2, 3)]
    return History(records, {"best_epoch": 3})


def example(label="3"):
    return Example(np.linspace(0, 1, 12).reshape(3, 4), label, (("5", 0.8), ("7", 0.2)), (label, "5", "9"))


@pytest.fixture(scope="module")
def summary():
    histories = {key: [history(), history()] for key in ("an", "smile", "bce")}
    return summarise(scores(), histories, [example(), example(NASTY)], FACTS)


@pytest.fixture(scope="module")
def page(summary):
    return render(summary)


def test_a_summary_is_plain_values(summary):
    assert json.loads(json.dumps(summary)) == summary


def test_the_best_single_label_method_is_marked_and_full_supervision_never_is(summary):
    for metric in METRICS:
        assert [method["key"] for method in summary["methods"] if method["cells"][metric]["best"]] == ["smile"]


def test_the_words_follow_the_numbers(summary):
    text = " ".join(summary["verdict"])
    assert "SMILE ranks best" in text
    assert "SMILE is 0.050 ahead of AN, more than" in text
    assert "SMILE 62 %" in text

    losing = summarise(scores(PRECISION | {"smile": 0.55}), {}, [], FACTS)
    assert "AN ranks best" in losing["verdict"][0]
    assert "SMILE is 0.050 behind AN" in losing["verdict"][1]


def test_a_single_run_has_no_spread_and_makes_no_claim_about_chance():
    summary = summarise(scores(runs=1), {}, [], FACTS | {"n_runs": 1})
    assert summary["methods"][0]["cells"]["coverage"]["spread"] is None
    assert "says nothing about chance" in summary["verdict"][1]
    assert "no spread to show" in render(summary)


def test_nothing_learnt_is_said_plainly():
    summary = summarise(scores(PRECISION | {"bce": 0.3}), {}, [], FACTS)
    assert "too little to learn from" in summary["verdict"][-1]


def test_every_section_is_there_and_the_markup_is_sound(page):
    elements = Elements(page)
    assert set(elements.ids) >= SECTIONS
    assert len(elements.ids) == len(set(elements.ids))
    assert elements.open == []


def test_the_page_asks_for_nothing(page):
    elements = Elements(page)
    assert "script" not in elements.tags
    assert all(address.startswith(("data:", "#")) for address in elements.addresses)
    assert not re.search(r"https?://|@import|url\((?!#)", page)


def test_text_from_the_data_is_escaped(page):
    assert NASTY not in page
    assert "&lt;script&gt;" in page


def test_colours_come_with_signs_and_both_themes(page):
    for sign in ("● observed", "✓ right", "✗ wrong", "○ missed", "★", "↑", "↓"):
        assert sign in page
    assert "prefers-color-scheme: dark" in page
    # The drawings follow the page's theme.
    assert "var(--figure-blue, #0064b0)" in page


def test_equal_summaries_give_equal_pages(summary, page):
    assert render(summary) == page


def test_marks_of_an_example():
    assert [(mark.label, mark.status, mark.present) for mark in example().guesses] == [
        ("5", "right", True),
        ("7", "wrong", False),
    ]
    assert [(mark.label, mark.status) for mark in example().truth] == [
        ("3", "observed"),
        ("5", "right"),
        ("9", "missed"),
    ]


def test_top_labels_leave_the_observed_one_out():
    found = top_labels(np.array([1.0, 0.2, 0.6]), np.array([1, 0, 0]), ["a", "b", "c"], 5)
    assert found == (("c", 0.6), ("b", 0.2))


def test_png_holds_the_picture():
    from PIL import Image

    png = base64.b64decode(png_address(np.array([[0.0, 1.0, 0.5]])).partition(",")[2])
    assert np.asarray(Image.open(io.BytesIO(png))).tolist() == [[255, 0, 128]]


def test_writing_is_atomic(summary, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def fail(self, target):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_report(summary, path)
    assert path.read_text(encoding="utf-8") == "old"
    assert write_report(summary, path) == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("package", ["jinja2", "matplotlib.figure"])
def test_a_missing_package_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=r'pip install "onepos\[plot\]"'):
        require_report()


def test_a_browser_shows_the_page_without_complaint(browser, page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    assert browser.open(path) == []
    assert browser.complaints == []
    # Five measures and two learning curves.
    assert browser.run("document.querySelectorAll('svg').length") == 7
