"""Parquet shards into one .npy file, once: training then reads rows of that file, in any order, from disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos._optional import require
from onepos.exceptions import DataFileError

#: Rows read at a time.
_BATCH_ROWS = 16_384


def to_memmap(
    shards: str | Path | Sequence[str | Path], out: str | Path, *, columns: Sequence[str] | None = None
) -> NDArray[np.float32]:
    """Write columns of parquet files, one below the other, as a float32 ``.npy`` file, and open it memory-mapped.

    Parameters
    ----------
    shards : path, or sequence of paths
        Parquet files; for a folder its ``*.parquet`` in the order of their names.
    out : path
        The file to write, ending in ``.npy``. It appears when it is complete.
    columns : sequence of str, optional
        Columns of numbers to take, in this order; all columns of the first shard if not given.

    Returns
    -------
    read-only memory-mapped array of float32, shape (rows of all shards, number of columns)
        What ``numpy.load(out, mmap_mode="r")`` gives, too. ``fit`` and ``predict_proba`` take it as X.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> folder = Path(tempfile.mkdtemp())
    >>> for number in range(2):
    ...     pd.DataFrame({"a": [number, 2.0], "name": ["x", "y"]}).to_parquet(folder / f"{number}.parquet")
    >>> np.asarray(to_memmap(folder, folder / "X.npy", columns=["a"])).ravel().tolist()
    [0.0, 2.0, 1.0, 2.0]
    """
    parquet = require("pyarrow.parquet", extra="large", purpose="reading parquet shards")
    paths = _paths(shards)
    files = [parquet.ParquetFile(path) for path in paths]
    out = Path(out)
    if out.suffix != ".npy":
        raise ValueError(f"expected a file name that ends in .npy; got {out.name!r}: rename it")
    names = list(files[0].schema_arrow.names if columns is None else columns)
    for path, file in zip(paths, files, strict=True):
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise DataFileError(
                f"expected the same columns in every shard; {path} has no {missing[:5]}: name those that all shards "
                "share as columns"
            )
    part = out.with_name(f".{out.name}.part.npy")
    shape = (sum(file.metadata.num_rows for file in files), len(names))
    try:
        values = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
        row = 0
        for path, file in zip(paths, files, strict=True):
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                values[row : row + batch.num_rows] = _numbers(batch, names, path)
                row += batch.num_rows
        values.flush()
        del values
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return np.load(out, mmap_mode="r")  # type: ignore[no-any-return]


def _paths(shards: str | Path | Sequence[str | Path]) -> list[Path]:
    if not isinstance(shards, str | Path):
        paths = [Path(path) for path in shards]
    elif Path(shards).is_dir():
        paths = sorted(Path(shards).glob("*.parquet"))
    else:
        paths = [Path(shards)]
    if not paths:
        raise FileNotFoundError(f"expected at least one parquet file; found none in {shards}: check the folder")
    return paths


def _numbers(batch: Any, names: list[str], path: Path) -> NDArray[np.float32]:
    """Columns of a record batch by name, as (rows, columns); a missing value becomes NaN."""
    values = np.empty((batch.num_rows, len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        column = batch.column(batch.schema.get_field_index(name)).to_numpy(zero_copy_only=False)
        if column.dtype.kind not in "fiub":
            raise DataFileError(
                f"expected columns of numbers; {name!r} of {path} holds {column.dtype}: leave it out of columns"
            )
        values[:, place] = column
    return values
