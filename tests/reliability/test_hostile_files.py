"""Files made to do harm: bombs, absurd sizes, pickles, ways out of a folder. Each is refused, cheaply and in words."""

import pickle

import pandas as pd
import pytest

import onepos
from onepos.exceptions import DataFileError
from onepos.table import read_table


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return (open, (self.trace, "w"))


def test_pickles_are_not_unpickled(tmp_path):
    trace = tmp_path / "trace"
    for name in ("model.onepos", "frame.parquet", "rows.csv"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(onepos.exceptions.ModelFileError):
        onepos.load(tmp_path / "model.onepos")
    for name in ("frame.parquet", "rows.csv"):
        with pytest.raises(DataFileError):
            read_table(tmp_path / name)
    assert not trace.exists()


def test_a_parquet_file_of_a_billion_rows_in_a_few_bytes(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "bomb.parquet"
    nothing = arrow.nulls(1 << 22)
    table = arrow.table(dict.fromkeys(("tag", "a", "b", "c"), nothing))
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(10):
            writer.write_table(table)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DataFileError, match=r"41,943,040 rows of 4 columns in .* looks like an attack"):
        read_table(path)


def test_a_parquet_file_whose_pandas_notes_are_broken_is_read_by_its_types(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "notes.parquet"
    pd.DataFrame({"tag": ["a", "b"], "x": [1.0, 2.0]}).to_parquet(path)
    content = path.read_bytes()
    assert content.count(b'"numpy_type"') > 1
    path.write_bytes(content.replace(b'"numpy_type"', b'"bumpy_type"'))
    assert read_table(path).frame.to_dict("list") == {"tag": ["a", "b"], "x": [1.0, 2.0]}
