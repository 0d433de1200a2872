"""Decisions as a file: what the page saves, the library reads and the page takes back."""

import csv

import numpy as np
import pandas as pd
import pytest

from hostile_texts import INJECTIONS
from onepos.pages.decisions import read_decisions
from onepos.pages.review import write_review
from review_data import SMALL
from review_window import choices, given, progress, save, text


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
        expected.append((identity, "", "done"))
    # The last label of all rows but one, by mouse.
    browser.click(f".suggestion:nth-child({n}) .accept")
    expected.insert(-1, (names[-1], names[-1], "accept"))

    saved = save(browser, tmp_path)
    assert saved.name == "my page-decisions.csv"
    rows = f"{len(expected)} decisions about {n} rows"
    assert text(browser, "#notice") == f"{rows} saved as {saved.name} in your downloads."
    frame = read_decisions(saved)
    assert [tuple(row) for row in frame.itertuples(index=False)] == [(*row, "") for row in expected]
    raw = saved.read_bytes()
    assert raw.startswith(b"id,label,decision,annotator\r\n")
    assert raw.endswith(b",,done,\r\n")

    browser.run("localStorage.clear()")
    browser.open(path)
    assert progress(browser) == (0, 0)
    assert load(browser, saved) == f"{len(expected)} decisions loaded from {saved.name}."
    assert progress(browser) == (n, 0)
    assert save(browser, tmp_path).read_bytes() == raw
    # And it was kept.
    browser.open(path)
    assert progress(browser) == (n, 0)
    assert browser.complaints == []


def test_marks_and_names_of_annotators_are_saved_and_loaded(browser, tmp_path):
    path = write_review(tmp_path / "page.html", **SMALL)
    browser.open(path)
    browser.press("1")
    browser.press("x")
    browser.press("s")
    browser.page.fill("#annotator", "Ada")
    browser.press("Escape")
    browser.press("0")
    browser.press("Enter")
    saved = save(browser, tmp_path)
    # What was decided before the name was known has the name, too.
    expected = [("one", "night", "accept"), ("one", "", "complete"), ("two", "dog", "reject"), ("two", "", "done")]
    assert [tuple(row) for row in read_decisions(saved).itertuples(index=False)] == [(*row, "Ada") for row in expected]

    before = read_decisions(saved)
    browser.run("localStorage.clear()")
    browser.open(path)
    browser.press("s")
    browser.page.fill("#annotator", "Ben")
    browser.press("Escape")
    load(browser, saved)
    assert progress(browser) == (2, 1)
    browser.click("#row-2")
    browser.press("Enter")
    merged = read_decisions(save(browser, tmp_path))
    assert merged.iloc[:-1].equals(before)
    assert merged.iloc[-1].tolist() == ["three", "", "done", "Ben"]
    browser.click("#row-1")
    assert given(browser) == ("dog", "reject")
    assert browser.complaints == []


def test_complete_rows_are_saved_as_a_table(browser, tmp_path):
    features = pd.DataFrame(
        {"size": [1.23456789, 2.0, np.nan], "note": ['a "b", c', "two\nlines", ""], "text": SMALL["texts"]}
    )
    names = ("photo", "tag")
    path = write_review(tmp_path / "page.html", features=features, names=names, separator=" | ", **SMALL)
    browser.open(path)
    assert browser.run("document.querySelector('.features td').textContent") == "1.23457"
    assert browser.run("document.querySelectorAll('.features tr').length") == 2  # the text is shown as text
    browser.press("s")
    assert browser.run("document.getElementById('save-complete').disabled")
    browser.press("Escape")
    browser.press("1")
    browser.press("x")
    browser.press("0")
    browser.press("x")
    saved = save(browser, tmp_path, "save-complete")
    assert saved.name == "page-complete.csv"
    assert text(browser, "#notice") == "2 complete rows saved as page-complete.csv in your downloads."
    table = pd.read_csv(saved, keep_default_na=False)
    assert table.to_dict("list") == {
        "photo": ["one", "two"],
        "size": [1.23456789, 2.0],
        "note": features["note"][:2].tolist(),
        "text": SMALL["texts"][:2],
        "tag": ["beach | night", ""],
    }


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
        ("two", "dog", "accept"),  # given: nothing changes
        ("nobody", "night", "accept"),
        ("one", "cat", "accept"),
    ]
    with given.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    notice = load(browser, given)
    assert notice == "5 decisions loaded from given.csv. 2 decisions about other rows or labels left out."
    assert choices(browser) == {"night": "reject", "dog": "open", "snow": "reject"}
    browser.press("j")
    assert choices(browser) == {"night": "open", "beach": "open", "snow": "accept"}
    browser.press("u")
    assert choices(browser) == {"night": "accept", "dog": "open", "snow": "reject"}
    assert progress(browser) == (0, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: expected the header id,label,decision,annotator"),
        ("id;label;decision\n", "line 1: expected the header id,label,decision,annotator"),
        (
            "id,label,decision\none,night,accept\ntwo,night,perhaps\n",
            "line 3: expected accept, reject, done or complete, got “perhaps”",
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
