"""An array that several processes fill together, in a file that each of them maps."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.training.processes import Processes


def filled_together(
    shape: tuple[int, int],
    dtype: type[np.generic],
    fill: Callable[[NDArray[Any]], None],
    processes: Processes,
    folder: str | Path | None,
) -> NDArray[Any]:
    """Let each process write its rows of an array in a new file, and return a read-only map of the whole.

    Parameters
    ----------
    shape : (int, int)
    dtype : NumPy type
    fill : function of the array
        Writes the rows of this process.
    processes : Processes
    folder : str, Path or None
        Where the file is; all processes must see it. None: the folder of temporary files.
    """
    if folder is None and processes.size > int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
        raise ValueError(
            "the processes are on several machines and share a file of features: give a cache folder that all of them "
            "see under the same path."
        )

    def create() -> Path:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="shared-", suffix=".npy", dir=folder)
        os.close(handle)
        np.lib.format.open_memmap(name, mode="w+", dtype=dtype, shape=shape)
        return Path(name)

    path = processes.first(create)
    values = np.lib.format.open_memmap(path, mode="r+")
    fill(values)
    values.flush()
    processes.gather_values(None)  # all have written
    whole: NDArray[Any] = np.load(path, mmap_mode="r")
    processes.gather_values(None)  # all have opened it
    # An open file without a name lives as long as it is mapped; only POSIX systems can remove it.
    if processes.rank == 0 and os.name == "posix":
        path.unlink()
    return whole
