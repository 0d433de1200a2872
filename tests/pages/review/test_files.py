"""Decisions as a file: what the page saves, the library reads and the page takes back."""

import csv

import numpy as np
import pytest

from hostile_texts import INJECTIONS
from onepos.pages.review import read_decisions, write_review
from review_data import SMALL
from review_keys import choices, forget, press, reopen, text, wait_for


@pytest.fixture
def folder(review_browser, tmp_path):
    review_browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    return tmp_path


def save(browser, path):
    browser.click("#save")
    saved = path.with_name(f"{path.stem}-decisions.csv")
    wait_for(lambda: saved.exists() and saved.read_bytes().endswith(b"\r\n"))
    return saved


def load(browser, path):
    chosen = browser.call("Runtime.evaluate", expression="document.getElementById('load-file')")["result"]["objectId"]
    browser.run("document.getElementById('notice').hidden = true")
    browser.call("DOM.setFileInputFiles", files=[str(path)], objectId=chosen)
    wait_for(lambda: not browser.run("document.getElementById('notice').hidden"))
    return text(browser, "#notice")


def test_what_is_saved_is_read_and_loaded(review_browser, folder):
    names = [*INJECTIONS, " blanks ", "ünïcode 😀", "@SUM(A1)"]
    n = len(names)
    path = write_review(
        folder / "my page.html",
        ids=names,
        observed=[None] * n,
        labels=names,
        probabilities=np.full((n, n), 0.6),
    )
    forget(review_browser, path)
    expected = []
    for identity in names:
        press(review_browser, "1")
        press(review_browser, "Shift+9")
        expected += [(identity, names[0], "accept"), (identity, names[8], "reject")]
        press(review_browser, "Enter")
    # The last label of all examples but one, by mouse.
    review_browser.click(f".suggestion:nth-child({n}) .accept")
    expected.append((names[-1], names[-1], "accept"))

    saved = save(review_browser, path)
    frame = read_decisions(saved)
    assert [tuple(row) for row in frame.itertuples(index=False)] == expected
    raw = saved.read_bytes()
    assert raw.startswith(b"id,label,decision\r\n")
    assert raw.endswith(b",accept\r\n")

    forget(review_browser, path)
    assert text(review_browser, "#progress-text") == f"0 of {n} decided"
    assert load(review_browser, saved) == f"{len(expected)} decisions loaded from {saved.name}."
    assert text(review_browser, "#progress-text") == f"{n} of {n} decided"
    saved.unlink()
    assert save(review_browser, path).read_bytes() == raw
    # And it was kept.
    reopen(review_browser, path)
    assert text(review_browser, "#progress-text") == f"{n} of {n} decided"
    assert review_browser.complaints == []


def test_rows_of_a_file_win_and_undo_takes_the_whole_file_back(review_browser, folder):
    path = write_review(folder / "page.html", **SMALL)
    forget(review_browser, path)
    press(review_browser, "1")
    press(review_browser, "Shift+3")
    given = folder / "given.csv"
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
    notice = load(review_browser, given)
    assert notice == "4 decisions loaded from given.csv. 3 rows about other examples or labels left out."
    assert choices(review_browser) == {"night": "reject", "dog": "open", "snow": "reject"}
    press(review_browser, "j")
    assert choices(review_browser) == {"night": "open", "beach": "open", "snow": "accept"}
    press(review_browser, "u")
    assert choices(review_browser) == {"night": "accept", "dog": "open", "snow": "reject"}
    assert text(review_browser, "#progress-text") == "0 of 3 decided"


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
def test_a_file_of_another_form_changes_nothing(review_browser, folder, content, message):
    path = write_review(folder / "page.html", **SMALL)
    forget(review_browser, path)
    bad = folder / "bad.csv"
    bad.write_text(content, encoding="utf-8")
    assert load(review_browser, bad) == f"bad.csv was not loaded: {message}"
    assert set(choices(review_browser).values()) == {"open"}
    assert review_browser.run("localStorage.length") == 0
    with pytest.raises(ValueError, match="line"):
        read_decisions(bad)
