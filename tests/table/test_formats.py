"""JSON lines, Excel, folders and samples: the same table as the CSV file, or one line that says what is wrong."""

import csv
import json
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepos.exceptions import DataFileError
from onepos.table import TableModel, read_chunks, read_table
from onepos.table import files as table_files
from onepos.table import formats as table_formats
from sheets import write_sheet


def frame(n_rows=120):
    random = np.random.default_rng(0)
    made = pd.DataFrame({"n": random.normal(size=n_rows).round(3), "whole": random.integers(0, 9, n_rows)})
    made["word"] = random.choice(["red", "blue", "a,b", ""], n_rows)
    made["tag"] = random.choice(["sea", "city"], n_rows)
    made["id"] = [f"r{i:03}" for i in range(n_rows)]
    return made


def write(path, table):
    if path.suffix == ".jsonl":
        rows = [{name: cell for name, cell in row.items() if cell != ""} for row in table.to_dict("records")]
        path.write_text("\n".join(map(json.dumps, rows)))
    elif path.suffix == ".xlsx":
        write_sheet(path, [list(table.columns), *table.to_numpy().tolist()])
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".xlsx"])
def test_a_table_in_another_format_is_the_same_table(tmp_path, suffix):
    paths = [write(tmp_path / f"a{ending}", frame()) for ending in (".csv", suffix)]
    expected, made = (read_table(path, plain=["id", "tag"]) for path in paths)
    pd.testing.assert_frame_equal(made.frame, expected.frame)
    models = [TableModel(method="frequency", id="id").fit(path, label="tag") for path in paths]
    assert models[0].encoder_.describe() == models[1].encoder_.describe()
    for rows in (7, 1000):
        pieces = pd.concat([piece.frame for piece in read_chunks(paths[1], plain=["id", "tag"], rows=rows)])
        assert pieces["id"].tolist() == expected.frame["id"].tolist()
        assert pieces["n"].tolist() == expected.frame["n"].tolist()


def test_types_of_json_lines(tmp_path):
    rows = [
        {"i": (1 << 53) + 1, "s": "07", "f": 1, "l": ["a", "b"], "b": True},
        {},
        {"f": 2.5, "new": "x", "i": 1 << 70},
    ]
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n")
    made = read_table(tmp_path / "a.jsonl").frame
    assert made["i"].dropna().tolist() == [str((1 << 53) + 1), str(1 << 70)]
    assert made["s"].tolist()[0] == "07"
    assert made["f"].tolist()[::2] == [1.0, 2.5]
    assert list(made["l"][0]) == ["a", "b"]
    assert made["new"].isna().tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ('{"a": 1}\n{"a": \n', "line 2 is no JSON object"),
        ('{"a": 1}\n[1]\n', "line 2 holds list"),
        ('{"a": 1, "a": 2}\n', "a name comes twice"),
        ('{"a": NaN}\n', "NaN is no JSON"),
        ('{"a": 1}\n{"a": "x"}\n', "column 'a' holds values of several types in rows 1 to 2"),
        ("[" * 100_000, "line 1 is no JSON object"),
    ],
)
def test_json_lines_that_are_refused(tmp_path, content, said):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(DataFileError, match=said) as refused:
        read_table(tmp_path / "a.jsonl")
    assert "\n" not in str(refused.value)


