"""A folder of parquet files: each process reads its own files, and all share one map of the features."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos.exceptions import DataFileError
from onepos.table.encoder import ColumnEncoder
from onepos.table.files import count_rows, read_chunks
from onepos.table.kinds import Tally, named, require_columns
from onepos.table.tags import LabelColumns, distinct_tags
from onepos.training import Processes

JUDGED_ROWS, _PIECE_ROWS = 50_000, 65_536  # Rows of all files by which columns are judged; rows read at a time


class Shards:
    """Parquet files, one below the other in the order of their names; process r of n reads each n-th from r on."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.paths = sorted([*folder.glob("*.parquet"), *folder.glob("*.pq")])
        self.processes = processes
        if not self.paths:
            raise DataFileError(
                f"expected parquet files in {folder}; there are none: check the folder. "
                "onepos.table.read_table reads one file."
            )
        if len(self.paths) < processes.size:
            raise DataFileError(
                f"expected a file for each of the {processes.size} processes; {folder} has {len(self.paths)}: write "
                "the table as more files, or start fewer processes."
            )
        self.own = range(processes.rank, len(self.paths), processes.size)
        self.sizes = [count_rows(path) for path in self.paths]

    def pieces(self, columns: LabelColumns) -> Iterator[tuple[slice, pd.DataFrame]]:
        """Yield the files of this process in pieces, each with its rows among those of the whole."""
        for number in self.own:
            first = sum(self.sizes[:number])
            # A file may be empty, as long as others are not.
            for piece in read_chunks(self.paths[number], rows=_PIECE_ROWS) if self.sizes[number] else ():
                frame = named(piece.frame)
                require_columns(frame, columns.names, f"a label or the id, in {self.paths[number].name}")
                yield slice(first, first + len(frame)), frame
                first += len(frame)

    def judge(self, columns: LabelColumns) -> tuple[pd.DataFrame, list[str]]:
        """Return some rows of every file, the same whatever the number of processes, and the names of the labels."""
        every = max(1, sum(self.sizes) // JUDGED_ROWS)
        rows: dict[int, pd.DataFrame] = {}  # by the row at which the piece begins
        tags: set[str] = set()
        for part, piece in self.pieces(columns):
            if columns.label is not None:
                tags.update(distinct_tags(piece[columns.label], columns.separator))
            rows[part.start] = piece.iloc[-part.start % every :: every]
        everyone = self.processes.gather_values((rows, tags))
        together = {start: piece for parts, _ in everyone for start, piece in parts.items()}
        judged = pd.concat([together[start] for start in sorted(together)], ignore_index=True)
        if columns.label is None:
            return judged, [str(name) for name in columns.labels or ()]
        classes = sorted(set().union(*(tags_here for _, tags_here in everyone)))
        if len(classes) < 2:
            raise DataFileError(
                f"at least two labels are needed; column {columns.label!r} of the shards holds {len(classes)}."
            )
        return judged, classes

    def encode(
        self, columns: LabelColumns, encoder: ColumnEncoder, classes: list[str], folder: str | Path | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int8], Tally]:
        """Encode the files: features as a map that all processes share, labels in memory, and what was filled in."""
        tally, observed = Tally(), {}
        path = self._new_file((sum(self.sizes), encoder.n_features_), folder)
        values = np.lib.format.open_memmap(path, mode="r+")
        for part, piece in self.pieces(columns):
            values[part] = encoder.transform(piece, tally)
            observed[part.start] = columns.indicator(piece, classes).to_numpy(dtype=np.int8)
        values.flush()
        everyone = self.processes.gather_values((observed, tally.counts))  # all have written
        features: NDArray[np.float32] = np.load(path, mmap_mode="r")
        self.processes.gather_values(None)  # all have opened it
        # An open file without a name lives as long as it is mapped; only POSIX systems can remove it.
        if self.processes.rank == 0 and os.name == "posix":
            path.unlink()
        together = dict(chain.from_iterable(parts.items() for parts, _ in everyone))
        total = sum((counts for _, counts in everyone), Counter())
        return features, np.concatenate([together[start] for start in sorted(together)]), Tally(total)

    def _new_file(self, shape: tuple[int, int], folder: str | Path | None) -> Path:
        """Return the path of a new array of features, which process 0 creates."""
        if folder is None and self.processes.size > int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
            raise ValueError(
                "the processes are on several machines and share a file of features: give a cache folder that all of "
                "them see under the same path."
            )
        name: Any = None
        if self.processes.rank == 0:
            if folder is not None:
                Path(folder).mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix="shared-", suffix=".npy", dir=folder)
            os.close(handle)
            np.lib.format.open_memmap(name, mode="w+", dtype=np.float32, shape=shape)
        return Path(self.processes.agree(name))
