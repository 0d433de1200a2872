"""A folder of parquet files: each process reads its own files, and all share one map of the features."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos.exceptions import DataFileError
from onepos.table.encoder import ColumnEncoder
from onepos.table.files import ParquetFile
from onepos.table.kinds import Tally, named, require_columns
from onepos.table.tags import LabelColumns, distinct_tags
from onepos.training import Processes

JUDGED_ROWS, _PIECE_ROWS = 50_000, 65_536  # Rows of all files by which columns are judged; rows read at a time


@dataclass(frozen=True)
class Shards:
    """Parquet files, one below the other, and which of them this process reads."""

    paths: list[Path]
    starts: NDArray[np.int64]  # the row of the whole at which each file begins; at the end the number of rows
    processes: Processes

    @classmethod
    def of(cls, folder: Path, processes: Processes) -> "Shards":
        """Find the files of a folder in the order of their names."""
        paths = sorted([*folder.glob("*.parquet"), *folder.glob("*.pq")])
        if not paths:
            raise DataFileError(f"expected parquet files in {folder}; there are none: check the folder.")
        if len(paths) < processes.size:
            raise DataFileError(
                f"expected a file for each of the {processes.size} processes; {folder} has {len(paths)}: write the "
                "table as more files, or start fewer processes."
            )
        sizes = []
        for path in paths:
            with ParquetFile(path) as file:
                sizes.append(file.n_rows)
        return cls(paths, np.concatenate([[0], np.cumsum(sizes)]), processes)

    def own(self) -> list[int]:
        """Numbers of the files that this process reads."""
        return list(range(self.processes.rank, len(self.paths), self.processes.size))

    def pieces(self, number: int) -> Iterator[tuple[slice, pd.DataFrame]]:
        """Yield a file in pieces, each with its rows among those of the whole."""
        first = int(self.starts[number])
        if self.starts[number + 1] == first:
            return  # a file may be empty, as long as others are not
        with ParquetFile(self.paths[number]) as file:
            for piece in (batch.frame for batch in file.batches(_PIECE_ROWS)):
                yield slice(first, first + len(piece)), named(piece)
                first += len(piece)

    def judge(self, columns: LabelColumns) -> tuple[pd.DataFrame, list[str]]:
        """Return some rows of every file, the same whatever the number of processes, and the names of the labels."""
        every = max(1, int(self.starts[-1]) // JUDGED_ROWS)
        rows: dict[tuple[int, int], pd.DataFrame] = {}  # by file, and row at which the piece begins
        tags: set[str] = set()
        for number in self.own():
            for part, piece in self.pieces(number):
                require_columns(piece, columns.names, f"a label or the id, in {self.paths[number].name}")
                if columns.label is not None:
                    tags.update(distinct_tags(piece[columns.label], columns.separator))
                rows[number, part.start] = piece.iloc[-part.start % every :: every]
        everyone = self.processes.gather_values((rows, tags))
        together = {place: piece for parts, _ in everyone for place, piece in parts.items()}
        judged = pd.concat([together[place] for place in sorted(together)], ignore_index=True)
        if columns.label is None:
            return judged, [str(name) for name in columns.labels or ()]
        classes = sorted(set().union(*(classes_here for _, classes_here in everyone)))
        if len(classes) < 2:
            raise DataFileError(
                f"at least two labels are needed; column {columns.label!r} of the shards holds {len(classes)}."
            )
        return judged, classes

    def read(
        self, columns: LabelColumns, encoder: ColumnEncoder, classes: list[str], folder: str | Path | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int8], Tally]:
        """Encode the files: features as a map that all processes share, labels in memory, and what was filled in."""
        tally, n_rows = Tally(), int(self.starts[-1])
        known: list[tuple[slice, NDArray[np.int8]]] = []

        def fill(values: NDArray[np.float32]) -> None:
            for number in self.own():
                for part, piece in self.pieces(number):
                    values[part] = encoder.transform(piece, tally)
                    known.append((part, columns.indicator(piece, classes).to_numpy(dtype=np.int8)))

        def fill_labels(values: NDArray[np.int8]) -> None:
            for part, indicator in known:
                values[part] = indicator

        features = filled_together((n_rows, encoder.n_features_), np.float32, fill, self.processes, folder)
        labels = filled_together((n_rows, len(classes)), np.int8, fill_labels, self.processes, folder)
        total = sum(self.processes.gather_values(tally.counts), Counter())
        return features, np.array(labels), Tally(total)


def filled_together(
    shape: tuple[int, int],
    dtype: type[np.generic],
    fill: Callable[[NDArray[Any]], None],
    processes: Processes,
    folder: str | Path | None,
) -> NDArray[Any]:
    """Let each process ``fill`` its rows of an array in a new file; return a read-only map of the whole."""
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

    path = processes.agree(create() if processes.rank == 0 else Path())
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
