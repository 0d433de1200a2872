"""A table of mixed kinds in every format and dialect: equal features, exact ids and tags, or a refusal in one line."""

import csv
import datetime
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onepos.exceptions import DataFileError
from onepos.table import TableModel, read_chunks
from onepos.table.kinds import THOUSANDS
from onepos.table.prediction import reading_options
from onepos.table.tags import row_ids, split_tags
from onepos.table.writing import TableWriter, escape_formula
from sheets import write_sheet

LARGE = 1 << 53
# Characters of a file of text, of JSON and, without CR, of a sheet. Letters make words that differ after trimming.
SIGNS = st.text(st.sampled_from("ab0179 .,;|\t\n\r\"'=+-@_ßéΩ—😀\u00a0\u200b%€"), min_size=1, max_size=6)
WORDS = SIGNS.filter(lambda word: word.strip() == word and word.strip("?\u200b") != "")
NUMBERS = st.one_of(
    st.integers(-99, 99),
    st.sampled_from([0, 1, 1000, 1_234_567, LARGE + 1, -LARGE - 3, (1 << 63) - 1]),
)
DECIMALS = st.one_of(
    st.integers(-(10**6), 10**6).map(lambda number: number / 8),
    st.sampled_from([0.1, 1e-7, 1e22, -2.5e-300, 5.123, 12.345, 1.0, 2.0]),
)
MOMENTS = st.one_of(
    st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1)).map(
        lambda day: datetime.datetime(day.year, day.month, day.day)
    ),
    st.datetimes(datetime.datetime(1900, 3, 1), datetime.datetime(2199, 1, 1)).map(
        lambda moment: moment.replace(microsecond=0)
    ),
)
MEASURES = st.tuples(st.integers(1, 99), st.sampled_from(["m", "km", "min", "%"])).map(
    lambda pair: f"{pair[0]} {pair[1]}"
)
CODES = st.sampled_from(
    ["007", "012", "1.50", "1.5", "12", "3.0", "3", "1e3", "0x1F", "5.123", "1.234", "1,5", "Nan", "inf"]
)
TAGS = st.one_of(WORDS, st.sampled_from(["NA", "None", "sea", "city", "=city", "big\rhill"]))
POOLS = {
    "whole": (NUMBERS, pa.int64()),
    "number": (DECIMALS, pa.float64()),
    "flag": (st.booleans(), pa.bool_()),
    "word": (WORDS, pa.string()),
    "code": (CODES, pa.string()),
    "when": (MOMENTS, pa.timestamp("us")),
    "length": (MEASURES, pa.string()),
    "text": (st.lists(SIGNS, min_size=1, max_size=5).map(" ".join), pa.string()),
    "list": (st.lists(st.sampled_from(["Chile", "Peru", "Mali"]), min_size=1, max_size=3).map(", ".join), pa.string()),
}


