"""One table in every format and dialect: equal features, exact ids and tags, or a refusal in one line."""

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onepos.exceptions import DataFileError
from onepos.table import TableModel, read_chunks
from onepos.table.prediction import reading_options
from onepos.table.tags import row_ids, split_tags
from onepos.table.writing import TableWriter

LARGE = 1 << 53
WORDS = ["red", "blue", "dark green", "=sum", "-two", "Straße", 'say "hi"', "a;b", "a,b", "a\tb"]
TEXTS = [
    "sea and sun in May",
    "one\nline and another",
    "one\rline more or less",
    "one\r\nline for all",
    "  so many blanks ",
]
CLASSES = [["sea", "sun", "=city", "big\rhill"], [LARGE + 1, LARGE + 2, LARGE + 3]]


def draw(random):
    """Return typed columns: an Arrow array for each, and its cells as they stand in a file of text."""
    n = int(random.integers(30, 60))
    gaps = random.random((n, 8)) < random.choice([0.0, 0.1])
    classes = CLASSES[random.integers(2)]
    start = pd.Timestamp("1999-12-31T23:59:58")
    moments = [start + pd.Timedelta(seconds=int(s)) for s in random.integers(0, 10**9, n)]
    values = {
        "whole": (random.integers(-9, 9, n) * random.choice([1, 1000, LARGE])).tolist(),
        "number": (random.integers(-9000, 9000, n) / 8 + 0.125).tolist(),
        "flag": random.choice([True, False], n).tolist(),
        "colour": random.choice(WORDS[: random.integers(2, 11)], n).tolist(),
        "when": moments,
        "length": [
            f"{i} {unit}" for i, unit in zip(random.integers(1, 90, n), random.choice(["m", "km"], n), strict=True)
        ],
        "text": [f"{a} {b}" for a, b in zip(random.choice(TEXTS, n), random.choice(WORDS, n), strict=True)],
        "tag": [classes[i] for i in random.integers(0, len(classes), n)],
    }
    values = {
        name: [None if gap else value for value, gap in zip(column, gaps[:, i], strict=True)]
        for i, (name, column) in enumerate(values.items())
    }
    values["id"] = [LARGE + i for i in range(n)]
    types = {
        "whole": pa.int64(),
        "number": pa.float64(),
        "flag": pa.bool_(),
        "when": pa.timestamp("us"),
        "id": pa.int64(),
    }
    types["tag"] = pa.int64() if classes is CLASSES[1] else pa.string()
    arrow = pa.table({name: pa.array(column, types.get(name, pa.string())) for name, column in values.items()})
    cells = {name: ["" if value is None else str(value) for value in column] for name, column in values.items()}
    return arrow, cells


def write_text(path, cells, *, sep=",", end="\n", bom=False, quoting=csv.QUOTE_ALL, comma=False):
    cells = cells | {"number": [cell.replace(".", ",") for cell in cells["number"]]} if comma else cells
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=sep, lineterminator=end, quoting=quoting)
        writer.writerows([cells, *zip(*cells.values(), strict=True)])


def cast(arrow, **types):
    for name, kind in types.items():
        arrow = arrow.set_column(arrow.schema.get_field_index(name), name, arrow[name].cast(kind))
    return arrow


def write_copies(folder, arrow, cells):
    """Write a table in all ways; return the paths by the name of the way."""
    words = pa.dictionary(pa.int32(), pa.string())
    for sep, name in ((",", "comma.csv"), (";", "semicolon.csv"), ("\t", "tab.tsv")):
        write_text(folder / name, cells, sep=sep)
        write_text(folder / f"bom_{name}", cells, sep=sep, end="\r\n", bom=True)
    write_text(folder / "old_mac.csv", cells, end="\r")
    write_text(folder / "decimal_comma.csv", cells, sep=";", comma=True)
    parquet = {
        "plain": arrow,
        "dictionary": cast(arrow, colour=words, length=words, text=words),
        "large": cast(arrow, colour=pa.large_string(), text=pa.large_string(), id=pa.uint64()),
        "decimal": cast(arrow, number=pa.decimal128(20, 3), id=pa.decimal128(38, 0)),
        "narrow": cast(arrow, number=pa.float32()),
    }
    parquet |= {unit: cast(arrow, when=pa.timestamp(unit)) for unit in ("s", "ms", "ns")}
    for name, table in parquet.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=17)
    nullable = arrow.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get)
    nullable.to_parquet(folder / "nullable.parquet")
    arrow.to_pandas(types_mapper=pd.ArrowDtype).to_parquet(folder / "arrow.parquet")
    for name in ("written.csv", "written.tsv", "written.parquet"):
        with TableWriter(folder / name) as out:
            out.write(nullable)
    return sorted(path for path in folder.iterdir() if path.suffix != ".onepos")


def read(model, path, rows):
    """Return features, ids and tags; or why the file is refused."""
    try:
        pieces = [piece.frame for piece in read_chunks(path, **reading_options(model), rows=rows)]
        features = [model.encoder_.transform(piece[list(piece.columns[::-1])]) for piece in pieces]
        tags = np.vstack([split_tags(piece["tag"], None, model.labels_) for piece in pieces])
        ids = [name for piece in pieces for name in row_ids(piece, "id")]
    except DataFileError as error:
        return str(error)
    return np.vstack([one.toarray() if hasattr(one, "toarray") else one for one in features]), ids, tags


def check(folder, seed):
    random = np.random.default_rng(seed)
    arrow, cells = draw(random)
    paths = write_copies(folder, arrow, cells)
    source = folder / random.choice(["comma.csv", "plain.parquet", "nullable.parquet", "tab.tsv", "arrow.parquet"])
    how = {"plain": ["id", "tag", "text"]}
    frame = next(read_chunks(source, **how, rows=1 << 20)).frame
    model = TableModel(method="frequency", text="text", id="id").fit(frame, label="tag")
    features, ids, tags = read(model, source, 1 << 20)
    assert ids == cells["id"]
    observed = [model.labels_[row.argmax()] if row.any() else "" for row in tags]
    assert observed == [cell.strip() for cell in cells["tag"]]
    for path in paths:
        for rows in (1 << 20, int(random.integers(1, 20))):
            copy = read(model, path, rows)
            where = f"seed {seed}: {path.name} in pieces of {rows} against {source.name}"
            if isinstance(copy, str):
                assert path.name == "decimal_comma.csv", where
                assert "\n" not in copy
                continue
            np.testing.assert_array_equal(copy[0], features, where)
            assert copy[1] == ids, where
            np.testing.assert_array_equal(copy[2], tags, where)


@pytest.mark.parametrize("seed", range(8))
def test_copies_of_a_table_are_the_same_table(tmp_path, seed):
    check(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(8, 308, 50))
def test_copies_of_many_tables_are_the_same_tables(tmp_path, first):
    for seed in range(first, first + 50):
        (tmp_path / str(seed)).mkdir()
        check(tmp_path / str(seed), seed)
