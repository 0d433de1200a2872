"""What the page is given: compact, exact about the threshold, and harmless whatever the texts say."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest

from hostile_texts import INJECTIONS
from onepos.exceptions import MissingDependencyError
from onepos.pages.review import scale_confidences, scale_thresholds, write_review
from review_data import LABELS, SMALL


class Elements(HTMLParser):
    """Scripts and their texts, as a browser would split the page."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        if self.tags[-1:] == ["script"]:
            self.scripts.append(data)


def page_of(**content):
    with TemporaryDirectory() as folder:
        return write_review(str(Path(folder) / "page.html"), **content).read_text(encoding="utf-8")


def payload(**changes):
    elements = Elements()
    elements.feed(page_of(**SMALL | changes))
    return json.loads(elements.scripts[0])


def test_the_payload_by_hand():
    assert payload() == {
        "ids": ["one", "two", "three"],
        "labels": LABELS,
        "thresholds": [500] * 4,
        "given": [[0], [1], []],
        # The given label needs no suggestion; half a percent is too little for one.
        "suggestions": [[2, 810, 1, 620, 3, 400], [2, 700, 0, 450], [1, 200, 3, 100, 2, 50, 0, 20]],
        "sets": [[2, 1], [2], []],
        "ordered": False,
        "saved": {"id": "id", "label": "tags", "separator": ";"},
        "texts": SMALL["texts"],
    }


def test_no_more_than_twenty_suggestions_and_the_best_of_them():
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.02, 1, size=(5, 60))
    labels = [f"l{number}" for number in range(60)]
    content = {"ids": list("abcde"), "observed": ["l7"] * 5, "labels": labels, "probabilities": scores, "texts": None}
    rows = payload(**content)["suggestions"]
    for row, score in zip(rows, scores, strict=True):
        expected = [number for number in np.argsort(-score) if number != 7][:20]
        assert row[::2] == expected
        np.testing.assert_allclose(row[1::2], 1000 * score[expected], atol=0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.1 + 0.2, 1 / 3, 0.5, 0.7, 0.9999, 1.0])
def test_rounding_never_crosses_the_threshold(threshold, dtype):
    rng = np.random.default_rng(1)
    near = np.clip(threshold + rng.normal(scale=3e-4, size=500), 0, 1)
    scores = np.concatenate([near, rng.uniform(size=500), [threshold]]).astype(dtype)[:, None]
    thresholds = np.array([threshold])
    rounded = scale_confidences(scores, thresholds)
    np.testing.assert_array_equal(rounded >= scale_thresholds(thresholds), scores >= threshold)
    assert np.abs(rounded - 1000.0 * scores).max() <= 1.001


def test_only_some_rows_in_their_own_order():
    shown = payload(only=["three", "one"])
    assert (shown["ids"], shown["texts"], shown["given"]) == (
        ["three", "one"],
        ["Nothing much", "Waves at night"],
        [[], [0]],
    )
    assert shown["ordered"]


