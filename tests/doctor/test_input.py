"""Whatever comes in: a diagnosis, or a ValueError that says what does not fit."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from doctor_cases import clean, indicator
from onepos.doctor import Diagnosis, diagnose, estimate_cardinality
from onepos.doctor.columns import read_column
from onepos.table import ColumnEncoder

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(),
    st.sampled_from(["", " ", "a", "A ", "a, b", "b", "1.5", "nan", "two words here", "\x00", "\ud800", "🏖"]),
    st.text(max_size=4),
    st.just(pd.NaT),
    st.just(pd.NA),
    st.datetimes().map(pd.Timestamp),
    st.complex_numbers(max_magnitude=9),
    st.lists(st.integers(0, 3), max_size=2),
    st.tuples(st.integers(0, 3), st.text(max_size=1)),
)
KINDS = st.sampled_from(
    [
        st.floats(),
        st.floats(width=32),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 3),
        st.booleans(),
        st.text(max_size=3),
        st.sampled_from(["x", "y", None]),
        st.one_of(st.none(), st.integers(0, 2)),
        SCALARS,
    ]
)
NAMES = st.one_of(st.text(max_size=3), st.integers(-2, 3), st.sampled_from(["label", "a", "is_a", ("a", 1), 1.5, None]))
DTYPES = st.sampled_from(
    [None, None, None, "category", "string", "Int64", "boolean", "datetime64[ns]", "timedelta64[s]"]
)


@st.composite
def series(draw, n):
    values = draw(st.lists(draw(KINDS), min_size=n, max_size=n))
    column = pd.Series(values, dtype=object) if draw(st.booleans()) else _plain(values)
    dtype = draw(DTYPES)
    try:
        return column if dtype is None else column.astype(dtype)
    except Exception:  # what pandas cannot convert stays as it is
        return column


def _plain(values):
    try:
        return pd.Series(values)
    except Exception:
        return pd.Series(values, dtype=object)


@st.composite
def inputs(draw):
    n = draw(st.sampled_from([0, 1, 2, 5, 21, 60, 110]))
    columns = draw(st.lists(series(n), max_size=4))
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(n))
    frame.columns = pd.Index(draw(st.lists(NAMES, min_size=len(columns), max_size=len(columns))), dtype=object)
    if draw(st.integers(0, 3)):
        return frame, draw(series(n)), draw(st.sampled_from([None, None, *frame.columns]))
    labels = draw(st.integers(1, 3))
    values = draw(st.lists(st.sampled_from([-1, 0, 1, 1]), min_size=n * labels, max_size=n * labels))
    return frame, pd.DataFrame(np.array(values, dtype=int).reshape(n, labels)), None


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(inputs())
def test_a_diagnosis_or_a_value_error(given_inputs):
    features, tags, text = given_inputs
    try:
        diagnosis = diagnose(features, tags, text=None if text is None else str(text))
    except ValueError as error:
        if features.columns.map(str).is_unique and 0 not in features.shape:
            raise AssertionError("this input should have passed") from error
        return
    assert isinstance(diagnosis, Diagnosis)
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert max(map(len, diagnosis.to_text().splitlines())) <= 80
    assert diagnosis._repr_html_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, t: (pd.concat([x, x[["red"]]], axis=1), t), "names must be distinct; 'red'"),
        (lambda x, t: (x.iloc[:0], t.iloc[:0]), "at least one row"),
        (lambda x, t: (x[[]], t), "at least one row and one column"),
        (lambda x, t: (x, t.iloc[1:]), "features have 400 rows, tags 399"),
        (lambda x, t: (x, None), "tags is None"),
        (lambda x, t: (x, 3), "got int"),
        (lambda x, t: (x, np.zeros((400, 2, 2))), "1-D .* or 2-D"),
        (lambda x, t: (x, indicator(t) * 2), "1, 0 and −1 only; .* hold 2"),
        (lambda x, t: (x, indicator(t).astype(str).replace("1", "x")), "1, 0 and −1 only"),
        (lambda x, t: (x, indicator(t).set_axis(list("abca"), axis=1)), "label names must be distinct; 'a'"),
        (lambda x, t: (x, [[1, 0], [1]] * 200), "inhomogeneous"),
        (lambda x, t: ([[1, 0], [1]] * 200, t), "inhomogeneous"),
        (lambda x, t: (np.zeros((400, 2, 2)), t), "2-d"),
        (lambda x, t: (sparse.csr_array(np.ones((400, 2))), t), "got a sparse matrix"),
    ],
)
def test_what_does_not_fit_is_said(change, message):
    features, tags = change(*clean())
    for call in (diagnose, estimate_cardinality):
        with pytest.raises(ValueError, match=message):
            call(features, tags)


def test_options_that_do_not_fit():
    features, tags = clean()
    with pytest.raises(ValueError, match="no column 'prose'"):
        diagnose(features, tags, text="prose")


def test_forms_of_the_same_tags():
    features, tags = clean()
    expected = diagnose(features, tags)
    for same in (tags.tolist(), tags.to_numpy(), tags.to_frame(), tags.astype("category"), indicator(tags)):
        other = diagnose(features, same)
        assert dict(other.summary.label_counts) == dict(expected.summary.label_counts)
        assert [f.code for f in other.findings] == [f.code for f in expected.findings]
    assert diagnose(features, sparse.csr_array(indicator(tags).to_numpy())).summary.labels == 4


def test_a_series_of_texts():
    captions = pd.Series(["a quiet bay", "the old harbour", "a quiet bay", ""], name="caption")
    diagnosis = diagnose(captions, ["sea", "city", "sea", "city"], text="caption")
    assert {"row-duplicate", "row-empty"} <= {finding.code for finding in diagnosis.findings}


@pytest.mark.parametrize(
    ("column", "kind", "in_model"),
    [
        ([1, 2, 3] * 10, "number", "number"),
        (["yes", "no", None] * 10, "boolean", "boolean"),
        (["red", "blue", 3] * 10, "category", "category"),
        (pd.Series([7, 8, 9] * 10).astype("category"), "category", "category"),
        (["a dog runs", "a cat runs", "all of it"] * 10, "category", "category"),  # words are used only if asked for
        (pd.date_range("2020", periods=30), "date", "date"),
        ([[1], [2], [3]] * 10, "other", None),
    ],
)
def test_the_doctor_and_a_model_see_the_same_kind(column, kind, in_model):
    table = pd.DataFrame({"x": np.arange(30.0) ** 2, "odd": column})
    assert read_column(table["odd"], ColumnEncoder()).kind == kind
    assert ColumnEncoder().fit(table).kinds_.get("odd") == in_model


def test_the_doctor_says_of_columns_what_fit_says():
    table = pd.DataFrame(
        {
            "n": np.arange(60.0) ** 2,
            "when": pd.date_range("2020-02-03", periods=60, freq="9D").strftime("%B %d, %Y"),
            "length": [f"{i % 17} km" for i in range(60)],
            "colour": ["red", "blue", None] * 20,
            "flag": ["yes", "no"] * 30,
            "unit": "cm",
            "empty": None,
            "name": [f"n{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(60)],
        }
    )
    summary = diagnose(table, ["a", "b", "c"] * 20).summary
    assert dict(summary.became) == ColumnEncoder().fit(table).describe()
    assert [name for name, line in summary.became if line.startswith("left out")] == ["unit", "empty", "name"]
    assert [name for name, _ in summary.became[:3]] == ["unit", "empty", "name"]
    assert summary.columns == {"number": 1, "date": 1, "measure": 1, "category": 4, "boolean": 1}


def test_several_columns_of_text():
    table = pd.DataFrame({"title": ["sea", "..", "sun"] * 9, "plot": [f"a plot about thing {i}" for i in range(27)]})
    became = dict(diagnose(table, ["a", "b", "a"] * 9, text=["title", "plot"]).summary.became)
    assert became["title"] == became["plot"] == "text"


def test_a_column_is_coded_with_its_gaps():
    column = read_column(pd.Series([3, None, 3], name="size"), ColumnEncoder())
    assert (column.kind, column.codes.tolist()) == ("number", [0, -1, 0])
