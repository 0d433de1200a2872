"""Tags in a column, and a reviewer's decisions, as the indicator matrix that the estimators take; and back."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from onepos._utils.context import warn
from onepos._utils.labels import cell_text, distinct_labels, label_codes, normal_tag
from onepos._utils.validation import DENSE_LABELS, csr, shorten
from onepos.exceptions import DataFileError, LabelWarning
from onepos.table.kinds import SUGGESTED, as_words, named, require_columns, words_of

ABOUT_LABELS = {"accept": 1, "reject": -1}  # What a reviewer's decision makes of a label
#: Decisions about a row: somebody has looked at it; it has no labels but those observed and accepted.
ABOUT_ROWS = ("done", "complete")
_LISTS = (list, tuple, set, frozenset, np.ndarray)  # What a cell with several tags may be
JOINED_BY = ";"  # What joins the tags of a set, unless a label holds it
_OTHER_SIGNS = ("|", " / ")


def tag_indicator(tags: "pd.Series[Any]", separator: str | None = None) -> pd.DataFrame:
    """Turn the tags of training rows into an int8 indicator with sorted columns; there must be two labels or more."""
    return split_tags(tags, separator, training_labels(tags, separator))


def training_labels(tags: "pd.Series[Any]", separator: str | None = None) -> list[str]:
    """Return the distinct tags of training rows, sorted; there must be two or more."""
    classes = distinct_tags(tags, separator)
    if not classes:
        raise DataFileError(f"label column {tags.name!r} holds no tag in {len(tags):,} rows. Is it the right column?")
    if len(classes) == 1:
        raise DataFileError(
            f"label column {tags.name!r} holds one label only, {classes[0]!r}; at least two are needed to learn from."
        )
    joined = None if separator or holds_lists(tags) else joined_tags(classes)
    if joined is not None:
        warn(
            f"{joined[1]:,} of {len(classes):,} distinct tags contain {joined[0]!r}: name it as the separator if a "
            "cell can hold several tags",
            LabelWarning,
            stacklevel=4,
        )
    return classes


def split_tags(
    tags: "pd.Series[Any]", separator: str | None = JOINED_BY, classes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Turn sets of tags, joined by ``separator``, into an int8 indicator; only tags in ``classes`` count."""
    classes = distinct_tags(tags, separator) if classes is None else list(classes)
    return pd.DataFrame(tag_matrix(tags, separator, classes).toarray(), columns=classes, index=tags.index)


def tag_matrix(tags: "pd.Series[Any]", separator: str | None, classes: Sequence[str]) -> Any:
    """Turn sets of tags into an int8 indicator in a CSR array, as ``split_tags`` does."""
    cells, of_row = _distinct_cells_of_tags(tags, separator)
    sets = [[*filter(None, map(normal_tag, cell))] for cell in [*cells, []]]  # the last one is that of gaps
    places = np.repeat(np.arange(len(sets)), [len(tags_of_cell) for tags_of_cell in sets])
    codes = label_codes(list(chain.from_iterable(sets)), pd.Index(classes, dtype=object))
    known = codes >= 0
    marks = csr((np.ones(known.sum(), np.int8), (places[known], codes[known])), shape=(len(sets), len(classes)))
    marks.data[:] = 1  # a cell may hold a tag twice
    return marks[of_row]


def distinct_tags(tags: "pd.Series[Any]", separator: str | None) -> list[str]:
    """Return the distinct tags of a column, sorted; warn if several spellings are one tag."""
    cells, _ = _distinct_cells_of_tags(tags, separator)
    return [*filter(None, distinct_labels(chain.from_iterable(cells), stacklevel=3))]


def cells_of_tags(tags: "pd.Series[Any]", separator: str | None) -> list[list[str]]:
    """Return the tags of each cell as they are written. A cell may be a list of tags, as in parquet files."""
    cells, of_row = _distinct_cells_of_tags(tags, separator)
    cells.append([])  # a gap
    return [cells[place] for place in of_row]


def _distinct_cells_of_tags(tags: "pd.Series[Any]", separator: str | None) -> tuple[list[list[str]], NDArray[np.intp]]:
    """Return the tags of each distinct cell, and the place of each row's cell among them, −1 for a gap."""
    if not holds_lists(tags):
        words = words_of(tags)
        return [_split(word, separator) for word in words.distinct], words.codes
    lists = [list(cell) if isinstance(cell, _LISTS) else [cell] for cell in tags]
    cells = [[text for tag in cell if not pd.isna(tag) and (text := cell_text(tag))] for cell in lists]
    return cells, np.arange(len(cells))


