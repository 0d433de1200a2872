"""Columns and rows: how each column is read once, and the checks of what they hold; docs/doctor.md has the rules."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_timedelta64_dtype
from pandas.util import hash_pandas_object
from scipy import sparse

from onepos.doctor.diagnosis import Finding, counted, finding, name_of
from onepos.doctor.labels import Tags, factorize
from onepos.table import ColumnEncoder
from onepos.table.columns import FLAGS, DateColumn, as_numbers
from onepos.table.judge import ColumnChoice, judge, kind_of
from onepos.table.kinds import (
    BOOLEAN,
    CATEGORY,
    NUMBER,
    OTHER,
    PICTURES,
    TEXT,
    WRITTEN,
    as_list,
    named,
    require_columns,
)

ENOUGH_ROWS = 20  # From this many rows on, distinct values say something about identifiers
LEAK_ACCURACY = 0.98  # Held-out accuracy of one column from which on it gives the tag away
LEAK_SKILL = 0.95  # Share of the way from the most frequent label to certainty that it must also close
LEAK_ROWS, LEAK_LABEL_ROWS = 50, 10  # Fewest held-out rows, in all and of one label, from which to conclude
LEAK_SAMPLE = 5000  # Rows to look at
REPEATED_SHARE = 0.01  # Repeated rows are a warning above this share, a note below
_BY_CHANCE = "The columns are so coarse that rows coincide by chance; nothing needs to be done."
_COPIES = "Drop copies of one record; keep repeated observations of one thing, all on the same side of a split."


@dataclass(frozen=True, eq=False)
class Column:
    """A column, read once; ``kind`` is as in ``onepos.table``."""

    cells: "pd.Series[Any]"
    kind: str
    choice: ColumnChoice  # What ``fit`` would make of it.
    is_text: bool  # Whether it is named as text.
    codes: NDArray[np.int64]  # Place of each entry in ``distinct``; −1 where missing.
    distinct: NDArray[Any]  # Distinct values in the order in which they occur.
    #: Numbers, for numbers, yes/no and dates (days); NaN where missing. None for other kinds.
    values: NDArray[np.float64] | None

    @property
    def name(self) -> str:
        """The name of the column."""
        return str(self.cells.name)

    @property
    def is_used(self) -> bool:
        """Whether ``fit`` makes features of it."""
        return not self.choice.reason


def read_columns(features: Any, text: Any = None) -> list[Column]:
    """Read a DataFrame, a Series or an array; ``ValueError`` says what does not fit."""
    if sparse.issparse(features):
        raise ValueError("features must be a DataFrame or a 2-D array; got a sparse matrix. Pass features.toarray().")
    frame = named(pd.DataFrame(features if isinstance(features, pd.DataFrame | pd.Series) else np.asarray(features)))
    if frame.empty:
        raise ValueError(f"features must have at least one row and one column; got shape {frame.shape}.")
    texts = as_list(text) if text is not None else []
    require_columns(frame, texts, "text")
    wanted = ColumnEncoder(text=texts)
    return [read_column(cells, wanted) for _, cells in frame.items()]


def read_column(cells: "pd.Series[Any]", wanted: ColumnEncoder) -> Column:
    """Read one column of a frame; ``wanted`` has the settings of ``fit``."""
    choice = judge(cells, wanted)
    kind, values = choice.kind or kind_of(cells), None
    if isinstance(choice.part, DateColumn):
        values = choice.part.days(cells)
    elif kind == BOOLEAN:
        values = as_numbers(cells, FLAGS)
    elif kind == NUMBER:
        numbers = (
            cells.dt.total_seconds() if is_timedelta64_dtype(cells.dtype) else pd.to_numeric(cells, errors="coerce")
        )
        values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, distinct = factorize(pd.Series(values) if kind == BOOLEAN else cells)
    return Column(cells, kind, choice, cells.name in wanted.text, codes, distinct, values)


def check_columns(columns: Sequence[Column], leaks: dict[str, float]) -> Iterator[Finding]:
    """Look at each column: what it holds, what ``fit`` leaves out, copies of others, and what ``find_leaks`` found."""
    explained = set[str]()
    for code, test in _TESTS.items():
        names = [column.name for column in columns if test(column)]
        if names:
            explained.update(names)
            yield finding(code, names)
    for column in columns:
        if column.choice.reason and column.name not in explained:
            yield finding("column-left-out", [column.name], reason=column.choice.reason)
    same: dict[object, list[str]] = defaultdict(list)
    for column in columns:
        if len(column.distinct) > 1:
            same[column.codes.tobytes(), tuple(map(str, column.distinct))].append(column.name)
    if copies := {copy: group[0] for group in same.values() for copy in group[1:]}:
        shown = ", ".join(f"{name_of(copy)} = {name_of(first)}" for copy, first in list(copies.items())[:5])
        yield finding("column-duplicate", copies, copies=counted(len(copies), "column"), shown=shown)
    if leaks:
        shown = ", ".join(f"{name_of(name)} {share:.1%}" for name, share in list(leaks.items())[:5])
        yield finding("column-leaks", leaks, found=counted(len(leaks), "column"), shown=shown)


def is_id(column: Column) -> bool:
    """Whether a column looks like an identifier: words or whole numbers, another one in every row."""
    n_rows = len(column.codes)
    if n_rows < ENOUGH_ROWS or len(column.distinct) < n_rows or column.is_text or is_pictures(column):
        return False
    if column.kind == CATEGORY:
        return all(isinstance(value, str) and len(value.split()) == 1 for value in column.distinct)
    values = column.values
    if column.kind != NUMBER or values is None or not (np.isfinite(values) & (values == np.floor(values))).all():
        return False
    return bool((np.diff(values) > 0).all() or values.max() - values.min() == n_rows - 1)


def is_pictures(column: Column) -> bool:
    """Whether a column names picture files."""
    return column.choice.reason.startswith(PICTURES)


_TESTS: dict[str, Callable[[Column], bool]] = {
    "column-empty": lambda column: len(column.distinct) == 0,
    "column-constant": lambda column: len(column.distinct) == 1 < len(column.codes) and bool((column.codes >= 0).all()),
    "column-mostly-missing": lambda column: len(column.distinct) > 0 and bool((column.codes < 0).mean() > 0.5),
    "column-id": is_id,
    "column-pictures": is_pictures,
    "column-number-as-text": lambda column: getattr(column.choice.part, "units", None) == [""],
    "column-unsupported": lambda column: column.kind == OTHER,
    "column-infinite": lambda column: column.values is not None and bool(np.isinf(column.values).any()),
}


def find_leaks(columns: Sequence[Column], tags: Tags) -> dict[str, float]:
    """Predict the tag from each column alone; return the columns that do it, each with its held-out accuracy.

    Half of up to 5,000 tagged rows say which tag goes with which value (the nearest value, for numbers); the other half
    is predicted. So a column with a value per row earns nothing by chance.
    """
    rows = np.flatnonzero(tags.codes >= 0)
    if len(rows) < 2 * LEAK_ROWS or (tags.counts > 0).sum() < 2:
        return {}
    rows = np.random.default_rng(0).permutation(rows)[:LEAK_SAMPLE]
    learn, hold = np.split(rows, [len(rows) // 2])
    truth, leaks = tags.codes[hold], dict[str, float]()
    frequent = float(np.bincount(truth).max() / len(truth))
    for column in columns:
        if column.choice.reason == WRITTEN:
            continue
        accuracy = float((_predict(column, learn, hold, tags.codes) == truth).mean())
        if accuracy >= LEAK_ACCURACY and accuracy - frequent >= LEAK_SKILL * (1 - frequent) and frequent < 1:
            leaks[column.name] = accuracy
        elif len(column.distinct) == 2 and (share := _tells_one_label(column.codes[hold], truth)):
            leaks[column.name] = share
    return leaks


def _predict(column: Column, learn: Any, hold: Any, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent tag of each held-out row's value, or of the nearest number, among the learning rows."""
    numeric = column.values is not None and bool((column.codes[learn] >= 0).any())
    values: Any = column.values if numeric else column.codes
    known = learn[column.codes[learn] >= 0] if numeric else learn
    pairs = pd.DataFrame({"value": values[known], "tag": codes[known]}).value_counts().index.to_frame(index=False)
    best = pairs.drop_duplicates("value").sort_values("value")
    seen, tags, asked = best["value"].to_numpy(), best["tag"].to_numpy(), values[hold]
    with np.errstate(all="ignore"):  # sums may be infinite
        place = np.searchsorted(seen[:-1] / 2 + seen[1:] / 2, asked, side="right")
    answered = column.codes[hold] >= 0 if numeric else seen[place] == asked
    return np.where(answered, tags[place], np.bincount(codes[learn]).argmax())


