"""Checks of the columns one by one: what they hold, what ``fit`` would make of them, and the scale of numbers."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from onepos.doctor.data import Column, Table, Tags
from onepos.doctor.diagnosis import Finding, Level, counted, finding, listed
from onepos.doctor.rows import matrix_keys
from onepos.table.kinds import CATEGORY, NUMBER, OTHER
from onepos.table.measures import MeasureColumn

#: From this many rows on, distinct values say something about identifiers and prose.
ENOUGH_ROWS = 20
#: Largest ratio of two columns' standard deviations that passes.
SPREAD = 1e3
#: float32, in which networks work, holds every whole number up to here and not beyond.
HUGE = 2.0**24
#: Distance from the median, in interquartile ranges, that a normal column reaches once in no lifetime.
TAIL = 100.0
#: A column of consecutive whole numbers with so many distinct values may hold codes.
FEWEST_CODES, MOST_CODES = 3, 30
ENOUGH_NUMBERS = 50
_TARGET_NAMES = frozenset({"label", "labels", "tag", "tags", "target", "targets", "class", "y"})
_PREFIX = re.compile(r"^(is|has|label|tag|target|class|y)[_\-. ]+", re.IGNORECASE)


def check_columns(table: Table, tags: Tags) -> Iterator[Finding]:
    """Look at each column; docs/doctor.md has the rules. Of a sparse matrix: empty and equal columns."""
    if table.matrix is not None:
        yield from _sparse_columns(table)
        return
    told: set[Hashable] = set()
    for code, (test, advice) in _SINGLE.items():
        names = [column.name for column in table.columns if test(column, table)]
        told.update(names)
        if names:
            yield finding(code, _LEVELS.get(code, "warning"), f"In {_these(names)}: {advice}", names)
    for column in table.columns:
        if column.choice.reason and column.name not in told:
            said = f"{listed([column.name])} {column.choice.reason}. A model does not see it."
            yield finding("column-left-out", "warning", said, [column.name])
    yield from _duplicates(table)
    yield from _named_like_labels(table, tags)


def _these(names: Sequence[object]) -> str:
    return f"{counted(len(names), 'column')} ({listed(names)})"


def is_id(column: Column, table: Table) -> bool:
    """Whether a column looks like an identifier: words or whole numbers, another one in every row."""
    if table.n_rows < ENOUGH_ROWS or len(column.distinct) < table.n_rows or column in table.texts:
        return False
    if column.kind == CATEGORY:
        return all(isinstance(value, str) and len(value.split()) == 1 for value in column.distinct)
    if column.values is None or not column.whole:
        return False
    values = column.values
    return bool((np.diff(values) > 0).all() or values.max() - values.min() == len(values) - 1)


def _numbers(column: Column, _: Table) -> bool:
    return isinstance(column.choice.part, MeasureColumn) and column.choice.part.units == [""]


_LEVELS: dict[str, Level] = {"column-unsupported": "error", "column-number-as-text": "note"}
#: Code → test of a column, and what it means.
_SINGLE: dict[str, tuple[Callable[[Column, Table], bool], str]] = {
    "column-empty": (lambda column, _: len(column.distinct) == 0, "no value at all."),
    "column-constant": (
        lambda column, table: len(column.distinct) == 1 and table.n_rows > 1 and column.missing == 0,
        "the same value in every row, which tells nothing.",
    ),
    "column-mostly-missing": (
        lambda column, table: len(column.distinct) > 0 and column.missing > table.n_rows / 2,
        "more than half of the entries are missing. Check the source; impute and add a column that says where a value "
        "was missing, or drop them.",
    ),
    "column-id": (is_id, "a different value in every row, as an identifier has."),
    "column-number-as-text": (
        _numbers,
        "numbers written as text. They are read as numbers; check the cells that are not.",
    ),
    "column-unsupported": (
        lambda column, _: column.kind == OTHER,
        "lists, complex numbers or other objects. Turn them into numbers or categories.",
    ),
}


def _duplicates(table: Table) -> Iterator[Finding]:
    same: dict[object, list[Column]] = defaultdict(list)
    for column in table.columns:
        if len(column.distinct) > 1:
            same[_content(column)].append(column)
    yield from _repeats([(group[0].name, column.name) for group in same.values() for column in group[1:]])


def _content(column: Column) -> object:
    if column.values is not None:
        return "numbers", np.where(np.isnan(column.values), np.nan, column.values + 0.0).tobytes()
    return "objects", column.codes.tobytes(), tuple(str(value) for value in column.distinct)


def _repeats(pairs: list[tuple[object, object]]) -> Iterator[Finding]:
    if pairs:
        shown = ", ".join(f"{listed([copy])} = {listed([first])}" for first, copy in pairs[:5])
        said = (
            f"The same values as in another column in {counted(len(pairs), 'column')} ({shown}). Copies count double."
        )
        yield finding("column-duplicate", "warning", said, [copy for _, copy in pairs])


def _named_like_labels(table: Table, tags: Tags) -> Iterator[Finding]:
    labels = {_plain(str(name)) for name in tags.names} - {""}
    names = [name for name in table.names if isinstance(name, str) and _is_label_name(name, labels)]
    if names and table.named:
        said = (
            f"Named like a label or like a column of labels: {_these(names)}. If they were filled in by whoever chose "
        )
        yield finding("column-named-like-label", "warning", said + "the tag, they give the answer away.", names)


def _is_label_name(name: str, labels: set[str]) -> bool:
    plain = _plain(name)
    # Labels that are numbers meet columns that are numbered: no evidence.
    lettered = any(letter.isalpha() for letter in plain)
    return plain in _TARGET_NAMES or (lettered and (plain in labels or _plain(_PREFIX.sub("", name)) in labels))


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\W_]+", name.casefold())).strip()


def _sparse_columns(table: Table) -> Iterator[Finding]:
    columns = table.matrix.T.tocsr()
    columns.sort_indices()
    filled = np.diff(columns.indptr) > 0
    empty = np.flatnonzero(~filled).tolist()
    if empty:
        yield finding("column-constant", "warning", f"In {_these(empty)}: {_SINGLE['column-constant'][1]}", empty)
    _, first, group = np.unique(matrix_keys(columns), return_index=True, return_inverse=True)
    yield from _repeats([(int(first[group[j]]), j) for j in np.flatnonzero(filled).tolist() if first[group[j]] != j])


def check_scale(table: Table) -> Iterator[Finding]:
    """Look at the numeric columns: infinite, huge, of very different scale, heavy-tailed, codes of categories."""
    if table.matrix is not None:
        yield from _sparse_scale(table)
        return
    every = [column for column in table.columns if column.kind == NUMBER]
    numeric = [column for column in every if len(column.distinct) > 1]
    yield from _infinite([c.name for c in every if c.values is not None and np.isinf(c.values).any()])
    yield from _spread({column.name: spread for column in numeric if (spread := _deviation(column)) > 0})
    yield from _huge({column.name: _largest(column) for column in every})
    tails = [column.name for column in numeric if _heavy(column)]
    if tails:
        said = (
            f"In {_these(tails)}: values more than {TAIL:.0f} interquartile ranges from the median, which then decide "
        )
        yield finding(
            "scale-heavy-tail", "note", said + "mean and scale. Take logarithms or quantiles, or clip.", tails
        )
    codes = [column.name for column in numeric if _may_be_codes(column)]
    if codes and not (len(numeric) >= 10 and len(codes) > len(numeric) / 2):
        said = f"In {_these(codes)}: a few consecutive whole numbers. They may be codes of categories without an order."
        yield finding("scale-integer-codes", "note", said, codes)


def _finite(column: Column) -> NDArray[np.float64]:
    assert column.values is not None
    return column.values[np.isfinite(column.values)]


def _largest(column: Column) -> float:
    return float(np.abs(_finite(column)).max(initial=0.0))


def _deviation(column: Column) -> float:
    """Standard deviation, from values divided by the largest: squares of large numbers do not overflow."""
    finite, largest = _finite(column), _largest(column)
    if largest == 0 or not finite.size:
        return 0.0
    with np.errstate(all="ignore"):
        return float(min(np.std(finite / largest) * largest, np.finfo(np.float64).max))


def _infinite(names: list[Hashable]) -> Iterator[Finding]:
    if names:
        said = (
            f"In {_these(names)}: infinite values, which no method accepts. Find the division by zero or the overflow "
        )
        yield finding("scale-infinite", "error", said + "that made them; mark them as missing or clip them.", names)


def _spread(spreads: dict[Hashable, float]) -> Iterator[Finding]:
    """Compare standard deviations; of sparse columns, the largest magnitudes."""
    low, high = (pick(spreads, key=spreads.__getitem__, default=None) for pick in (min, max))
    with np.errstate(over="ignore"):
        if low is None or high is None or np.float64(spreads[high]) / np.float64(spreads[low]) <= SPREAD:
            return
    said = (
        f"The scales of columns run from {spreads[low]:.3g} ({listed([low])}) to {spreads[high]:.3g} "
        f"({listed([high])}). "
        "Distances, and so neighbours, see the largest only, unless columns are scaled, as onepos does by default."
    )
    yield finding("scale-spread", "warning", said, [low, high])


def _huge(largest: dict[Hashable, float]) -> Iterator[Finding]:
    names = [name for name, value in largest.items() if value > HUGE]
    if names:
        said = (
            f"In {_these(names)}: values up to {max(largest.values()):.3g}. Above 2^24 float32 loses whole numbers. "
            "Check for codes of missing values such as 1e20 and for identifiers; take logarithms or change units."
        )
        yield finding("scale-huge", "warning", said, names)


def _heavy(column: Column) -> bool:
    finite = _finite(column)
    if finite.size < ENOUGH_NUMBERS:
        return False
    scaled = finite / max(_largest(column), 1e-300)
    low, middle, high = np.quantile(scaled, [0.25, 0.5, 0.75])
    return bool(high > low and np.abs(scaled - middle).max() > TAIL * (high - low))


def _may_be_codes(column: Column) -> bool:
    n_distinct = len(column.distinct)
    if not FEWEST_CODES <= n_distinct <= MOST_CODES or not column.whole:
        return False
    finite = _finite(column)
    enough = finite.size >= max(ENOUGH_NUMBERS, 3 * n_distinct)
    return bool(enough and finite.max() - finite.min() == n_distinct - 1)


def _sparse_scale(table: Table) -> Iterator[Finding]:
    matrix = table.matrix
    finite = np.isfinite(matrix.data)
    yield from _infinite([int(j) for j in np.unique(matrix.indices[~finite])])
    values = np.zeros(matrix.shape[1])
    np.maximum.at(values, matrix.indices[finite], np.abs(matrix.data[finite]))
    # Not the deviation: that of a rare word is small because it is rare.
    largest: dict[Hashable, float] = {int(j): float(values[j]) for j in np.flatnonzero(values > 0)}
    yield from _spread(largest)
    yield from _huge(largest)
