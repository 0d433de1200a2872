"""Reading decisions: exact about text, strict about form."""

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onepos.pages.decisions import read_decisions

HEADER = "id,label,decision\r\n"


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "decisions.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    return write


def rows(frame):
    return [tuple(row) for row in frame.itertuples(index=False)]


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_text_is_taken_as_it_is(write, end, mark):
    text = f'{mark}id,label,decision\r\n007,=1+1,accept\r\n" a ","b,""c""",reject\r\n"two\nlines",NA,accept\r\n'
    frame = read_decisions(write(text.replace("\r\n", end)))
    assert list(frame.columns) == ["id", "label", "decision", "annotator"]
    assert rows(frame) == [
        ("007", "=1+1", "accept", ""),
        (" a ", 'b,"c"', "reject", ""),
        ("two\nlines", "NA", "accept", ""),
    ]


def test_rows_as_a_whole_and_the_annotator(write):
    frame = read_decisions(write("id,label,decision,annotator\na,x,accept,Ada\na,,complete,Ada\nb,,done,\n"))
    assert rows(frame) == [("a", "x", "accept", "Ada"), ("a", "", "complete", "Ada"), ("b", "", "done", "")]


def test_the_last_of_duplicates_counts(write):
    frame = read_decisions(write(HEADER + "a,x,accept\na,y,accept\nb,x,reject\na,x,reject\n"))
    assert rows(frame) == [("a", "y", "accept", ""), ("b", "x", "reject", ""), ("a", "x", "reject", "")]
    assert list(frame.index) == [0, 1, 2]


def test_a_file_without_decisions_is_an_empty_table(write):
    frame = read_decisions(str(write(HEADER)))
    assert list(frame.columns) == ["id", "label", "decision", "annotator"]
    assert frame.empty


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the header id,label,decision,annotator; got an empty line or file"),
        (
            "id;label;decision\n",
            r"line 1: expected the header id,label,decision,annotator; got \['id;label;decision'\]",
        ),
        ("a,x,accept\n", "line 1: expected the header"),
        (
            HEADER + "a,x,accept\nb,x,maybe\n",
            r"line 3: expected an id, .*without a label, done or complete; got \['b', 'x', 'maybe'\]",
        ),
        (HEADER + "a,x,Accept\n", "line 2: expected an id, a label, and accept or reject"),
        (HEADER + "a,x,\n", "line 2: expected an id"),
        (HEADER + "a,x\n", r"line 2: expected an id.*got \['a', 'x'\]"),
        (HEADER + "a,x,accept,\n", "line 2: expected an id"),
        (HEADER + ",x,accept\n", "line 2: expected an id"),
        (HEADER + "a,,accept\n", "line 2: expected an id"),
        (HEADER + "a,x,complete\n", "line 2: expected an id"),
        (HEADER + "a,x,accept,Ada\n", "line 2: expected an id"),
        (HEADER + '"a\n\nb",x,accept\nc,x,no\n', "line 5: expected an id"),
        (HEADER + "\n\na,x,no\n", "line 4: expected an id"),
        (HEADER + 'a,x,accept\n"a,x,accept\n', "line 3: unexpected end of data"),
        (HEADER + '"a"b,x,accept\n', "line 2: ',' expected after"),
        (HEADER.encode() + b"\xff,x,accept\n", "expected UTF-8; byte 19 is not"),
    ],
)
def test_errors_name_the_line(write, text, message):
    with pytest.raises(ValueError, match=f"decisions.csv.*{message}"):
        read_decisions(write(text))


def test_the_documented_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "review-decisions.csv").write_text("id,label,decision\nrow-17,night,accept\nrow-17,city,reject\n")
    page = (Path(__file__).parents[3] / "docs" / "review.md").read_text(encoding="utf-8")
    namespace = {}
    for source in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(source, "review.md", "exec"), namespace)
    assert (tmp_path / "review.html").is_file()
    assert namespace["model"].facts_["decisions"] == {"accepted": 1, "rejected": 1, "complete": 0, "elsewhere": 0}


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=60, deadline=None)
@given(pairs=st.dictionaries(st.tuples(NAMES, NAMES), st.sampled_from(["accept", "reject"]), max_size=8))
def test_whatever_is_written_is_read_back(pairs, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "decisions.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
            [("id", "label", "decision"), *((*pair, decision) for pair, decision in pairs.items())]
        )
    assert rows(read_decisions(path)) == [(*pair, decision, "") for pair, decision in pairs.items()]
