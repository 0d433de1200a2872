"""From rows to a trained estimator: features of a folder of files, held-out rows, settings, time."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import deadline, limit_lifted, tell, time_left
from onepos._utils.validation import similar, to_dense
from onepos.exceptions import DataFileError
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.registry import METHODS, make_classifier
from onepos.rows.splits import Split, can_hold_out, first_equal, hold_out
from onepos.table.encoder import ColumnEncoder
from onepos.table.files import count_rows, read_chunks
from onepos.table.kinds import Tally, named, require_columns
from onepos.table.tags import LabelColumns, distinct_tags, row_marks
from onepos.training import Processes

#: Methods that predict every training row out of fold and keep the result as ``comparison_``: nothing is held out.
COMPARE_THEMSELVES = frozenset({"auto"})
FOLDER_ROWS = 50_000  # Rows of a folder's files by which columns are judged, and which are in memory at a time
_MOST_COMPARED = 20_000_000  # Rows × labels from which a model is compared with others
_HELD_OUT = 0.1  # Share of the tagged rows held out, unless the method compares itself
_LEAST_SECONDS = 1.0  # Seconds that auto gets at least, if reading and encoding took all of its time budget


@dataclass(eq=False)
class EncodedRows:
    """Encoded rows with their tags, and which of them training sees.

    ``train`` are the rows to train on, those without a tag among them; ``held`` are held out. ``most`` rows may be in
    memory at a time (None: all). With it, training gets the features of all rows, and tags of held-out rows are hidden.
    """

    features: Any
    observed: Any  # int8, an array or a CSR array
    train: NDArray[np.intp]
    held: NDArray[np.intp]
    most: int | None = None
    #: Number of the encoded row that each row of the table is in, if rows were joined.
    thing: NDArray[np.intp] | None = None

    def held_in_table(self) -> NDArray[np.intp]:
        """Return the rows of the table that are held out."""
        return self.held if self.thing is None else np.flatnonzero(np.isin(self.thing, self.held))

    def to_fit(self, labels: list[str]) -> tuple[Any, pd.DataFrame]:
        """Return features and tags for ``fit``."""
        if self.most is None:
            tags = self.observed[self.train]
            return self.features[self.train], tags if sparse.issparse(tags) else pd.DataFrame(tags, columns=labels)
        seen = self.observed.copy()
        seen[self.held] = 0
        return self.features, pd.DataFrame(seen, columns=labels)

    def some(self, rows: NDArray[np.intp], most: int | None = None) -> tuple[Any, NDArray[np.int8]]:
        """Return features and tags of rows from all over the given ones, as many as may be read."""
        most = min(most or self.most or len(rows), max(100, _MOST_COMPARED // self.observed.shape[1])) or 1
        chosen = np.sort(rows)[:: max(1, len(rows) // most)]
        features = self.features[chosen]
        return features if self.most is None else np.asarray(features), to_dense(self.observed[chosen])


def read_folder(
    folder: Path,
    columns: LabelColumns,
    encoder: ColumnEncoder,
    cache_folder: str | Path | None,
    processes: Processes,
) -> tuple[NDArray[np.float32], pd.DataFrame, Tally]:
    """Fit the encoder to some rows of a folder's parquet files, and encode all.

    Returns a map of the features on disk, the labels, and what was filled in. Each process reads all files, and encodes
    some of their rows into one map that all share.
    """
    paths = sorted([*folder.glob("*.parquet"), *folder.glob("*.pq")])
    if not paths:
        raise DataFileError(
            f"expected parquet files in {folder}; there are none: check the folder. onepos.table.read_table reads one "
            "file."
        )
    sizes = {path: count_rows(path) for path in paths}
    every = max(1, sum(sizes.values()) // FOLDER_ROWS)
    tell(0.01, "looking at columns")
    some, tags = [], set()
    for start, piece in _pieces(sizes, columns):
        some.append(piece.iloc[-start % every :: every])
        if columns.label is not None:
            tags.update(distinct_tags(piece[columns.label], columns.separator))
    classes = sorted(tags) if columns.label is not None else [str(name) for name in columns.labels or ()]
    if len(classes) < 2:
        raise DataFileError(f"at least two labels are needed; the files of {folder} have {len(classes)}.")
    encoder.fit(pd.concat(some, ignore_index=True))
    tell(0.02, "reading files")
    path = _shared_array((sum(sizes.values()), encoder.n_features_), cache_folder, processes)
    features, observed, tally = np.lib.format.open_memmap(path, mode="r+"), [], Tally()
    for number, (start, piece) in enumerate(_pieces(sizes, columns)):
        observed.append(columns.indicator(piece, classes))
        if number % processes.size == processes.rank:
            features[start : start + len(piece)] = encoder.transform(piece, tally)
    features.flush()
    everyones = processes.gather_values(tally.counts)  # all have written
    features = np.load(path, mmap_mode="r")
    processes.gather_values(None)  # all have opened it
    # An open file without a name lives as long as it is mapped; only POSIX systems can remove it.
    if processes.rank == 0 and os.name == "posix":
        path.unlink()
    return features, pd.concat(observed, ignore_index=True), Tally(sum(everyones, Counter()))


def _pieces(sizes: dict[Path, int], columns: LabelColumns) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield the rows of all files in pieces, each with the number of its first row."""
    start = 0
    for path, size in sizes.items():
        for piece in read_chunks(path) if size else ():  # a file may be empty, as long as others are not
            frame = named(piece.frame)
            require_columns(frame, columns.names, f"a label or the id, in {path.name}")
            yield start, frame
            start += len(frame)