def holds_lists(tags: "pd.Series[Any]") -> bool:
    """Whether a cell of a column of tags is a list of tags."""
    may = tags.dtype == object or "list" in str(tags.dtype)
    return may and any(isinstance(cell, _LISTS) for cell in tags)


def _split(word: str, separator: str | None) -> list[str]:
    """Return the tags of a cell as they are written, without blanks around them; one tag without ``separator``."""
    return [*filter(None, map(str.strip, word.split(separator.strip() or separator)))] if separator else [word]


def joined_tags(tags: Sequence[str]) -> tuple[str, int] | None:
    """Return the sign that seems to join several tags in a cell, and how many of the distinct tags hold it; or None.

    A tenth of the tags must hold it, and half of these must have a part that is also a tag, or part of another one.
    """
    for sign in (";", "|", ","):
        lists = [_split(tag, sign) for tag in tags if sign in tag]
        parts = Counter(part for tag in tags for part in set(_split(tag, sign)))
        shared = sum(any(parts[part] > 1 for part in cell) for cell in lists)
        if len(lists) >= max(1.0, 0.1 * len(tags)) and 2 * shared >= len(lists):
            return sign, len(lists)
    return None


def join_tags(
    probabilities: pd.DataFrame,
    threshold: float | Sequence[float] = 0.5,
    top: int | None = None,
    separator: str = JOINED_BY,
    *,
    at_least_one: bool = False,
) -> list[str]:
    """Return each row's labels with at least ``threshold``, or its ``top`` ones, most probable first, joined."""
    labels = [str(name) for name in probabilities.columns]
    if not separator:
        raise DataFileError("the separator of sets is empty. Give a sign such as ';'.")
    held = [label for label in labels if (separator.strip() or separator) in label]
    if held:
        raise DataFileError(
            f"the label {held[0]!r} holds the separator {separator!r} of the tags of a set. Give another separator."
        )
    values: NDArray[np.float64] = probabilities.to_numpy(dtype=np.float64)
    order = np.argsort(-values, axis=1, kind="stable")
    # A value below zero is no probability: the caller knows that the label is absent.
    taken = values >= (np.asarray(threshold) if top is None else 0.0)
    if at_least_one:
        taken[np.arange(len(taken)), order[:, 0]] |= ~taken.any(axis=1)
    ranked = np.take_along_axis(taken, order, axis=1)
    ranked[:, top:] &= top is None
    ends = np.concatenate([[0], ranked.sum(axis=1).cumsum()]).astype(np.int32)
    sets = pa.ListArray.from_arrays(pa.array(ends), pa.array(labels, pa.string()).take(pa.array(order[ranked])))
    joined: list[str] = pc.binary_join(sets, separator).to_pylist()
    return joined


def best_tags(
    probabilities: pd.DataFrame, top: int, separator: str, threshold: float = 0.0
) -> tuple[list[str], list[str]]:
    """Return each row's ``top`` labels that reach ``threshold``, best first, and their probabilities, both joined."""
    labels, values = [str(name) for name in probabilities.columns], probabilities.to_numpy(dtype=np.float64)
    top = min(top, len(labels))
    best = np.sort(np.argpartition(-values, top - 1, axis=1)[:, :top], axis=1)
    shares = np.take_along_axis(values, best, axis=1)
    order = np.argsort(-shares, axis=1, kind="stable")
    best, shares = (np.take_along_axis(part, order, axis=1) for part in (best, shares))
    sizes = (shares >= threshold).sum(axis=1)
    sets = [separator.join([labels[j] for j in row[:size]]) for row, size in zip(best, sizes, strict=True)]
    written = [separator.join([f"{share:.6g}" for share in row[:n]]) for row, n in zip(shares, sizes, strict=True)]
    return sets, written


def joining_sign(labels: Sequence[str]) -> str:
    """Return what joins the tags of a set in an output: ``;``, or another sign if a label holds it."""
    signs = (JOINED_BY, *_OTHER_SIGNS)
    return next((sign for sign in signs if not any(sign.strip() in label for label in labels)), JOINED_BY)


