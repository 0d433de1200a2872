"""The ARFF reader against SciPy's, against files written by hand, and against broken ones."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import arff as scipy_arff

from onepos.exceptions import DataFileError
from onepos_studies.datasets import read

HEADER = "@relation r\n@attribute a numeric\n@attribute b real\n@attribute L {0,1}\n@data\n"


def write(folder, text, name="t.arff", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("name", ["CAL500/cal500.arff", "yeast/yeast.arff"])
def test_dense_file_agrees_with_scipy(data_folder, name):
    table = read(data_folder / name)
    records, _ = scipy_arff.loadarff(data_folder / name)
    for column, feature in enumerate(table.feature_names):
        np.testing.assert_array_equal(table.X[:, column], records[feature].astype(np.float32))
    for column, label in enumerate(table.label_names):
        np.testing.assert_array_equal(table.Y[:, column], records[label].astype(np.int64))


def test_sparse_file_agrees_with_a_plain_parser(data_folder):
    path = data_folder / "corel5k" / "Corel5k-sparse.arff"
    table = read(path, xml=data_folder / "corel5k" / "Corel5k.xml")
    body = re.split("@data", path.read_text(), flags=re.IGNORECASE)[1].strip().splitlines()
    expected = np.zeros((len(body), 873))
    for row, line in enumerate(body):
        for pair in line.strip("{}").split(","):
            index, value = pair.split()
            expected[row, int(index)] = float(value)
    assert sparse.issparse(table.X)
    np.testing.assert_array_equal(np.hstack([table.X.toarray(), table.Y]), expected)


def test_quotes_comments_case_and_missing_values(tmp_path):
    text = (
        "% a comment\n@RELATION 'my data'\n\n@Attribute 'first one' NUMERIC\n"
        '@attribute "it\'s" Integer\n'
        "@attribute colour {red, 'dark blue', \"x,y\"}\n@attribute flag {0,1}\n"
        "@attribute 'the label' {0,1}\n"
        "@Data\n% another\n1.5, ?, red, 1, 1\n\n-2e1,3,'dark blue',0,0\n0,0,\"x,y\",?,1\n4,4,?,1,0\r\n"
    )
    table = read(write(tmp_path, text), labels=1)
    assert table.feature_names == (
        "first one",
        "it's",
        "colour=red",
        "colour=dark blue",
        "colour=x,y",
        "flag",
    )
    assert table.label_names == ("the label",)
    nan = np.nan
    expected = [[1.5, nan, 1, 0, 0, 1], [-20, 3, 0, 1, 0, 0], [0, 0, 0, 0, 1, nan], [4, 4, nan, nan, nan, 1]]
    np.testing.assert_array_equal(table.X, np.array(expected, dtype=np.float32))
    np.testing.assert_array_equal(table.Y.ravel(), [1, 0, 1, 0])


def test_what_a_sparse_row_leaves_out_is_the_first_nominal_value(tmp_path):
    text = (
        "@relation r\n@attribute n numeric\n@attribute c {red,green}\n@attribute f {1,0}\n"
        "@attribute L {0,1}\n@data\n"
        "{}\n{0 2.5, 1 green, 2 0, 3 1}\n{ 3 1 , 0 ? }\n"
    )
    table = read(write(tmp_path, text), labels=1)
    assert table.feature_names == ("n", "c=red", "c=green", "f")
    expected = [[0, 1, 0, 1], [2.5, 0, 1, 0], [np.nan, 1, 0, 1]]
    np.testing.assert_array_equal(table.X.toarray(), np.array(expected, dtype=np.float32))
    np.testing.assert_array_equal(table.Y.ravel(), [0, 1, 1])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.floats(allow_nan=False, width=32), st.floats(allow_nan=False, width=32), st.integers(0, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_dense_and_sparse_writing_read_the_same(tmp_path, rows):
    dense = HEADER + "".join(f"{a!r},{b!r},{c}\n" for a, b, c in rows)
    thin = HEADER + "".join(f"{{0 {a!r},1 {b!r},2 {c}}}\n" for a, b, c in rows)
    one = read(write(tmp_path, dense, "dense.arff"), labels=1)
    two = read(write(tmp_path, thin, "thin.arff"), labels=1)
    expected = np.array([row[:2] for row in rows], dtype=np.float32)
    # pandas' fast float parser may differ from Python's in the last bit of a double: not of a float32.
    np.testing.assert_array_equal(one.X, expected)
    np.testing.assert_array_equal(two.X.toarray(), expected)
    np.testing.assert_array_equal(one.Y, two.Y)


def test_labels_by_number_names_xml_and_meka(tmp_path):
    body = "@attribute x numeric\n@attribute A {0,1}\n@attribute B {0,1}\n@data\n1,0,1\n2,1,0\n"
    path = write(tmp_path, "@relation r\n" + body)
    assert read(path, labels=2).label_names == ("A", "B")
    assert read(path, labels=["B"]).label_names == ("B",)
    first = write(tmp_path, "@relation r\n@attribute A {0,1}\n@attribute x numeric\n@data\n1,5\n", "first.arff")
    assert read(first, labels=-1).label_names == ("A",)
    meka = write(tmp_path, "@relation 'r: -C -2'\n" + body, "meka.arff")
    assert read(meka).label_names == ("A", "B")
    (tmp_path / "t.xml").write_text('<labels><label name="B"><label name="A"/></label></labels>')
    assert read(path).label_names == ("A", "B")  # the order is the ARFF file's
    with pytest.raises(ValueError, match="not both"):
        read(path, labels=1, xml=tmp_path / "t.xml")


@pytest.mark.parametrize(("values", "yes"), [("{false,true}", "true"), ("{yes,no}", "yes"), ("{-1,1}", "1")])
def test_other_ways_to_write_a_label(tmp_path, values, yes):
    no = next(v for v in values.strip("{}").split(",") if v != yes)
    path = write(tmp_path, f"@relation r\n@attribute x numeric\n@attribute L {values}\n@data\n1,{yes}\n2,{no}\n")
    np.testing.assert_array_equal(read(path, labels=1).Y.ravel(), [1, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "1,2,0\n1,2\n", r"t\.arff: not a readable ARFF file .*in line 7: 1,2"),
        (HEADER + "1,2,0,4\n", "line 6: 1,2,0,4"),
        (HEADER + "1,2,0\n1,zwei,1\n", "Invalid numerical value, at line 7"),
        (HEADER + "1,2,7\n", "value 7 not found in nominal declaration, at line 6"),
        (HEADER + "1,2,?\n", "row 1: label 'L' must be 0/1"),
        (HEADER + "{0 1, 2 1}\n{0 1, 2", "line 7.*Is it complete"),
        (HEADER + "{0 1 2, 2}\n", "line 6"),
        (HEADER + "{3 1}\n", "line 6"),
        (HEADER + "{0 zwei}\n", "line 6"),
        (HEADER + "{2 9}\n", "line 6"),
        (HEADER + "{0 1}\n1,2,0\n", "line 7"),
        (HEADER, "no row follows @data"),
        (HEADER.replace("@data\n", ""), "Invalid layout"),
        (HEADER.replace("a numeric", "a string") + "x,2,0\n", "'a' is text"),
        (HEADER.replace("a numeric", "a date 'yyyy'") + "1,2,0\n", "line 2"),
        (HEADER.replace("a numeric", "b numeric") + "1,2,0\n", "name b at line 3, this name is already in use"),
        (HEADER.replace("{0,1}", "{0,1") + "1,2,0\n", "line 4"),
        (HEADER.replace("a numeric", "a") + "1,2,0\n", "line 2"),
        ("a,b,c\n1,2,3\n", "not a readable ARFF file"),
        ("\0\1\2", "not a readable ARFF file"),
    ],
)
def test_broken_file_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        read(write(tmp_path, text), labels=1)


def test_nothing_says_which_are_labels(tmp_path):
    path = write(tmp_path, HEADER + "1,2,0\n")
    with pytest.raises(DataFileError, match=r"no t\.xml beside it.*labels="):
        read(path)
    with pytest.raises(DataFileError, match="labels=3 leaves no feature"):
        read(path, labels=3)
    with pytest.raises(DataFileError, match="not among its attributes: \\['Z'\\]"):
        read(path, labels=["Z"])


def test_latin1_names(tmp_path):
    path = write(tmp_path, HEADER.replace("a numeric", "'größe' numeric") + "1,2,0\n", encoding="latin-1")
    assert read(path, labels=1).feature_names == ("größe", "b")
