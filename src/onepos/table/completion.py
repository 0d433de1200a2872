"""A table with its missing tags filled in."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onepos.table.decisions import apply_decisions, row_ids
from onepos.table.encoder import Tally, named
from onepos.table.kinds import as_words
from onepos.table.model import TableModel
from onepos.table.reading import TableData, read_as_written
from onepos.table.tags import join_tags, split_cell, tag_indicator
from onepos.table.writing import TableWriter, as_columns

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Completion:
    """Rows, what is known and what is likely of each.

    Attributes
    ----------
    written : DataFrame
        The table as it stands in its file.
    probabilities : DataFrame of shape (n_samples, n_labels)
    known, observed_only : int8 arrays of shape (n_samples, n_labels)
        1 observed or accepted, −1 rejected, 0 unknown; and the same without a reviewer's decisions.
    suggested : list of str
        The tags of each row, joined by ``separator``.
    notes, column_notes : list of str
        What to know about the tags, and about what was filled in or not recognised in columns.
    """

    model: TableModel
    data: TableData
    written: "pd.DataFrame"
    probabilities: "pd.DataFrame"
    known: NDArray[np.int8]
    observed_only: NDArray[np.int8]
    suggested: list[str]
    separator: str
    notes: list[str]
    column_notes: list[str]

    def ids(self) -> list[str]:
        """Return the id of each row, or its number from 1 on."""
        return [str(name) for name in row_ids(self.data.frame, self.model.id_)]

    def observed(self) -> list[str | None]:
        """Return the one tag that each row came with; None if there is none, or several."""
        first = (self.observed_only > 0).argmax(axis=1)
        one = (self.observed_only > 0).sum(axis=1) == 1
        return [self.model.labels_[j] if single else None for j, single in zip(first, one, strict=True)]

    def added(self) -> int:
        """Return how many tags are suggested beside those that were known."""
        sizes = [len(tags.split(self.separator)) if tags else 0 for tags in self.suggested]
        return int(sum(sizes) - (self.known > 0).sum())

    def write(self, path: str | Path) -> None:
        """Write the table, ``p(label)`` columns and ``suggested``; columns of these names that it had are replaced."""
        import pandas as pd

        with TableWriter(path) as out:
            found = as_columns(self.probabilities, shorten=out.is_text).reset_index(drop=True)
            more = pd.concat([found, pd.DataFrame({"suggested": self.suggested})], axis=1)
            table = self.written.reset_index(drop=True)
            table = table.drop(columns=[name for name in more.columns if name in table.columns])
            out.write(pd.concat([table, more], axis=1))


def complete_table(
    model: TableModel,
    data: TableData,
    *,
    path: Path,
    decisions: "pd.DataFrame | None" = None,
    threshold: float | None = None,
    top: int | None = None,
    separator: str = ";",
    at_least_one: bool | None = None,
) -> Completion:
    """Predict every label of every row and join what is known with what is likely.

    Parameters
    ----------
    model : TableModel
    data : TableData
        The table, read as the model needs it.
    path : Path
        Its file, from which the output takes the other columns as they are written.
    decisions, threshold, top, separator
        As for ``apply_decisions`` and ``join_tags``; the threshold is the model's by default.
    at_least_one : bool, optional
        Put the best label into a set that would be empty, unless a threshold is given; default: as the model was told.
    """
    frame, tally = named(data.frame), Tally()
    probabilities = model.predict_proba(frame, tally)
    indicator, notes = _observed(model, data)
    known = observed = indicator.to_numpy(dtype=np.int8)
    if decisions is not None:
        known = apply_decisions(indicator, row_ids(frame, model.id_), decisions)[0].to_numpy(dtype=np.int8)
    # What is known outranks whatever the model thinks of it.
    settled = probabilities.mask(known > 0, 2.0).mask(known < 0, -1.0)
    limit = model.thresholds_ if threshold is None else threshold
    filled = model.at_least_one_ if at_least_one is None else at_least_one
    suggested = join_tags(
        settled, threshold=limit, top=top, separator=separator, at_least_one=threshold is None and filled
    )
    written = frame if data.labels is not None else read_as_written(path)
    of_columns = tally.notes(model.encoder_.kinds_)
    return Completion(model, data, written, probabilities, known, observed, suggested, separator, notes, of_columns)


def _observed(model: TableModel, data: TableData) -> tuple["pd.DataFrame", list[str]]:
    import pandas as pd

    if data.labels is not None:
        return data.labels.reindex(columns=model.labels_, fill_value=0), []
    nothing = pd.DataFrame(0, columns=model.labels_, index=data.frame.index)
    if model.label_ is None or model.label_ not in data.frame.columns:
        return nothing, []
    column, separator = data.frame[model.label_], model.separator_
    tags = {tag for cell in as_words(column) for tag in split_cell(cell, separator)}
    strange = sorted(tags - set(model.labels_))
    notes = [f"tags that the model does not know stay as they are: {', '.join(strange[:5])}"] if strange else []
    return tag_indicator(column, model.labels_, separator) if tags else nothing, notes