class LabelColumns(NamedTuple):
    """Where the labels and ids of a table are: a column of tags, or 0/1 columns."""

    label: str | None = None
    labels: Sequence[str] | None = None
    id: str | None = None
    separator: str | None = None

    @property
    def names(self) -> list[str]:
        """Columns that are not features."""
        return [name for name in (self.label, *(self.labels or ()), self.id) if name is not None]

    def check(self, text: Sequence[str] = ()) -> None:
        """Raise if the names contradict each other; ``text`` are the columns of words."""
        if not isinstance(self.label, str | None) or not isinstance(self.labels, list | tuple | None):
            raise TypeError(
                f"label is the name of the column of tags, and labels a list of names of 0/1 columns; got "
                f"{type(self.label).__name__} and {type(self.labels).__name__}. Put the tags into columns of the table."
            )
        if (self.label is None) == (self.labels is None):
            raise DataFileError(
                "say which column holds the tags (label), or which 0/1 columns are the labels (labels)."
            )
        if self.separator is not None and self.label is None:
            raise DataFileError("a separator says how the tags of the label column are joined: name that column too.")
        for what, names in (("label", self.names[:-1]), ("text", text)):
            if self.id is not None and self.id in names:
                raise DataFileError(f"column {self.id!r} is named as id and as {what}. It can be one of them.")
        if SUGGESTED in self.names:
            raise DataFileError(f"{SUGGESTED!r} is the name of a column that predictions have. Rename the column.")

    def observed(self, frame: pd.DataFrame) -> tuple[list[str], Any]:
        """Return the names of the labels, and the int8 indicator: an array, or a CSR array if it would be large."""
        if self.label is None:
            made = self.indicator(frame)
            return [str(name) for name in made.columns], made.to_numpy(dtype=np.int8)
        require_columns(frame, [self.id] if self.id is not None else [], "id")
        require_columns(frame, [self.label], "label")
        labels = training_labels(frame[self.label], self.separator)
        matrix = tag_matrix(frame[self.label], self.separator, labels)
        return labels, matrix if np.prod(matrix.shape, dtype=np.int64) > DENSE_LABELS else matrix.toarray()

    def indicator(self, frame: pd.DataFrame, classes: Sequence[str] | None = None) -> pd.DataFrame:
        """Return labels (1 observed, −1 known absent, 0 unknown); without ``classes``, of a whole training table."""
        require_columns(frame, [self.id] if self.id is not None else [], "id")
        if self.label is not None:
            require_columns(frame, [self.label], "label")
            tags = frame[self.label]
            return tag_indicator(tags, self.separator) if classes is None else split_tags(tags, self.separator, classes)
        made = indicator_columns(frame, self.labels or ())
        if made.shape[1] < 2:
            raise DataFileError("at least two labels are needed to learn anything; got one.")
        return made


def joined_with(
    table: Any, y: Any, label: str | None, labels: Sequence[str] | None
) -> tuple[pd.DataFrame, str | None, list[str] | None]:
    """Return a table with its tags as further columns, and the names of those: a label column, or 0/1 columns."""
    if label is not None or labels is not None:
        raise ValueError("the tags are given twice, as y and by the name of their column. Leave one of them out.")
    frame = named(table)
    if np.ndim(y) not in (1, 2) or len(y) != len(frame):
        raise ValueError(f"y must have one tag, or one row of 0/1 columns, for each of {len(frame):,} rows.")
    tags = pd.DataFrame(y)
    if np.ndim(y) == 1:
        tags.columns = [str(getattr(y, "name", None) or "tag")]
    tags = named(tags.set_axis(frame.index))
    if held := [name for name in tags if name in frame.columns]:
        raise ValueError(f"the table has a column {held[0]!r}, as y has. Drop it there: it gives the tag away.")
    names = [str(name) for name in tags]
    joined = pd.concat([frame, tags], axis=1)
    return (joined, names[0], None) if np.ndim(y) == 1 else (joined, None, names)


class Things(NamedTuple):
    """One row per thing, with the tags of all of its rows; the number of each row's thing; what to tell the user."""

    frame: pd.DataFrame
    indicator: pd.DataFrame
    of_row: NDArray[np.intp]
    note: str


def join_things(frame: pd.DataFrame, indicator: pd.DataFrame, group: str, not_features: Sequence[str]) -> Things:
    """Join the rows that have the same value in column ``group``: the first one stays, with the tags of all.

    A rejected label (−1) stays rejected unless another row of the thing has it. A row without a value is its own thing.
    """
    require_columns(frame, [group], "group")
    codes, _ = pd.factorize(frame[group])
    alone = codes < 0
    codes[alone] = len(codes) + np.arange(alone.sum())
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)  # things in the order of their first rows
    first, of_row = first[order], np.argsort(order)[inverse]
    values = indicator.to_numpy(dtype=np.int8)
    positive, rejected = (np.zeros((len(first), values.shape[1]), dtype=bool) for _ in range(2))
    np.logical_or.at(positive, of_row, values > 0)
    np.logical_or.at(rejected, of_row, values < 0)
    joined = np.where(positive, 1, np.where(rejected, -1, 0)).astype(np.int8)
    features = frame.drop(columns=[*{group, *not_features} & set(frame.columns)])
    marks = row_marks(features)
    differ = 0 if marks is None else len(np.unique(of_row[marks != marks[first][of_row]]))
    note = f"{len(frame):,} rows describe {len(first):,} things ({group!r}), whose tags are joined"
    if differ:
        note += f"; {differ:,} of these have rows that differ in other columns, and their first row is used"
    return Things(
        frame.iloc[first], pd.DataFrame(joined, columns=indicator.columns, index=frame.index[first]), of_row, note
    )