def test_sheets(tmp_path):
    path = tmp_path / "a.xlsx"
    write_sheet(path, [["n", "s"], [1, "x"], [None, None], [2.5, "y"]], names=("first", "other"))
    assert read_table(path).frame.to_dict("list") == {"n": [1.0, 2.5], "s": ["x", "y"]}
    assert read_table(path, sheet="other").frame.shape == (2, 2)
    with pytest.raises(DataFileError, match=r"no sheet 'third'; it has: first, other"):
        read_table(path, sheet="third")
    (tmp_path / "b.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataFileError, match=r"b\.csv is no Excel file"):
        read_table(tmp_path / "b.csv", sheet="first")
    write_sheet(path, [["id"], [(1 << 53) + 1]])
    with pytest.raises(DataFileError, match="Excel keeps 15 digits"):
        read_table(path)


def test_a_sheet_that_unpacks_to_very_much_is_refused(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as file,
        file.open("bomb", "w", force_zip64=True) as part,
    ):
        for _ in range(1100):
            part.write(bytes(1 << 20))
    with pytest.raises(DataFileError, match="looks like an attack"):
        read_table(tmp_path / "a.xlsx")


def test_the_files_of_a_folder_are_one_table(tmp_path):
    table = frame()
    for number, part in enumerate(np.array_split(np.arange(len(table)), 4)):
        columns = list(table.columns)[:: -1 if number == 2 else 1]
        table.iloc[part][columns].to_csv(tmp_path / f"{number}.csv", index=False)
    (tmp_path / "4.csv").write_text(",".join(table.columns) + "\n")
    table.to_csv(tmp_path.with_suffix(".csv"), index=False)
    data, expected = read_table(tmp_path), read_table(tmp_path.with_suffix(".csv"))
    pd.testing.assert_frame_equal(data.frame, expected.frame)
    assert data.notes == []
    table.drop(columns="n").to_csv(tmp_path / "5.csv", index=False)
    with pytest.raises(DataFileError, match=r"5\.csv has other columns than 0\.csv; they differ in n"):
        read_table(tmp_path)
    table.to_parquet(tmp_path / "6.parquet")
    with pytest.raises(DataFileError, match=r"files of several formats \(\.csv, \.parquet\)"):
        read_table(tmp_path)


def test_a_sample_is_random_reproducible_and_no_matter_of_pieces(tmp_path, monkeypatch):
    n = 40_000
    pd.DataFrame({"row": np.arange(n), "word": ["x" * 20] * n}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"row": np.arange(n), "word": ["x" * 20] * n}).iloc[: n // 3].to_csv(tmp_path / "b.csv", index=False)
    whole = read_table(tmp_path / "a.csv", most_bytes=1 << 30)
    assert whole.notes == []
    samples = []
    for block in (1 << 15, 1 << 22):
        monkeypatch.setattr(table_formats, "_BLOCK", block)
        samples.append(read_table(tmp_path / "a.csv", most_bytes=1 << 19))
    rows = samples[0].frame["row"].to_numpy()
    assert rows.tolist() == samples[1].frame["row"].tolist() == samples[0].frame.index.tolist()
    assert n / 8 < len(rows) < n / 2  # 40,000 rows have 1.3 MB
    assert samples[0].n_rows == 40_000
    assert f"{len(rows):,} of 40,000 rows are used, drawn at random" in samples[0].notes[0]
    # Uniform: the share of the sample in each tenth of the file, and of even rows, is what chance allows.
    tenths = np.bincount(rows * 10 // n, minlength=10)
    assert np.abs(tenths - len(rows) / 10).max() < 4 * np.sqrt(len(rows) / 10)
    assert abs((rows % 2).mean() - 0.5) < 4 * 0.5 / np.sqrt(len(rows))
    # The beginning of a longer file is sampled as the file itself.
    short = read_table(tmp_path / "b.csv", most_bytes=1 << 17).frame["row"].to_numpy()
    assert set(short) <= set(rows) or set(rows[rows < n // 3]) <= set(short)


def test_a_model_of_a_sample_says_so_and_needs_ids_for_decisions(tmp_path, monkeypatch):
    monkeypatch.setattr("onepos.table.model.SAMPLE_BYTES", 3000)
    path = write(tmp_path / "a.csv", frame())
    model = TableModel(method="frequency", drop="id").fit(path, label="tag")
    assert model.facts_["rows"] < 120
    assert "of 120 rows are used, drawn at random" in model.facts_["notes"][0]
    decisions = pd.DataFrame({"id": ["1"], "label": ["sea"], "decision": ["accept"]})
    with pytest.raises(DataFileError, match="decisions need ids"):
        TableModel(method="frequency", drop="id").fit(path, label="tag", decisions=decisions)


def test_a_row_longer_than_a_block(tmp_path, monkeypatch):
    table = pd.DataFrame({"a": ["x", "y" * 5000, "z\n" * 1000, "w"], "b": [1, 2, 3, 4]})
    table.to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr(table_formats, "_BLOCK", 1000)
    assert read_table(tmp_path / "a.csv").frame.to_dict("list") == table.to_dict("list")
    monkeypatch.setattr(table_formats, "_LARGEST_BLOCK", 1000)
    with pytest.raises(DataFileError, match="straddl"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("cell", ['"', '""', "", "a", 'a"', ",", "\n", "a\n", '"a'])
def test_quotes_that_are_never_closed(tmp_path, cell, end):
    path = tmp_path / "a.csv"
    quoted = '"' + cell.replace('"', '""')
    path.write_bytes(f'x,y\n1,{quoted}"{end}'.encode())
    assert read_table(path, plain=["y"]).frame["y"].fillna("").tolist() == [cell]
    path.write_bytes(f"x,y\n1,{quoted}{end}".encode())
    with pytest.raises(DataFileError, match="never closed"):
        read_table(path, plain=["y"])


@pytest.mark.parametrize("row", ["1", "1,2,3"])
def test_rows_of_another_length(tmp_path, row):
    (tmp_path / "a.csv").write_text(f"x,y\n1,2\n{row}\n3,4\n")
    with pytest.raises(DataFileError, match=f"line 3 has {len(row.split(','))} cells, the header 2"):
        read_table(tmp_path / "a.csv")


NUMBERS = st.one_of(
    st.text("0123456789.,eE+-' ", min_size=1, max_size=8),
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.floats().map(repr),
    st.sampled_from(["nan", "Nan", "inf", "-Infinity", "0x10", "1_000", "True", "٣", "1e400", " 5", "5\t", "5\u00a0"]),
)


@given(st.lists(NUMBERS, min_size=1, max_size=4))
def test_numbers_are_what_pandas_takes_for_numbers(texts):
    """The oracle reads each text by itself, as predict does for a cell of a column of numbers."""
    made = table_files._numbers(pa.chunked_array([texts]), ",", known=True)
    read = [pd.to_numeric(pd.Series([text], dtype=object), errors="coerce")[0] for text in texts]
    codes = {len(text.strip()) for text in texts} if any(text.strip().startswith("0") for text in texts) else set()
    if len(codes) == 1 and codes.pop() >= 3 and all(text.strip().isdigit() for text in texts):
        assert made is None
    elif made is not None:
        assert np.asarray(made, dtype=np.float64).tolist() == [float(value) for value in read]
    else:
        large = any(text.strip().lstrip("+-").isdigit() and len(text.strip()) >= 19 for text in texts)
        assert large or np.isnan(np.asarray(read, dtype=np.float64)).any()


CELLS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), st.sampled_from([",", ";", "\t"]))
def test_cells_are_what_the_csv_module_wrote(tmp_path_factory, rows, separator):
    path = tmp_path_factory.mktemp("cells") / ("a.tsv" if separator == "\t" else "a.csv")
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=separator, quoting=csv.QUOTE_ALL)
        writer.writerows([("a", "b", "c"), *rows])
    cells = table_formats.pieces_of(path)
    made = pa.concat_tables([piece.cells for piece in cells]).to_pylist()
    expected = [[cell[1:] if table_formats.unescape_formula(cell) != cell else cell for cell in row] for row in rows]
    assert [list(row.values()) for row in made] == expected
