"""Write predictions: for the rows of a file of any size, or beside the columns of a table that lacks tags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.context import tell
from onepos._utils.labels import cell_text
from onepos._utils.validation import shorten
from onepos.exceptions import DataFileError
from onepos.table.files import CHUNK_ROWS, TableData, files_of, read_chunks, read_table
from onepos.table.kinds import IMAGE, NUMBER, SUGGESTED, TEXT, Tally, distinct_cells, is_suggestion, named
from onepos.table.model import TableModel
from onepos.table.tags import (
    JOINED_BY,
    apply_decisions,
    best_tags,
    cells_of_tags,
    distinct_tags,
    holds_lists,
    join_tags,
    joining_sign,
    row_ids,
    split_tags,
)
from onepos.table.writing import WRITABLE, TableWriter

#: With more labels than this only the best ones are written, by default so many.
MANY_LABELS, TOP = 200, 20
_CHUNK_NUMBERS = 4_000_000  # Probabilities in memory at a time


@dataclass(frozen=True)
class Output:
    """What a row of the output holds: the set of likely tags, the probabilities, or both.

    A label is likely if its probability reaches ``threshold``, by default the model's; or the ``top`` labels are.
    Without a threshold, a set that would be empty gets the best label, unless ``allow_empty`` is set or the model has
    ``at_least_one=False``. ``separator`` joins the labels of a set; None: ``;``, or another sign if a label holds it.
    ``escape_formulas`` puts an apostrophe before texts that a spreadsheet would compute.

    Of more than ``MANY_LABELS`` labels only the ``top`` ones are written, by default 20, or those of them that reach
    ``threshold``; the column ``p(suggested)`` has their probabilities.
    """

    sets: bool = True
    probabilities: bool = True
    threshold: float | None = None
    top: int | None = None
    separator: str | None = None
    allow_empty: bool = False
    escape_formulas: bool = True


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
    sheet: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Predicted:
    """Write predictions for the rows of a file, in their order, with ``chunk_rows`` rows in memory at a time.

    ``out`` is CSV, TSV or parquet, and appears when it is whole. ``output`` says what to write; default: sets and
    probabilities. If ``data`` is a folder, ``out`` is one, too: each file is a task of joblib.
    """
    if Path(data).is_dir():
        done = _each_file(predict_file, model, data, out, output=output, sheet=sheet, chunk_rows=chunk_rows)
        notes = list(dict.fromkeys(note for one in done for note in one.notes))
        return Predicted(sum(one.rows for one in done), sum(one.rows_without_suggestion for one in done), notes)
    output, tally, empty = output or Output(), Tally(), 0
    many, step = len(model.labels_) > MANY_LABELS, max(1, _CHUNK_NUMBERS // len(model.labels_))
    threshold = model.thresholds_ if output.threshold is None else output.threshold
    filled = output.threshold is None and model.at_least_one_ and not output.allow_empty
    separator, notes = _separator(model, output.separator)
    with TableWriter(out, escape_formulas=output.escape_formulas) as table:
        for piece in read_chunks(data, **reading_options(model), sheet=sheet, rows=chunk_rows):
            chunk = piece.frame
            if not table.rows:
                notes += _notes_on_columns(model, chunk)
            if model.id_ in chunk.columns:
                codes, cells = distinct_cells(chunk[model.id_])
                texts = [*(cell if isinstance(cell, str) else cell_text(cell) for cell in cells), None]
                ids = pd.Series(np.array(texts, dtype=object)[codes], index=chunk.index, name=model.id_)
                # Tables can be joined by ids of the same type. A piece may have none.
                whole = not table.is_text and model.id_ in piece.integers
                ids = ids.astype("Int64" if whole else "string")
            else:
                ids = pd.Series(chunk.index + 1, index=chunk.index, name="row")
            for first in range(0, len(chunk), step):
                part = slice(first, first + step)
                probabilities = model.predict_proba(chunk[part], tally)
                columns: list[Any] = [ids[part]]
                if many:
                    sets, shares = best_tags(probabilities, output.top or TOP, separator, output.threshold or 0.0)
                else:
                    sets = join_tags(probabilities, threshold, output.top, separator, at_least_one=filled)
                    columns += [_as_columns(probabilities, rounded=table.is_text)] if output.probabilities else []
                empty += sets.count("")
                if output.sets or many:
                    columns.append(pd.Series(sets, index=probabilities.index, name=SUGGESTED))
                if output.probabilities and many:
                    columns.append(pd.Series(shares, index=probabilities.index, name=f"p({SUGGESTED})"))
                table.write(pd.concat(columns, axis=1))
            tell(min(0.99, piece.share), "predicting")
    if many and output.top is None:
        notes.append(f"the {TOP} best of {len(model.labels_):,} labels are written: --top K writes more or fewer")
    return Predicted(table.rows, empty, [*tally.notes(), *notes])


def _each_file(work: Any, model: TableModel, folder: str | Path, out: str | Path, **options: Any) -> list[Any]:
    """Call ``work(model, file, output file)`` for each file of a folder; names stay, and formats that can be written.

    joblib runs the calls, on as many workers as its ``parallel_config`` says.
    """
    from joblib import Parallel, delayed

    files, target = files_of(folder), Path(out)
    if target.exists() and not target.is_dir():
        raise DataFileError(f"{folder} is a folder, and so must be the output; {target} is a file.")
    written = [target / (file.name if file.suffix.lower() in WRITABLE else f"{file.name}.csv") for file in files]
    calls = (delayed(work)(model, file, to, **options) for file, to in zip(files, written, strict=True))
    done = []
    for result in Parallel(return_as="generator")(calls):
        done.append(result)
        tell(min(0.99, len(done) / len(files)), "predicting")
    return done


def _notes_on_columns(model: TableModel, chunk: pd.DataFrame) -> list[str]:
    """Return what the user should know about the columns of a file; those that training left out need no note."""
    encoder, notes = model.encoder_, []
    known = {*encoder.kinds_, *encoder.left_out_, *encoder.drop, model.id_, model.label_}
    strange = [str(name) for name in chunk.columns if name not in known]
    if strange:
        notes.append(f"columns that the model does not know are ignored: {shorten(strange, 5)}")
    if model.id_ is not None and model.id_ not in chunk.columns:
        notes.append(f"there is no id column {model.id_!r}: rows are numbered from 1 on")
    return notes


def _separator(model: TableModel, separator: str | None) -> tuple[str, list[str]]:
    """Return what joins the labels of a set, and a note if it is not the usual sign."""
    sign = joining_sign(model.labels_) if separator is None else separator
    if separator is not None or sign == JOINED_BY:
        return sign, []
    return sign, [f"a label holds {JOINED_BY!r}: the labels of a set are joined by {sign!r}"]


def reading_options(model: TableModel) -> dict[str, Any]:
    """Return how a file must be read so that its columns are what they were in training."""
    kinds = model.encoder_.kinds_
    plain = [name for name, kind in kinds.items() if kind in (TEXT, IMAGE)]
    plain += [name for name in (model.id_, model.label_) if name is not None]
    return {"plain": plain, "numbers": [name for name in kinds if kinds[name] == NUMBER]}


def read_as_trained(
    model: TableModel, path: str | Path, label: str | None = None, *, sheet: str | None = None
) -> TableData:
    """Read a file whole, so that its columns are what they were in training; ``label`` is another column of tags."""
    options = reading_options(model)
    return read_table(path, **options | {"plain": [*options["plain"], *filter(None, [label])]}, sheet=sheet)


def _as_columns(probabilities: pd.DataFrame, *, rounded: bool) -> pd.DataFrame:
    """Return the columns ``p(label)`` of an output, for text files rounded to six digits."""
    shares = probabilities.rename(columns=lambda name: f"p({name})")
    if not rounded:
        return shares
    values = shares.to_numpy()
    # Significant digits, not places: a rare label's probability is small, and its rank still counts.
    places = 5 - np.floor(np.log10(np.maximum(values, 1e-12)))
    return shares.mask(shares > 0, np.round(values * 10.0**places) / 10.0**places)


@dataclass(frozen=True)
class Completed:
    """How many rows were written, how many tags were added, and what the user should know."""

    rows: int
    added: int
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Completion:
    """Rows, what is known and what is likely of each.

    ``known`` is 1 where a label is observed or accepted, −1 where it is rejected, 0 where it is unknown;
    ``observed_only`` is the same without a reviewer's decisions. ``suggested`` has the tags of each row, joined by
    ``separator``. ``notes`` are about the tags, ``column_notes`` about what was filled in or not recognised in columns.
    """

    model: TableModel
    data: TableData
    probabilities: pd.DataFrame
    known: NDArray[np.int8]
    observed_only: NDArray[np.int8]
    suggested: list[str]
    separator: str
    notes: list[str]
    column_notes: list[str]

    def ids(self) -> list[str]:
        """Return the id of each row, or its number from 1 on."""
        return [str(name) for name in row_ids(self.data.frame, self.model.id_)]

    def observed(self) -> list[list[str]]:
        """Return the tags that each row came with."""
        return [[self.model.labels_[j] for j in np.flatnonzero(row > 0)] for row in self.observed_only]

    def added(self) -> int:
        """Return how many tags are suggested beside those that were known."""
        sizes = [len(tags.split(self.separator)) if tags else 0 for tags in self.suggested]
        return int(sum(sizes) - (self.known > 0).sum())

    def write(self, path: str | Path, *, escape_formulas: bool = True) -> None:
        """Write the table, its cells as they stand in its file, with ``p(label)`` columns and ``suggested``.

        They replace columns of these names.
        """
        with TableWriter(path, escape_formulas=escape_formulas) as out:
            self.write_rows(out)

    def write_rows(self, out: TableWriter) -> None:
        """Append the rows to a table that is being written."""
        written = named(self.data.frame) if self.data.as_written is None else self.data.as_written.fillna("")
        table, label = written.reset_index(drop=True), self.model.label_
        shares = _as_columns(self.probabilities, rounded=out.is_text).reset_index(drop=True)
        more = shares.assign(**{SUGGESTED: self.suggested})
        if out.is_text and label in table.columns and holds_lists(table[label]):
            table[label] = [self.separator.join(tags) for tags in cells_of_tags(table[label], None)]
        out.write(pd.concat([table.drop(columns=more.columns, errors="ignore"), more], axis=1))


def complete_table(
    model: TableModel,
    data: TableData,
    *,
    decisions: pd.DataFrame | None = None,
    threshold: float | None = None,
    top: int | None = None,
    separator: str | None = None,
    at_least_one: bool | None = None,
) -> Completion:
    """Predict every label of every row and join what is known with what is likely.

    ``data`` is the table, read as the model needs it. ``decisions`` is as for ``TableModel.fit``; ``threshold``,
    ``top`` and ``separator`` are as for ``Output``. ``at_least_one`` puts the best label into a set that would be
    empty, unless a threshold is given; default: the model's setting.
    """
    frame, tally = named(data.frame), Tally()
    probabilities = model.predict_proba(frame, tally)
    separator, notes = _separator(model, separator)
    if model.label_ in frame.columns:
        indicator = split_tags(frame[model.label_], model.separator_, model.labels_)
        strange = sorted(set(distinct_tags(frame[model.label_], model.separator_)) - set(model.labels_))
        if strange:
            notes.append(f"tags that the model does not know stay as they are: {', '.join(strange[:5])}")
    else:
        indicator = pd.DataFrame(0, columns=model.labels_, index=frame.index)
        if model.label_ is not None:
            notes.append(f"there is no label column {model.label_!r}: no label counts as observed")
    written_before = any(name != SUGGESTED and is_suggestion(name, frame[name]) for name in frame.columns)
    replaced = [name for name in (*(f"p({label})" for label in model.labels_), SUGGESTED) if name in frame.columns]
    if replaced and not written_before:
        notes.append(f"columns that the table had are replaced by the model's: {', '.join(replaced[:5])}")
    known = observed = indicator.to_numpy(dtype=np.int8)
    if decisions is not None:
        known = apply_decisions(indicator, row_ids(frame, model.id_), decisions)[0].to_numpy(dtype=np.int8)
    # What is known outranks whatever the model thinks of it.
    settled = probabilities.mask(known > 0, 2.0).mask(known < 0, -1.0)
    limit = model.thresholds_ if threshold is None else threshold
    filled = threshold is None and (model.at_least_one_ if at_least_one is None else at_least_one)
    suggested = join_tags(settled, limit, top, separator, at_least_one=filled)
    return Completion(model, data, probabilities, known, observed, suggested, separator, notes, tally.notes())


def complete_file(
    model: TableModel,
    data: str | Path,
    out: str | Path,
    *,
    sheet: str | None = None,
    escape_formulas: bool = True,
    chunk_rows: int = CHUNK_ROWS,
    **choice: Any,
) -> Completed:
    """Complete the tags of a file piece by piece, in constant memory; ``choice`` are options of ``complete_table``.

    If ``data`` is a folder, ``out`` is one, too: each file is a task of joblib.
    """
    how: dict[str, Any] = {"sheet": sheet, "escape_formulas": escape_formulas, "chunk_rows": chunk_rows, **choice}
    if Path(data).is_dir():
        done = _each_file(complete_file, model, data, out, **how)
        notes = list(dict.fromkeys(note for one in done for note in one.notes))
        return Completed(sum(one.rows for one in done), sum(one.added for one in done), notes)
    added, said = 0, dict[str, None]()
    options = reading_options(model)
    with TableWriter(out, escape_formulas=escape_formulas) as table:
        for piece in read_chunks(data, **options, sheet=sheet, rows=chunk_rows):
            completion = complete_table(model, piece, **choice)
            completion.write_rows(table)
            added += completion.added()
            said |= dict.fromkeys(completion.notes)
            tell(min(0.99, piece.share), "completing")
    return Completed(table.rows, added, list(said))
