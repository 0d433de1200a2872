"""Decisions as a file: what the page saves, the library reads and the page takes back."""

import csv

import numpy as np
import pytest

from hostile_texts import INJECTIONS
from onepos.pages.review import read_decisions, write_review
from review_data import SMALL
from review_window import choices, text


def save(browser, folder):
    with browser.page.expect_download() as download:
        browser.click("#save")
    saved = folder / download.value.suggested_filename
    download.value.save_as(saved)
    return saved


def load(browser, path):
    browser.run("document.getElementById('notice').hidden = true")
    browser.page.set_input_files("#load-file", path)
    browser.page.wait_for_selector("#notice", state="visible")
    return text(browser, "#notice")


def test_what_is_saved_is_read_and_loaded(browser, tmp_path):
    names = [*INJECTIONS, " blanks ", "ünïcode 😀", "@SUM(A1)"]
    n = len(names)
    path = write_review(
        tmp_path / "my page.html",
        ids=names,
        observed=[None] * n,
        labels=names,
        probabilities=np.full((n, n), 0.6),
    )
    browser.open(path)
    expected = []
    for identity in names:
        browser.press("1")
        browser.press("Shift+9")
        expected += [(identity, names[0], "accept"), (identity, names[8], "reject")]
        browser.press("Enter")
    # The last label of all examples but one, by mouse.
    browser.click(f".suggestion:nth-child({n}) .accept")
    expected.append((names[-1], names[-1], "accept"))

    saved = save(browser, tmp_path)
    assert saved.name == "my page-decisions.csv"
    frame = read_decisions(saved)
    assert [tuple(row) for row in frame.itertuples(index=False)] == expected
    raw = saved.read_bytes()
    assert raw.startswith(b"id,label,decision\r\n")
    assert raw.endswith(b",accept\r\n")

    browser.run("localStorage.clear()")
    browser.open(path)
    assert text(browser, "#progress-text") == f"0 of {n} decided"
    assert load(browser, saved) == f"{len(expected)} decisions loaded from {saved.name}."
    assert text(browser, "#progress-text") == f"{n} of {n} decided"
    assert save(browser, tmp_path).read_bytes() == raw
    # And it was kept.
    browser.open(path)
    assert text(browser, "#progress-text") == f"{n} of {n} decided"
    assert browser.complaints == []


def test_rows_of_a_file_win_and_undo_takes_the_whole_file_back(browser, tmp_path):
    path = write_review(tmp_path / "page.html", **SMALL)
    browser.open(path)
    browser.press("1")
    browser.press("Shift+3")
    given = tmp_path / "given.csv"
    rows = [
        ("id", "label", "decision"),
        ("one", "night", "reject"),
        ("one", "night", "accept"),
        ("one", "night", "reject"),
        ("two", "snow", "accept"),
        ("two", "dog", "accept"),  # given: there is nothing to decide
        ("nobody", "night", "accept"),
        ("one", "cat", "accept"),
    ]
    with given.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    notice = load(browser, given)
    assert notice == "4 decisions loaded from given.csv. 3 rows about other examples or labels left out."
    assert choices(browser) == {"night": "reject", "dog": "open", "snow": "reject"}
    browser.press("j")
    assert choices(browser) == {"night": "open", "beach": "open", "snow": "accept"}
    browser.press("u")
    assert choices(browser) == {"night": "accept", "dog": "open", "snow": "reject"}
    assert text(browser, "#progress-text") == "0 of 3 decided"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: expected the header id,label,decision"),
        ("id;label;decision\n", "line 1: expected the header id,label,decision"),
        (
            "id,label,decision\none,night,accept\ntwo,night,perhaps\n",
            "line 3: expected accept or reject, got “perhaps”",
        ),
        ('id,label,decision\n"a\nb",night,accept\none,night\n', "line 4: expected 3 fields, got 2"),
        ('id,label,decision\n"one,night,accept\n', "line 2: a quotation mark is not closed"),
        ('id,label,decision\n"one"x,night,accept\n', "line 2: text after a closing quotation mark"),
    ],
)
def test_a_file_of_another_form_changes_nothing(browser, tmp_path, content, message):
    path = write_review(tmp_path / "page.html", **SMALL)
    browser.open(path)
    bad = tmp_path / "bad.csv"
    bad.write_text(content, encoding="utf-8")
    assert load(browser, bad) == f"bad.csv was not loaded: {message}"
    assert set(choices(browser).values()) == {"open"}
    assert browser.run("localStorage.length") == 0
    with pytest.raises(ValueError, match="line"):
        read_decisions(bad)