@st.composite
def tables(draw):
    """Arrow columns of a few values each, with gaps; ids and tags."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    n, gaps = draw(st.integers(6, 40)), draw(st.sampled_from([0.0, 0.1, 0.5]))
    columns = {"sure": pa.array(random.normal(size=n))}
    for name, (values, kind) in POOLS.items():
        if draw(st.booleans()):
            pool = draw(st.lists(values, min_size=1, max_size=12))
            cells = [None if random.random() < gaps else pool[i] for i in random.integers(0, len(pool), n)]
            columns[name] = pa.array(cells, kind)
    tags = draw(st.one_of(st.lists(TAGS, min_size=2, max_size=5), st.just([LARGE + 1, LARGE + 2, LARGE + 3])))
    picked = [*tags, *(tags[i] for i in random.integers(0, len(tags), n))][:n]
    kind = pa.int64() if isinstance(tags[0], int) else pa.string()
    columns["tag"] = pa.array([None if i > len(tags) and i % 7 == 0 else tag for i, tag in enumerate(picked)], kind)
    ids = draw(st.sampled_from([lambda i: LARGE + i, lambda i: f"{i:03}", lambda i: f"r {i}\n=", lambda i: f"{i}.0"]))
    columns["id"] = pa.array([ids(i) for i in range(n)])
    return pa.table(columns)


def texts_of(table):
    """Cells as they stand in a file of text."""
    return {
        name: ["" if cell is None else str(cell) for cell in table[name].to_pylist()] for name in table.column_names
    }


def write_text(path, table, *, sep=",", end="\n", bom=False):
    cells = texts_of(table)
    rows = [[escape_formula(cell) for cell in row] for row in zip(*cells.values(), strict=True)]
    # The csv module leaves line breaks other than its own without quotes.
    breaks = any(sign in cell for row in rows for cell in row for sign in "\r\n")
    quoting = csv.QUOTE_ALL if breaks else csv.QUOTE_MINIMAL
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as stream:
        csv.writer(stream, delimiter=sep, lineterminator=end, quoting=quoting).writerows([cells, *rows])


def write_decimal_commas(path, table):
    number = pa.array([cell.replace(".", ",") for cell in texts_of(table)["sure"]])
    write_text(path, table.set_column(0, "sure", number), sep=";")


def write_json(path, table):
    lines = []
    for number, row in enumerate(table.to_pylist()):
        cells = {name: str(cell) if isinstance(cell, datetime.datetime) else cell for name, cell in row.items()}
        lines.append(json.dumps({name: cell for name, cell in cells.items() if cell is not None or number % 2}))
    path.write_text("\n".join(lines), encoding="utf-8")


def write_excel(path, table):
    rows = [[sheet_cell(cell) for cell in row.values()] for row in table.to_pylist()]
    write_sheet(path, [table.column_names, *rows])


def sheet_cell(cell):
    """A cell as people write it: Excel has no days before 1900, no time of midnight, and 15 digits."""
    if isinstance(cell, datetime.datetime) and (cell.year < 1901 or cell.time() == datetime.time()):
        return str(cell)
    return str(cell) if type(cell) is int and abs(cell) >= 10**15 else escape_formula(cell)


def cast(table, **types):
    for name, kind in types.items():
        if name in table.column_names and (kind != WORD or pa.types.is_string(table[name].type)):
            table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    return table


def write_pandas(path, table, types):
    table.to_pandas(types_mapper=types).to_parquet(path)


def write_own(path, table):
    with TableWriter(path) as out:
        out.write(table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get))


WORD = pa.dictionary(pa.int32(), pa.string())
PARQUET = {
    "plain": {},
    "dictionary": dict.fromkeys(("word", "code", "length", "text", "tag", "list"), WORD),
    "large": dict.fromkeys(("word", "text"), pa.large_string()),
    "decimal": {"whole": pa.decimal128(38, 0)},
    "seconds": {"when": pa.timestamp("s")},
    "milliseconds": {"when": pa.timestamp("ms")},
}
COPIES = {
    "comma.csv": write_text,
    "windows.csv": lambda path, table: write_text(path, table, end="\r\n", bom=True),
    "mac.csv": lambda path, table: write_text(path, table, end="\r"),
    "semicolon.csv": lambda path, table: write_text(path, table, sep=";"),
    "tab.tsv": lambda path, table: write_text(path, table, sep="\t"),
    "decimal_comma.csv": write_decimal_commas,
    "lines.jsonl": write_json,
    "sheet.xlsx": write_excel,
    "nullable.parquet": lambda path, table: write_pandas(path, table, {pa.int64(): pd.Int64Dtype()}.get),
    "arrow.parquet": lambda path, table: write_pandas(path, table, pd.ArrowDtype),
    "own.csv": write_own,
    "own.tsv": write_own,
    "own.parquet": write_own,
} | {
    f"{name}.parquet": lambda path, table, types=types: pq.write_table(cast(table, **types), path, row_group_size=17)
    for name, types in PARQUET.items()
}
SOURCES = [name for name in COPIES if name != "decimal_comma.csv"]


def may_be_refused(name, table):
    """Why a copy may be refused: nothing says what its cells mean."""
    cells = texts_of(table)
    if name == "decimal_comma.csv":
        return True
    if name.endswith(".xlsx"):
        return any(abs(cell) >= LARGE for cell in table.to_pydict().get("number", []) if cell)
    return name == "semicolon.csv" and any(
        re.fullmatch(THOUSANDS, cell) for column in cells.values() for cell in column
    )


def one_line(error):
    assert str(error)
    assert "\n" not in str(error)
    return str(error)


def read(model, path, rows):
    """Return features, ids and tags; or why the file is refused."""
    try:
        pieces = [piece.frame for piece in read_chunks(path, **reading_options(model), rows=rows)]
        features = [model.encoder_.transform(piece[list(piece.columns[::-1])]) for piece in pieces]
        tags = np.vstack([split_tags(piece["tag"], None, model.labels_) for piece in pieces])
        ids = [name for piece in pieces for name in row_ids(piece, "id")]
    except DataFileError as error:
        return one_line(error)
    return np.vstack([one.toarray() if hasattr(one, "toarray") else one for one in features]), ids, tags


def check(table, source, names, rows):
    # XML makes LF of CR.
    has_cr = any("\r" in cell for column in texts_of(table).values() for cell in column)
    names = [name for name in names if not (has_cr and name.endswith(".xlsx"))]
    source = "plain.parquet" if has_cr and source.endswith(".xlsx") else source
    with TemporaryDirectory() as folder:
        path = Path(folder, source)
        COPIES[source](path, table)
        try:
            model = TableModel(method="frequency", text="text" if "text" in table.column_names else (), id="id")
            model.fit(path, label="tag")
        except DataFileError as error:
            one_line(error)
            return
        features, ids, tags = read(model, path, 1 << 20)
        assert ids == [cell.strip() for cell in texts_of(table)["id"]]
        for name in (*names, source):
            path = Path(folder, name)
            COPIES[name](path, table)
            copy = read(model, path, rows)
            if isinstance(copy, str):
                assert may_be_refused(name, table), (name, copy)
                continue
            np.testing.assert_array_equal(copy[0], features, name)
            assert copy[1] == ids, name
            np.testing.assert_array_equal(copy[2], tags, name)


ANY = given(
    table=tables(),
    source=st.sampled_from(SOURCES),
    names=st.lists(st.sampled_from(list(COPIES)), min_size=2, max_size=4, unique=True),
    rows=st.sampled_from([1, 5, 1 << 20]),
)
quick = settings(max_examples=300, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))


@pytest.mark.filterwarnings("ignore::onepos.exceptions.LabelWarning")
@quick
@ANY
def test_copies_of_a_table_are_the_same_table(table, source, names, rows):
    check(table, source, names, rows)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::onepos.exceptions.LabelWarning")
@pytest.mark.parametrize("part", range(20))
def test_copies_of_many_tables_are_the_same_tables(part):
    hypothesis.seed(part)(settings(quick, max_examples=1000, database=None, derandomize=False)(ANY(check)))()
