"""Files of tables: opened once, read as text, numbers told from the whole column; written whole or not at all."""

import csv
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onepos.exceptions import DataFileError
from onepos.table import ColumnEncoder, Tally, read_chunks, read_table
from onepos.table.columns import NumberColumn, as_numbers
from onepos.table.files import column_names
from onepos.table.kinds import as_words
from onepos.table.writing import TableWriter, escape_formula, unescape_formula


def test_a_file_is_opened_once(tmp_path):
    table = pd.DataFrame({"n": range(50), "w": list("ab") * 25})
    table.to_csv(tmp_path / "a.csv", index=False)
    with mock.patch.object(Path, "open", autospec=True, side_effect=Path.open) as opened:
        data = read_table(tmp_path / "a.csv")
        assert opened.call_count == 1
        assert sum(len(piece.frame) for piece in read_chunks(tmp_path / "a.csv", rows=7)) == 50
    assert opened.call_count == 2
    assert data.frame["n"].tolist() == list(range(50))
    with mock.patch.object(Path, "open", autospec=True, side_effect=Path.open) as opened:
        (tmp_path / "b.csv").write_text("x,y\n1,2,3\n")
        with pytest.raises(DataFileError, match="line 2"):
            read_table(tmp_path / "b.csv")
    assert opened.call_count == 2  # one of them writes it
    assert data.as_written["n"].tolist() == [str(n) for n in range(50)]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_row_gives_the_same_features_in_any_batch(tmp_path, suffix):
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "n": random.normal(size=60).round(6),
            "whole": random.integers(-5, 5, 60),
            "flag": random.choice(["yes", "no"], 60),
            "colour": random.choice(["red", "blue", "NA"], 60),
            "when": [f"2020-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(60)],
            "length": [f"{60 + i} min" for i in range(60)],
        }
    )
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    whole = read_table(path).frame
    encoder = ColumnEncoder().fit(whole)
    expected = encoder.transform(whole)
    for rows in (1, 7, 1000):
        pieces = [encoder.transform(piece.frame) for piece in read_chunks(path, words=encoder.words_, rows=rows)]
        np.testing.assert_array_equal(np.concatenate(pieces), expected)
    index = [piece.frame.index for piece in read_chunks(path, rows=7)]
    assert np.concatenate(index).tolist() == list(range(60))


def test_numbers_are_those_that_pandas_reads(tmp_path):
    random = np.random.default_rng(0)
    values = random.normal(size=(300, 3)) * 10.0 ** random.uniform(-12, 12, (300, 3))
    pd.DataFrame(values, columns=list("abc")).to_csv(tmp_path / "a.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "a.csv").frame, values)


def test_what_is_a_number_and_what_stays_text(tmp_path):
    columns = {
        "gap": (["1", "?", " 3 "], [1.0, np.nan, 3.0]),
        "long": (["1234567890123456789012", "2", "3"], ["1234567890123456789012", "2", "3"]),
        "hex": (["0x10", "1", "2"], ["0x10", "1", "2"]),
        "words": (["1", "2", "three"], ["1", "2", "three"]),
        "flag": (["True", "False", "True"], ["True", "False", "True"]),
        "nothing": (["", "NA", "?"], [np.nan] * 3),
    }
    pd.DataFrame({name: cells for name, (cells, _) in columns.items()}).to_csv(tmp_path / "a.csv", index=False)
    frame = read_table(tmp_path / "a.csv").frame
    for name, (_, expected) in columns.items():
        pd.testing.assert_series_equal(frame[name].astype(object), pd.Series(expected, name=name, dtype=object))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines_blank_lines_and_columns_without_a_name(tmp_path, end):
    (tmp_path / "a.csv").write_bytes(end.join(["", '"a', 'b",,y', "1,2,3", "", '4,"5', '6",7', ""]).encode())
    frame = read_table(tmp_path / "a.csv").frame
    assert list(frame.columns) == [f"a{end}b", "Unnamed: 1", "y"]
    assert frame["y"].tolist() == [3, 7]
    assert frame["Unnamed: 1"].tolist() == ["2", f"5{end}6"]


def test_a_long_row_in_a_later_batch_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n5,6,7\n8,9\n")
    for rows in (1, 2, 3, 4):
        with pytest.raises(DataFileError, match="line 4 has 3 cells, the header 2"):
            list(read_chunks(tmp_path / "a.csv", rows=rows))


def test_names_and_the_share_that_was_read(tmp_path):
    pd.DataFrame({"a": range(9), "'=b": range(9)}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"a": range(9), "=b": range(9)}).to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        data = read_table(tmp_path / name)
        assert column_names(tmp_path / name) == list(data.frame.columns) == ["a", "=b"]
        assert ("a" in data.integers) == (name == "a.parquet")
        assert len(data.frame) == 9
        assert data.share == 1.0