def _tells_one_label(value: NDArray[np.int64], truth: NDArray[np.int64]) -> float | None:
    """Return the smaller of precision and recall if one of the two values stands for one label."""
    counts = np.bincount(truth)
    known = (counts >= LEAK_LABEL_ROWS) & (counts < len(truth))
    best = 0.0
    for one in (0, 1):
        both = np.bincount(truth[value == one], minlength=len(counts))
        share = both / np.maximum(np.maximum(counts, int((value == one).sum())), 1)
        best = max(best, float(share[known].max(initial=0.0)))
    return best if best >= LEAK_ACCURACY else None


def check_rows(columns: Sequence[Column], tags: Tags) -> Iterator[Finding]:
    """Look for rows without content, rows with identical features, and identical rows with different tags."""
    empty = empty_rows(columns)
    if empty.any():
        yield finding("row-empty", rows=counted(int(empty.sum()), "row"))
    group, size = groups_of(columns, ~empty)
    repeats = int((size - 1).sum())
    if not repeats:
        return
    share, chance = repeats / len(empty), chance_duplicates(columns, size)
    yield finding(
        "row-duplicate",
        level="warning" if share > REPEATED_SHARE and not chance else "note",
        rows=counted(repeats, "row"),
        share=share,
        meaning=_BY_CHANCE if chance else _COPIES,
    )
    codes = tags.codes[~empty]
    group, codes = group[codes >= 0], codes[codes >= 0]
    several = int((np.bincount(group) > 1).sum())
    differ = int((np.bincount(np.unique(np.stack([group, codes]), axis=1)[0]) > 1).sum())
    if differ:
        yield finding("row-duplicate-disagrees", differ=differ, groups=counted(several, "group"))


