"""Predict a data file of any size, piece by piece."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos.table.encoder import Tally, shorten
from onepos.table.kinds import TEXT, as_words
from onepos.table.model import TableModel
from onepos.table.progress import Progress
from onepos.table.reading import CHUNK_ROWS, SVMLIGHT, guess_rows, read_chunks
from onepos.table.tags import join_tags
from onepos.table.writing import TableWriter, as_columns

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Output:
    """What a row of the output holds: the set of likely tags, the probabilities, or both.

    A label is likely from ``threshold`` on, by default the model's; or the ``top`` labels are. Without a threshold the
    best label is in a set that would be empty, unless ``allow_empty`` or the model was told otherwise.
    """

    sets: bool = True
    probabilities: bool = True
    threshold: float | None = None
    top: int | None = None
    separator: str = ";"
    allow_empty: bool = False


@dataclass(frozen=True)
class Predicted:
    """How many rows were written, how many of them with an empty set, and what the user should know."""

    rows: int
    rows_without_suggestion: int
    notes: list[str]


def predict_file(
    model: TableModel,
    data: str | Path,
    out: str | Path,
    output: Output | None = None,
    *,
    chunk_rows: int = CHUNK_ROWS,
    progress: Progress | None = None,
) -> Predicted:
    """Write predictions for the rows of a file, in their order and in constant memory.

    Parameters
    ----------
    model : TableModel
    data, out : str or Path
        ``out`` is CSV, TSV or parquet, and appears when it is whole.
    output : Output, optional
        What to write; default: sets and probabilities.
    chunk_rows : int
        Rows in memory at a time.
    progress : callable, optional
        Called with (step, share of the work done).
    """
    output, tally = output or Output(), Tally()
    expected, empty = guess_rows(data), 0
    notes: list[str] = []
    threshold = model.thresholds_ if output.threshold is None else output.threshold
    # Closed by hand: an error in the middle of the file must not leave it open.
    with (
        TableWriter(out) as table,
        closing(read_chunks(data, **reading_options(model, data), rows=chunk_rows)) as pieces,
    ):
        for chunk in pieces:
            if not table.rows:
                notes = _notes_on_columns(model, chunk)
            found = model.predict_proba(chunk, tally)
            suggested = join_tags(
                found,
                threshold=threshold,
                top=output.top,
                separator=output.separator,
                at_least_one=output.threshold is None and model.at_least_one_ and not output.allow_empty,
            )
            empty += suggested.count("")
            table.write(_rows(model, chunk, found, suggested, output, table.is_text))
            if progress is not None:
                progress("predicting", min(0.99, table.rows / expected))
    return Predicted(table.rows, empty, [*tally.notes(model.encoder_.kinds_), *notes])


def reading_options(model: TableModel, path: str | Path) -> dict[str, Any]:
    """Return how a file must be read so that its columns are what they were in training."""
    kinds = model.encoder_.kinds_
    plain = [name for name, kind in kinds.items() if kind == TEXT]
    plain += [name for name in (model.id_, model.label_) if name is not None]
    size = len(kinds) if Path(path).suffix.lower() in SVMLIGHT else None
    return {"words": model.encoder_.words_, "plain": plain, "n_features": size}


def _rows(
    model: TableModel,
    chunk: "pd.DataFrame",
    found: "pd.DataFrame",
    suggested: list[str],
    output: Output,
    is_text: bool,
) -> "pd.DataFrame":
    import pandas as pd

    if model.id_ is not None and model.id_ in chunk.columns:
        first: dict[str, Any] = {model.id_: as_words(chunk[model.id_])}
    else:
        first = {"row": chunk.index + 1}
    parts = [pd.DataFrame(first, index=chunk.index)]
    if output.probabilities:
        parts.append(as_columns(found, shorten=is_text))
    if output.sets:
        parts.append(pd.DataFrame({"suggested": suggested}, index=chunk.index))
    return pd.concat(parts, axis=1)


def _notes_on_columns(model: TableModel, frame: "pd.DataFrame") -> list[str]:
    """Say which columns training did not have (those that it left out are no news), and if the id is not there."""
    encoder = model.encoder_
    known = {*encoder.kinds_, *encoder.left_out_, *encoder.drop, model.id_, model.label_}
    strange = [str(name) for name in frame.columns if name not in known]
    notes = [f"columns that the model does not know are ignored: {shorten(strange, 5)}"] if strange else []
    if model.id_ is not None and model.id_ not in frame.columns:
        notes.append(f"there is no id column {model.id_!r}: rows are numbered from 1 on")
    return notes