def test_formats_of_the_benchmark_name_the_package_that_converts_them(tmp_path):
    with pytest.raises(DataFileError, match="pip install onepos-studies"):
        read_table(tmp_path / "yeast.arff")


@pytest.mark.parametrize(
    "cell", ["\n=1+1", " =1+1", "＝1+1", "=1+1", "@x", "-two", "'=1", "'plain", "-5", "+3,5%", "word", ""]
)
def test_escaped_cells_come_back(cell, tmp_path):
    assert unescape_formula(escape_formula(cell)) == cell
    written = io.StringIO()
    pd.DataFrame({"c": [escape_formula(cell)], "d": ["x"]}).to_csv(written, index=False)
    (tmp_path / "a.csv").write_text(written.getvalue())
    assert read_table(tmp_path / "a.csv", plain=["c"]).frame["c"].fillna("").tolist() == [cell]


def test_codes_keep_their_zeros(tmp_path):
    (tmp_path / "a.csv").write_text("zip,n,t\n80331,10,0.5\n,0,0.25\n01067,7,1\n")
    frame = read_table(tmp_path / "a.csv").frame
    assert frame["zip"].tolist()[::2] == ["80331", "01067"]
    assert frame["zip"].isna().tolist() == [False, True, False]
    assert frame[["n", "t"]].dtypes.map(str).tolist() == ["int64", "float64"]
    assert [piece.frame["zip"].tolist()[-1] for piece in read_chunks(tmp_path / "a.csv", rows=2)][-1] == "01067"
    # A stray zero, or months, are numbers.
    (tmp_path / "b.csv").write_text("price,month\n0.00,01\n05,12\n1.5,07\n")
    assert read_table(tmp_path / "b.csv").frame.dtypes.map(str).tolist() == ["float64", "int64"]


def test_a_csv_file_of_a_spreadsheet_may_have_semicolons(tmp_path):
    (tmp_path / "a.csv").write_bytes("\ufeffPreis;tag\n1,5;a\n2,25;b\n".encode())
    assert read_table(tmp_path / "a.csv").frame.to_dict("list") == {"Preis": ["1,5", "2,25"], "tag": ["a", "b"]}
    # The header decides; thousands with dots stay text for the column to judge, numbers with dots do not.
    (tmp_path / "b.csv").write_text("Preis, netto;kg;n\n916;1.5;3\n1.441;2.25;4\n")
    frame = read_table(tmp_path / "b.csv").frame
    assert frame["Preis, netto"].tolist() == ["916", "1.441"]
    assert frame[["kg", "n"]].dtypes.map(str).tolist() == ["float64", "int64"]


def test_tags_and_ids_are_text_as_it_stands(tmp_path):
    (tmp_path / "a.csv").write_text("id,tag,x\n07,NA,1\n08,None,?\n")
    frame = read_table(tmp_path / "a.csv", plain=["id", "tag"]).frame
    assert frame["id"].tolist() == ["07", "08"]
    assert frame["tag"].tolist() == ["NA", "None"]
    assert frame["x"].isna().tolist() == [False, True]
    assert [len(piece.frame) for piece in read_chunks(tmp_path / "a.csv", rows=1)] == [1, 1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv: is empty"),
        ("a.csv", b"x,y\n", "has a header and no row"),
        ("a.csv", b"x,y\n1,2,3\n", "not a readable table: line 2 has 3 cells, the header 2"),
        ("a.csv", b"x;y\n1;2\n1;2;3\n", "not a readable table: line 3 has 3 cells, the header 2"),
        ("a.csv", b'x,y\n1,"2\n', "not a readable table: .* Is the file complete"),
        ("a.csv", b"x\n\xff\xfe\n", "not UTF-8"),
        ("a.parquet", b"PAR1", "not a readable parquet file"),
        ("a.xlsx", b"", "not a readable Excel file"),
        ("a.txt", b"", "cannot tell the format of 'a.txt'"),
    ],
)
def test_unreadable_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        read_table(tmp_path / name)
    with pytest.raises(DataFileError, match=message):
        list(read_chunks(tmp_path / name))