def empty_rows(columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Return the rows in which every entry is zero, missing or a blank string."""
    empty = np.ones(len(columns[0].codes), dtype=np.bool_)
    for column in columns:
        if column.values is not None:
            empty &= (column.values == 0) | (column.codes < 0)
        else:
            blank = [isinstance(value, str) and not value.strip() for value in column.distinct]
            empty &= np.array([*blank, True], dtype=np.bool_)[column.codes]  # the last entry is that of −1, missing
    return empty


def comparable_rows(columns: Sequence[Column], tags: Tags) -> NDArray[np.bool_]:
    """Return the rows that have one tag and content."""
    return (tags.codes >= 0) & ~empty_rows(columns)


def groups_of(columns: Sequence[Column], used: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of identical rows of each row that is used, and each group's size; gaps are equal."""
    codes = pd.DataFrame({number: column.codes for number, column in enumerate(columns)})
    keys = np.asarray(hash_pandas_object(codes, index=False))[used]
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    return group.astype(np.int64), size.astype(np.int64)


def chance_duplicates(columns: Sequence[Column], size: NDArray[np.int64]) -> bool:
    """Whether coarse columns alone would make a tenth of the pairs of identical rows, in groups of these sizes.

    If columns were independent, n(n−1)/2 · Π_c P(two rows agree in column c) pairs of rows would coincide. A column of
    prose never agrees by chance.
    """
    if any(column.kind == TEXT for column in columns):
        return False
    pairs = float((size * (size - 1.0)).sum() / 2)
    n_rows = len(columns[0].codes)
    every = max(n_rows * (n_rows - 1.0), 1.0)
    counts = [np.bincount(column.codes + 1).astype(np.float64) for column in columns]
    with np.errstate(divide="ignore"):
        agree = np.log([(count * (count - 1)).sum() / every for count in counts])
    return bool(agree.sum() + np.log(max(every / 2, 1.0)) >= np.log(max(0.1 * pairs, 1e-300)))