def row_marks(frame: pd.DataFrame) -> NDArray[np.uint64] | None:
    """Return a number for each row, equal if the cells are; None if there are no columns, or cells cannot be hashed."""
    if not frame.shape[1]:
        return None
    try:
        return np.asarray(pd.util.hash_pandas_object(frame, index=False), dtype=np.uint64)
    except TypeError:  # cells that are lists
        return None


def indicator_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the 0/1 columns of the given names as int8; anything else in them is an error."""
    require_columns(frame, names, "labels")
    made = {}
    for name in names:
        values = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
        wrong = np.flatnonzero(~np.isin(values, (-1.0, 0.0, 1.0)))
        if wrong.size:
            raise DataFileError(
                f"label column {name!r} must hold 0 and 1; row {wrong[0] + 1}, counted from 1, has "
                f"{str(frame[name].iloc[wrong[0]])[:40]!r}. A column of tags is given as label."
            )
        made[name] = values.astype(np.int8)
    return pd.DataFrame(made, index=frame.index)


def row_ids(frame: pd.DataFrame, column: str | None) -> "pd.Index[Any]":
    """Return the id of each row as text: its cell in ``column``, or without such a column its number from 1 on."""
    if column is None:
        return pd.Index([str(number) for number in range(1, len(frame) + 1)])
    ids: pd.Index[Any] = pd.Index(as_words(frame[column]))
    if ids.hasnans:
        first = int(np.flatnonzero(ids.isna())[0]) + 1
        raise DataFileError(f"id column {column!r} is empty in row {first}, counted from 1. Fill it in.")
    if not ids.is_unique:
        raise DataFileError(
            f"ids must be distinct; {ids[ids.duplicated()][0]!r} comes twice in column {column!r}. Name another "
            "column, or none to have rows numbered."
        )
    return ids


def apply_decisions(
    indicator: pd.DataFrame, ids: "pd.Index[Any]", decisions: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the indicator with 1 where a label was accepted and −1 where it was rejected, and how many of each.

    ``ids`` are those of ``row_ids``; ``decisions`` is as from ``read_decisions``, with the columns id, label and
    decision. In a complete row, labels that are neither observed nor accepted become −1. Decisions on rows that are not
    in the table are only counted.
    """
    require_columns(decisions, ("id", "label", "decision"), "part of a decision")
    names, tags, verdicts = (as_words(decisions[name]) for name in ("id", "label", "decision"))
    labels = pd.Index([normal_tag(str(name)) for name in indicator.columns])
    rows = ids.get_indexer(pd.Index(names))
    columns = labels.get_indexer(pd.Index([normal_tag(tag or "") for tag in tags], dtype=object))
    decided = np.array([ABOUT_LABELS.get(verdict, 0) for verdict in verdicts], dtype=np.int8)
    about_row = np.isin(verdicts.astype(str), ABOUT_ROWS)
    for cells, wrong, what, known in (
        (verdicts, (decided == 0) & ~about_row, "decision", [*ABOUT_LABELS, *ABOUT_ROWS]),
        (tags, (columns < 0) & ~about_row, "label", list(labels)),
    ):
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise DataFileError(f"decision {first + 1}: unknown {what} {cells[first]!r}; known: {shorten(known)}.")
    here = rows >= 0
    if len(rows) and not here.any():
        raise DataFileError(
            f"no decision is about a row of the table: {names[0]!r} and all others are none of its ids (the first is "
            f"{ids[0]!r}). Do both files belong together, and is the id column the same?"
        )
    values, used = indicator.to_numpy(dtype=np.int8).copy(), here & ~about_row
    values[rows[used], columns[used]] = decided[used]
    complete = np.unique(rows[here & (verdicts == "complete")])
    values[complete] = np.where(values[complete] == 0, -1, values[complete])
    sizes = {"accepted": (decided[used] > 0).sum(), "rejected": (decided[used] < 0).sum(), "complete": len(complete)}
    made = pd.DataFrame(values, columns=indicator.columns, index=indicator.index)
    return made, {name: int(size) for name, size in sizes.items()} | {"elsewhere": int((~here).sum())}