def test_a_line_break_in_a_cell_or_a_name_ends_no_row(tmp_path):
    table = pd.DataFrame({"a\r=x": [f"{sign}=1+1" for sign in ("a\r", "a\r\n", "a\n", "\r", "\n", "")], "b": range(6)})
    for separator, suffix in ((",", ".csv"), ("\t", ".tsv")):
        with TableWriter(tmp_path / f"out{suffix}") as out:
            out.write(table)
            out.write(table)
        with (tmp_path / f"out{suffix}").open(newline="") as stream:
            rows = list(csv.reader(stream, delimiter=separator))
        assert len(rows) == 13
        assert not any(cell.startswith("=") for row in rows for cell in row)
        read = read_table(tmp_path / f"out{suffix}", plain=list(table.columns[:1])).frame
        assert list(read.columns) == list(table.columns)
        assert read.iloc[:, 0].tolist() == table.iloc[:, 0].tolist() * 2


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.decimal128(38)], ids=str)
@pytest.mark.parametrize("notes", [False, True])
def test_whole_numbers_with_gaps_are_exact(tmp_path, kind, notes):
    numbers = [(1 << 53) + i if i % 5 else None for i in range(40)]
    table = pa.table({"n": pa.array(numbers, kind), "x": [1.5] * 40})
    table = pa.Table.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype)) if notes else table
    pq.write_table(table, tmp_path / "a.parquet")
    column = read_table(tmp_path / "a.parquet").frame["n"]
    assert [None if word is None else int(word) for word in as_words(column)] == numbers
    pd.DataFrame({"n": [number or "" for number in numbers]}).to_csv(tmp_path / "a.csv", index=False)
    column = read_table(tmp_path / "a.csv").frame["n"]
    assert [None if word is None else int(word) for word in as_words(column)] == numbers


def test_whether_a_dot_means_thousands_does_not_depend_on_the_rows_beside(tmp_path):
    (tmp_path / "a.csv").write_text("n;x\n1.234;1\n0.5;2\n2;3\n")
    assert read_table(tmp_path / "a.csv").frame["n"].tolist() == [1.234, 0.5, 2.0]
    for train, expected in (
        (pd.DataFrame({"n": [1, 2, 3]}), None),
        (pd.DataFrame({"n": [1.5, 2, 3]}), [1.234, 0.5, 2]),
    ):
        column = NumberColumn.fit(train["n"], ColumnEncoder())
        for rows in (1, 2, 1000):
            pieces = read_chunks(tmp_path / "a.csv", numbers=["n"], rows=rows)
            if expected is None:
                with pytest.raises(DataFileError, match="Write thousands without dots"):
                    column.transform(next(pieces).frame["n"], Tally())
            else:
                values = np.concatenate([as_numbers(piece.frame["n"], column.holds) for piece in pieces])
                assert values.tolist() == expected


@pytest.mark.long
def test_a_table_with_very_many_columns_is_read_in_seconds(tmp_path):
    path, n = tmp_path / "wide.csv", 60_000
    path.write_text("\n".join([",".join(f"c{i}" for i in range(n)), ",".join("1" * n), ",".join("2" * n), ""]))
    code = (
        "import resource, sys, time; from onepos.table import read_table; start = time.process_time();"
        "assert read_table(sys.argv[1]).frame.shape == (2, 60_000);"
        "print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, ended.stdout.split())
    assert seconds < 15  # five on an idle machine
    assert megabytes < 600