def test_features_and_pictures_become_text():
    frame = pd.DataFrame(
        {"x": [1.23456789, np.nan, -2.0], 7: ["<b>", None, "ok"], "day": pd.to_datetime(["2020-01-02"] * 3)}
    )
    frame.index = [5, 5, 6]
    table = payload(features=frame)["features"]
    assert table["names"] == ["x", "7", "day"]
    assert table["shown"] == [0, 1, 2]
    assert table["rows"][0] == ["1.23456789", "<b>", "2020-01-02 00:00:00"]
    assert table["rows"][1][:2] == ["", ""]
    images = ["a folder/ü #1?.png", PurePosixPath("../b.jpg"), "data:image/png;base64,AAAA"]
    assert payload(images=images)["images"] == ["a%20folder/%C3%BC%20%231%3F.png", "../b.jpg", images[2]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ["one", "two", "one"]}, "ids must be unique; 'one' is at 0 and at 2"),
        ({"ids": ["one", "", "three"]}, "ids must be non-empty strings of valid Unicode; got '' at 1"),
        ({"ids": [1, 2, 3]}, "ids must be non-empty strings of valid Unicode; got 1 at 0"),
        ({"ids": ["one", "\ud800", "three"]}, "ids must be non-empty strings of valid Unicode"),
        ({"ids": [], "observed": [], "texts": [], "probabilities": np.zeros((0, 4))}, "nothing to review"),
        ({"labels": ["a", "a", "b", "c"]}, "labels must be unique"),
        ({"observed": ["beach", "cat", None]}, "observed must name labels or be None; got 'cat' at 1"),
        ({"texts": ["a"]}, "texts must have one entry for each of the 3 ids; got 1"),
        ({"probabilities": np.zeros((3, 5))}, r"probabilities must have the shape \(3, 4\); got \(3, 5\)"),
        ({"probabilities": np.full((3, 4), np.nan)}, r"between 0 and 1; got nan at \[0, 0\]"),
        ({"probabilities": np.full((3, 4), 1.5)}, "between 0 and 1; got 1.5"),
        ({"threshold": 1.5}, "threshold must lie between 0 and 1"),
        ({"threshold": [0.5, 0.5]}, "threshold must have the shape \\(4,\\); got \\(2,\\)"),
        ({"only": ["one", "four"]}, "only must name rows by their ids, such as 'one'; got 'four'"),
        ({"only": []}, "only must name rows by their ids, such as 'one'; got none"),
        ({"features": pd.DataFrame({"id": [1, 2, 3]})}, "'id' is also a name of the file of complete rows"),
        ({"features": pd.DataFrame([[1, 2]] * 3, columns=["a", "a"])}, "distinct.*one is there twice"),
        ({"sets": np.zeros((3, 5))}, r"sets must have the shape \(3, 4\); got \(3, 5\)"),
        ({"images": ["http://example.org/a.png"] * 3}, "the page loads nothing from elsewhere"),
        ({"images": ["//example.org/a.png"] * 3}, "the page loads nothing from elsewhere"),
        ({"images": ["\\\\server\\a.png"] * 3}, "the page loads nothing from elsewhere"),
        ({"images": ["javascript:alert(1)"] * 3}, "the page loads nothing from elsewhere"),
        ({"images": ["data:text/html,<script>"] * 3}, "the page loads nothing from elsewhere"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_its_place(changes, message):
    with pytest.raises(ValueError, match=message):
        payload(**changes)


def test_a_title_or_text_that_is_a_column_is_stored_once():
    frame = pd.DataFrame({"x": [1, 2, 3], "caption": SMALL["texts"], "name": ["a", "b", None]})
    shown = payload(features=frame, titles=frame["name"])
    assert (shown["titles"], shown["texts"], shown["features"]["shown"]) == (2, 1, [0])
    assert payload(features=frame, shown=["name"])["features"]["shown"] == [2]


def test_missing_texts_and_broken_unicode_are_shown_as_they_can():
    assert payload(texts=[None, "a\ud800b", np.nan])["texts"] == ["", "a\ufffdb", ""]
    assert payload(observed=[np.nan, "dog", pd.NA])["given"] == [[], [1], []]
    assert payload(observed=[["beach", "snow"], [], "dog"])["given"] == [[0, 3], [], [1]]


@pytest.mark.parametrize("text", INJECTIONS)
def test_embedded_json_is_inert_and_reads_back(text):
    elements = Elements()
    elements.feed(page_of(**SMALL | {"texts": [text] * 3}))
    assert not re.search("[<>&\u2028\u2029]", elements.scripts[0])
    assert json.loads(elements.scripts[0])["texts"] == [text] * 3


def test_the_page_has_two_scripts_and_the_data_is_in_one():
    content = dict(SMALL, ids=INJECTIONS[:3], texts=INJECTIONS[3:6], labels=INJECTIONS[6:10], observed=[None] * 3)
    page = page_of(title=INJECTIONS[1], **content)
    elements = Elements()
    elements.feed(page)
    assert elements.tags.count("script") == 2
    data = json.loads(elements.scripts[0])
    assert [data[name] for name in ("ids", "texts", "labels")] == [content[name] for name in ("ids", "texts", "labels")]
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "img-src data:;" in policy


def test_only_pictures_by_path_widen_the_policy():
    for images, sources in ((["data:image/png;base64,AA"] * 3, "data:;"), (["a.png"] * 3, "data: 'self' file:;")):
        assert f"img-src {sources}" in page_of(images=images, **SMALL)


def test_the_name_under_which_decisions_are_kept_depends_on_the_data_alone():
    def name(title="a", **changes):
        return re.search(r'data-fingerprint="(\w+)"', page_of(title=title, **SMALL | changes))[1]

    assert name() == name(title="b")
    names = {name(), name(texts=["x", "y", "z"]), name(ids=["1", "2", "3"]), name(threshold=0.4), name(only=["one"])}
    assert len(names) == 5


def test_scripts_build_no_markup_from_texts():
    page = page_of(**SMALL)
    script = page[page.rindex("<script>") :]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|fetch\(|XMLHttp|import\(", script
    )


def test_the_extra_is_named_if_the_template_engine_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r"writing the review page needs jinja2.*onepos\[plot\]"):
        write_review(tmp_path / "page.html", **SMALL)
    assert list(tmp_path.iterdir()) == []
