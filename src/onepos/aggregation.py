"""ÂX for rows that should not all be in memory: formed block by block, kept in memory or in a file."""

import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._typing import IntArray
from onepos.disk import DiskRows

#: Rough size of what a block reads, in float32.
_BLOCK_BYTES = 1 << 26


def aggregated_rows(X: Any, neighbors: IntArray, self_weight: float, folder: str | Path | None) -> Any:
    """Return ``s·x_i + (1−s)·mean of the neighbours of x_i`` for every row.

    Parameters
    ----------
    X : float32 array or DiskRows of shape (n_samples, n_features)
    neighbors : int array of shape (n_samples, k)
    self_weight : float
        s.
    folder : str, Path or None
        Where to put the result as a ``.npy`` file, which is removed when nothing refers to it any more.

    Returns
    -------
    float32 array, or with a folder DiskRows, of shape (n_samples, n_features)

    Examples
    --------
    >>> aggregated_rows(np.array([[0.0], [4.0]], dtype=np.float32), np.array([[1], [0]]), 0.75, None).tolist()
    [[1.0], [3.0]]
    """
    result: Any = np.empty(X.shape, dtype=np.float32) if folder is None else _new_file(Path(folder), X.shape)
    fill_aggregated(X, neighbors, self_weight, result, slice(0, len(neighbors)))
    if folder is None:
        return result
    result.flush()
    return DiskRows(result)


def fill_aggregated(X: Any, neighbors: IntArray, self_weight: float, result: Any, rows: slice) -> None:
    """Write some rows of what ``aggregated_rows`` returns into ``result``, which has room for all."""
    for part, nearby in _neighbor_means(X, neighbors, rows):
        result[part] = self_weight * X[part] + (1.0 - self_weight) * nearby


def _neighbor_means(X: Any, neighbors: IntArray, rows: slice) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Blocks of NX, summed in the order of row numbers as ``onepos.graph.mean_aggregate`` does."""
    k = neighbors.shape[1]
    step = max(1, _BLOCK_BYTES // (4 * X.shape[1] * (k + 1)))
    for start in range(rows.start, rows.stop, step):
        part = slice(start, min(start + step, rows.stop))
        needed, places = np.unique(neighbors[part], return_inverse=True)
        places = np.sort(places.reshape(-1, k), axis=1)
        shares = np.full(places.size, 1 / k, dtype=np.float32)
        offsets = np.arange(len(places) + 1) * k
        matrix = sparse.csr_array((shares, places.ravel(), offsets), shape=(len(places), len(needed)))
        yield part, matrix @ X[needed]


def _new_file(folder: Path, shape: tuple[int, int]) -> Any:
    """Return a writable float32 map of a new file, which goes when the map does."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="aggregated-", suffix=".npy", dir=folder, delete=False) as file:
        path = Path(file.name)
    values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    weakref.finalize(values, path.unlink, missing_ok=True)
    return values
