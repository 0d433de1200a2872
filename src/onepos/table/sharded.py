"""A folder of parquet files → a TableModel: each process reads its own files, all train on one map of what they wrote.

Nothing is in memory whole but the labels. The columns are judged by some rows of every file, the same rows whatever the
number of processes, so that the model is the same, too.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos.exceptions import DataFileError, LabelWarning
from onepos.table.comparison import COMPARE_THEMSELVES, comparison, tell_baselines, tell_held_out
from onepos.table.encoder import ColumnEncoder, Tally, named
from onepos.table.kinds import as_words
from onepos.table.model import HELD_OUT, ROWS_FOR_THRESHOLD, TableModel, fit_in_time, split_rows
from onepos.table.progress import Progress, fit_arguments
from onepos.table.reading import parquet_file, parquet_pieces
from onepos.table.settings import make_estimator, set_facts
from onepos.table.tags import indicator_columns, require_columns, split_cell, suggestion_columns, tag_indicator
from onepos.training import Processes, join
from onepos.training.shared_arrays import filled_together

if TYPE_CHECKING:
    import pandas as pd


#: Rows of all files together by which columns are judged; rows read at a time.
JUDGED_ROWS = 50_000
_PIECE_ROWS = 65_536


@dataclass(frozen=True)
class Shards:
    """Parquet files, one below the other, and which of them this process reads.

    Attributes
    ----------
    paths : list of Path
    starts : int array of shape (n_files + 1,)
        The row of the whole at which each file begins; at the end the number of rows.
    processes : Processes
    """

    paths: list[Path]
    starts: NDArray[np.int64]
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
        counts = []
        for path in paths:
            with parquet_file(path) as file:
                counts.append(int(file.metadata.num_rows))
        return cls(paths, np.concatenate([[0], np.cumsum(counts)]), processes)

    def own(self) -> list[int]:
        """Numbers of the files that this process reads."""
        return list(range(self.processes.rank, len(self.paths), self.processes.size))

    def pieces(self, number: int) -> Iterator[tuple[slice, "pd.DataFrame"]]:
        """Yield a file in pieces, each with its rows among those of the whole."""
        first = int(self.starts[number])
        for piece in parquet_pieces(self.paths[number], _PIECE_ROWS):
            yield slice(first, first + len(piece)), named(piece)
            first += len(piece)


@dataclass(frozen=True)
class _Named:
    """The columns that the user named."""

    label: str | None
    labels: list[str]
    id: str | None
    separator: str | None

    @property
    def all(self) -> list[str]:
        return [name for name in (self.label, self.id, *self.labels) if name is not None]

    def indicator(self, piece: "pd.DataFrame", classes: list[str]) -> NDArray[np.int8]:
        """Observed labels of some rows, in the order of ``classes``."""
        if self.label is None:
            return indicator_columns(piece, self.labels).to_numpy(dtype=np.int8)
        if not any(word is not None for word in as_words(piece[self.label])):
            return np.zeros((len(piece), len(classes)), dtype=np.int8)
        return tag_indicator(piece[self.label], classes, self.separator).to_numpy(dtype=np.int8)


def fit_shards(
    folder: str | Path,
    *,
    label: str | None = None,
    labels: Sequence[str] = (),
    id: str | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    separator: str | None = None,
    method: str = "auto",
    params: dict[str, Any] | None = None,
    n_positives: float | None = None,
    at_least_one: bool = True,
    validation_fraction: float | None = None,
    random_state: int | None = 0,
    cache_folder: str | Path | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> TableModel:
    """Train on the parquet files of a folder; parameters as for ``TableModel.fit``.

    Parameters
    ----------
    folder : path
        With ``*.parquet`` files of the same columns.
    cache_folder : path, optional
        Where the features are while training runs, 4 bytes each, and what the method keeps on disk; the folder of
        temporary files if not given. All processes must see it.
    """
    tell: Progress = progress or (lambda step, share: None)
    started = time.monotonic()
    settings = dict(params or {})
    if validation_fraction is None:
        validation_fraction = 0.0 if method in COMPARE_THEMSELVES else HELD_OUT
    estimator, by_threshold = make_estimator(method, settings, random_state, n_positives)
    processes = join(settings.get("device", "cpu"))
    if cache_folder is not None and "cache_folder" in estimator.get_params() and "cache_folder" not in settings:
        estimator.set_params(cache_folder=str(cache_folder))
    if (label is None) == (not labels):
        raise DataFileError("say which column holds the tags: label=NAME, or labels=[0/1 columns]; one of them.")
    shards, columns = Shards.of(Path(folder), processes), _Named(label, list(labels), id, separator)
    if id is not None and id in (label, *labels):
        raise DataFileError(f"column {id!r} is named as id and as label. It can be one of them.")
    tell("looking at columns", 0.01)
    judged, classes = _judged_rows(shards, columns)
    made = suggestion_columns(judged, classes)
    # Features lie on disk as a dense matrix: a column for each of many values would be too much.
    encoder = ColumnEncoder(categories=categories, drop=[*columns.all, *drop, *made], max_values=0).fit(judged)
    tell("reading shards", 0.02)
    features, observed, tally = _read(shards, columns, encoder, classes, cache_folder)
    train, held = split_rows(observed, validation_fraction, random_state)
    import pandas as pd

    seen = observed.copy()
    seen[held] = 0  # their features are there, their tags are not
    tell("training", 0.05)
    with warnings.catch_warnings():
        # Rows without a tag are allowed here, and counted below.
        warnings.filterwarnings("ignore", ".*have no observed positive", LabelWarning)
        arguments = fit_arguments(estimator, progress, checkpoint, method)
        fit_in_time(estimator, features, pd.DataFrame(seen, columns=classes), arguments, started=started)
    if by_threshold:
        chosen = _some(held if len(held) >= ROWS_FOR_THRESHOLD else train)
        estimator.choose_thresholds(np.asarray(features[chosen]), n_positives=n_positives, at_least_one=at_least_one)
    model = TableModel()
    model.labels_, model.label_, model.id_, model.held_out_ = classes, label, id, held
    model.encoder_, model.estimator_ = encoder, estimator
    model.separator_, model.at_least_one_ = separator, at_least_one
    model.facts_ = {
        "method": method,
        "rows": len(observed),
        "rows_without_tag": int((~(observed > 0).any(axis=1)).sum()),
        "training_rows": len(train),
        "held_out_rows": len(held),
        "counts": {name: int(n) for name, n in zip(classes, (observed > 0).sum(axis=0), strict=True)},
        "decisions": None,
        "notes": tally.notes(encoder.kinds_),
        "held_out": None,
        "sets": None,
        "tuning": None,
        "calibration": None,
    }
    if len(held):
        tell("comparing on held-out rows", 0.95)
        scored = _some(held)
        unseen = (np.asarray(features[scored]), observed[scored])
        own, recalls = tell_held_out(estimator, *unseen)
        tags = pd.DataFrame(seen, columns=classes)
        methods = {method: own, **tell_baselines((None, tags), unseen, without=method, linear=False)}
        model.facts_["held_out"] = comparison(method, methods, rows=len(scored), out_of_fold=False) | recalls
    elif getattr(estimator, "comparison_", None):
        found = estimator.comparison_
        model.facts_["held_out"] = comparison(method, found["methods"], rows=found["rows"], out_of_fold=True)
    model.facts_["sets"] = set_facts(model, features, held if len(held) else train, n_positives)
    return model


def _some(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return rows from all over the given ones, in order, as many as may be read into memory."""
    return np.sort(rows)[:: max(1, len(rows) // JUDGED_ROWS)]


def _judged_rows(shards: Shards, columns: _Named) -> tuple["pd.DataFrame", list[str]]:
    """Rows from all over the files, in order, and the names of the labels: what all processes found together."""
    import pandas as pd

    every = max(1, int(shards.starts[-1]) // JUDGED_ROWS)
    rows: dict[int, list[pd.DataFrame]] = {}
    tags: set[str] = set()
    for number in shards.own():
        rows[number] = []
        for part, piece in shards.pieces(number):
            require_columns(piece, columns.all, f"a label or the id, in {shards.paths[number].name}")
            if columns.label is not None:
                cells = as_words(piece[columns.label])
                tags |= {tag for cell in cells for tag in split_cell(cell, columns.separator)}
            rows[number].append(piece.iloc[-part.start % every :: every])
    everyone = shards.processes.gather_values((rows, tags))
    together = {number: pieces for found, _ in everyone for number, pieces in found.items()}
    judged = pd.concat([piece for number in sorted(together) for piece in together[number]], ignore_index=True)
    classes = columns.labels or sorted(set().union(*(found for _, found in everyone)))
    if len(classes) < 2:
        raise DataFileError(
            f"at least two labels are needed to learn anything; column {columns.label!r} of the shards holds "
            f"{len(classes)}."
        )
    return judged, list(classes)


def _read(
    shards: Shards, columns: _Named, encoder: ColumnEncoder, classes: list[str], folder: str | Path | None
) -> tuple[NDArray[np.float32], NDArray[np.int8], Tally]:
    """Encode the files: the features as a map that all processes share, the labels in memory, what was filled in."""
    tally, n_rows = Tally(), int(shards.starts[-1])
    known: list[tuple[slice, NDArray[np.int8]]] = []

    def fill(values: NDArray[np.float32]) -> None:
        for number in shards.own():
            for part, piece in shards.pieces(number):
                values[part] = encoder.transform(piece, tally)
                known.append((part, columns.indicator(piece, classes)))

    def fill_labels(values: NDArray[np.int8]) -> None:
        for part, indicator in known:
            values[part] = indicator

    features = filled_together((n_rows, encoder.n_features_), np.float32, fill, shards.processes, folder)
    labels = filled_together((n_rows, len(classes)), np.int8, fill_labels, shards.processes, folder)
    total = Tally()
    for found in shards.processes.gather_values(tally):
        total.missing.update(found.missing)
        total.unknown.update(found.unknown)
    return features, np.array(labels), total