def _shared_array(shape: tuple[int, int], folder: str | Path | None, processes: Processes) -> Path:
    """Return the path of a new array of float32, which process 0 creates."""
    if folder is None and processes.size > int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
        raise ValueError(
            "the processes are on several machines and share a file of features: give a cache folder that all of them "
            "see under the same path."
        )
    name = ""
    if processes.rank == 0:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="shared-", suffix=".npy", dir=folder)
        os.close(handle)
        np.lib.format.open_memmap(name, mode="w+", dtype=np.float32, shape=shape)
    return Path(processes.agree(name))


def split_rows(
    observed: Any,
    method: str,
    fraction: float | None,
    random_state: int | None,
    features: pd.DataFrame | None = None,
) -> Split:
    """Return the rows to train on, those without a tag among them, and the rows held out.

    Rows with the same ``features`` stay together, as far as ``onepos.rows.splits`` takes them for one thing.
    """
    if fraction is None:
        fraction = 0.0 if method in COMPARE_THEMSELVES else _HELD_OUT
    if fraction == 0 or not can_hold_out(observed):
        return np.arange(observed.shape[0]), np.empty(0, dtype=np.intp)
    marks = None if features is None else row_marks(features)
    alike = None if marks is None else first_equal(marks)
    return hold_out(observed, fraction, np.random.default_rng(random_state), alike=alike)


def make_estimator(
    method: str, params: dict[str, Any], random_state: int | None, n_positives: float | None, at_least_one: bool
) -> OnePositiveClassifier:
    """Build the estimator and validate its settings, before anything is read or trained."""
    estimator = make_classifier(method, random_state=random_state)
    known = estimator.get_params()
    unknown = [name for name in params if name not in known]
    if unknown:
        with_it = [key for key in METHODS if unknown[0] in METHODS[key].load_class()._get_param_names()]
        elsewhere = f" (a setting of {', '.join(with_it)})" if with_it else ""
        has = similar(unknown[0], known) or f"It has: {', '.join(known)}."
        raise ValueError(f"method {method!r} has no setting {unknown[0]!r}{elsewhere}. {has}")
    if n_positives is not None and "n_positives" in params:
        raise ValueError("n_positives is given twice, as a setting of the method and beside it. Leave one of them out.")
    beside: dict[str, Any] = {} if n_positives is None else {"n_positives": n_positives}
    if not at_least_one:  # thresholds for sets of a mean size depend on it
        beside["at_least_one"] = False
    estimator.set_params(**beside | params)
    estimator._validate_params()
    estimator._check_processes()
    return estimator


def fit_in_time(estimator: Any, features: Any, tags: Any, *, started: float, checkpoint: Any = None) -> None:
    """Fit an estimator; time since ``started`` is taken from its budget, if it has one.

    The budget then replaces an outer limit: ``auto`` exceeds it by the seconds that its baselines need at least.
    """
    arguments: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
    budget = estimator.get_params(deep=False).get("time_budget")
    if budget is None:
        estimator.fit(features, tags, **arguments)
        return
    with deadline(started + budget):
        estimator.set_params(time_budget=max(time_left(), _LEAST_SECONDS))
    try:
        with limit_lifted():
            estimator.fit(features, tags, **arguments)
    finally:
        estimator.set_params(time_budget=budget)  # the model reports what the user asked for
