"""Rows of a memory-mapped matrix, read when they are needed: features may be larger than memory."""

import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos._utils.optional import require
from onepos.exceptions import DataFileError

#: A smaller map is read whole: that costs little, and gives the same bits as the array that it holds.
LOAD_BELOW_BYTES = 1 << 26

#: Size of one block of rows in float64.
BLOCK_BYTES = 1 << 24


def on_disk(X: Any) -> bool:
    """Whether X is a memory-mapped matrix of real numbers, too large to be read whole without asking.

    Examples
    --------
    >>> on_disk(np.zeros((2, 2)))
    False
    """
    return isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub" and X.nbytes >= LOAD_BELOW_BYTES


@dataclass(frozen=True, eq=False)
class DiskRows:
    """Some rows of a memory-mapped matrix, scaled as they are read.

    Parameters
    ----------
    source : memory-mapped array of shape (n, n_features)
    rows : int array, or None for all
        Which rows of ``source`` these are.
    scale : function of an array of rows, or None
        Applied to what is read.

    Examples
    --------
    >>> rows = DiskRows(np.arange(8.0).reshape(4, 2)).take(np.array([3, 0]))
    >>> rows.shape, rows[[1, 0, 1]].tolist()
    ((2, 2), [[0.0, 1.0], [6.0, 7.0], [0.0, 1.0]])
    """

    source: NDArray[Any]
    rows: NDArray[np.integer[Any]] | None = None
    scale: Callable[[NDArray[Any]], NDArray[Any]] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, number of features."""
        return len(self), int(self.source.shape[1])

    def __len__(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Read the rows of a slice or an index array, in its order."""
        if self.rows is not None:
            rows = self.rows[rows]
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self.source)))
        # In the order of the file, and once each: neighbourhoods name the same row many times.
        distinct, inverse = np.unique(rows, return_inverse=True)
        # Piece by piece: scaling works in float64, in which all rows together may be large.
        pieces = [
            self._scaled(np.asarray(self.source[distinct[start : start + self._step]]))
            for start in range(0, max(1, len(distinct)), self._step)
        ]
        values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return values if np.array_equal(distinct, rows) else values[inverse]

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.scale is None else self.scale(values)

    @property
    def _step(self) -> int:
        return max(1, BLOCK_BYTES // (8 * max(1, self.shape[1])))

    def take(self, rows: NDArray[np.integer[Any]]) -> "DiskRows":
        """Return a part of the rows; nothing is read."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def scaled(self, scale: Callable[[NDArray[Any]], NDArray[Any]]) -> "DiskRows":
        """Return the same rows with a scaling; nothing is read."""
        return replace(self, scale=scale)

    def release(self) -> None:
        """Return pages of the file to the system: pages that were read count as memory of the process."""
        mode = getattr(self.source, "mode", "c")
        pages: Any = self.source
        while isinstance(pages, np.ndarray):
            pages = pages.base
        # What was written to a copy-on-write map is nowhere else.
        if mode != "c" and isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All rows in order, ``BLOCK_BYTES`` at a time, each block with its place."""
        for start in range(0, len(self), self._step):
            part = slice(start, min(start + self._step, len(self)))
            yield part, self[part]


class ColumnStatistics(NamedTuple):
    """Mean, standard deviation, smallest and largest value of each column, shape (n_features,), float64."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def column_statistics(rows: DiskRows) -> ColumnStatistics:
    """One pass over the blocks in float64; means and squares are merged so that no large sums cancel (Chan et al.).

    Examples
    --------
    >>> [values.tolist() for values in column_statistics(DiskRows(np.array([[1.0], [3.0]])))]
    [[2.0], [1.0], [1.0], [3.0]]
    """
    n_features = rows.shape[1]
    count, mean, squares = 0, np.zeros(n_features), np.zeros(n_features)
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    for _, values in rows.blocks():
        block = values.astype(np.float64)
        np.minimum(low, block.min(axis=0), out=low)
        np.maximum(high, block.max(axis=0), out=high)
        center = block.mean(axis=0)
        block -= center
        squares += np.einsum("ij,ij->j", block, block)
        total = count + len(block)
        squares += (center - mean) ** 2 * (count * len(block) / total)
        mean += (center - mean) * (len(block) / total)
        count = total
    return ColumnStatistics(mean, np.sqrt(squares / count), low, high)


def check_finite(rows: DiskRows) -> None:
    """Raise if any entry is NaN or infinite; reads block by block."""
    for part, values in rows.blocks():
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            raise ValueError(
                f"expected finite features; row {part.start + int(bad.argmax())} of the memory-mapped X holds NaN or "
                "infinity: impute or drop such entries, and write the file again"
            )


def is_binary(rows: DiskRows) -> bool:
    """Whether all entries are 0 or 1; reads up to the first that is not."""
    return all(bool(np.all((values == 0) | (values == 1))) for _, values in rows.blocks())


#: Rows of parquet files read at a time.
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
