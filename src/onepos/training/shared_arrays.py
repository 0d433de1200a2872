"""Arrays that all processes read: made by one of them or by all together, in a file that each of them maps."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onepos.training.processes import Processes


def made_once(make: Callable[[], NDArray[Any]], processes: Processes, folder: str | Path | None) -> NDArray[Any]:
    """Let process 0 make an array; alone it stays in memory, else all map the file that it is put into.

    Parameters
    ----------
    make : function
    processes : Processes
    folder : str, Path or None
        Where the file is; None: where temporary files are, which all see if they are on one machine.
    """
    if processes.size == 1:
        return make()
    path = _new_path(processes, folder)
    processes.first(lambda: np.save(path, make()))
    # Copy-on-write: torch takes no array that it could not write to.
    return _mapped(path, processes, "c")


def filled_together(
    shape: tuple[int, int],
    dtype: type[np.generic],
    fill: Callable[[NDArray[Any]], None],
    processes: Processes,
    folder: str | Path | None,
) -> NDArray[Any]:
    """Let each process fill its rows of an array in a file, and map the whole.

    Parameters
    ----------
    shape : (int, int)
    dtype : NumPy type
    fill : function of the array
        Writes the rows of this process.
    processes : Processes
    folder : str, Path or None
        As for ``made_once``.
    """
    path = _new_path(processes, folder)

    def create() -> None:
        np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)

    processes.first(create)
    values = np.lib.format.open_memmap(path, mode="r+")
    fill(values)
    values.flush()
    del values
    processes.wait()
    return _mapped(path, processes, "r")


def own_rows(n_rows: int, processes: Processes) -> slice:
    """Return an equal share of all rows for this process."""
    step = -(-n_rows // processes.size)
    first = min(processes.rank * step, n_rows)
    return slice(first, min(first + step, n_rows))


def _new_path(processes: Processes, folder: str | Path | None) -> Path:
    """Name a new file in a folder that all processes see."""
    if folder is None and not processes.near:
        raise ValueError(
            "the processes are on several machines and share files, such as the neighbour graph: give cache_folder, a "
            "folder that all of them see under the same path."
        )
    made = ""
    if processes.rank == 0:
        place = Path(folder) if folder is not None else None
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(prefix="shared-", suffix=".npy", dir=place)
        os.close(handle)
    return Path(processes.agree(made))


def _mapped(path: Path, processes: Processes, mode: Literal["c", "r"]) -> NDArray[Any]:
    values: NDArray[Any] = np.load(path, mmap_mode=mode)
    processes.wait()
    # With its name gone the file lives as long as it is mapped; elsewhere an open file cannot be removed.
    if processes.rank == 0 and os.name == "posix":
        path.unlink()
    return values
