"""Checks of the columns one by one: what they hold, what ``fit`` would make of them, and the scale of numbers."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.doctor.data import Column, Table, Tags
from onepos.doctor.diagnosis import Seen, counted, name_of, seen
from onepos.doctor.rows import matrix_keys
from onepos.table.kinds import CATEGORY, NUMBER, OTHER

ENOUGH_ROWS = 20  # From this many rows on, distinct values say something about identifiers and prose
SPREAD = 1e3  # Largest ratio of two columns' standard deviations that passes
HUGE = 2.0**24  # float32, in which networks work, holds every whole number up to here and not beyond
TAIL = 100.0  # Distance from the median, in interquartile ranges, that a normal column practically never reaches
FEWEST_CODES, MOST_CODES = 3, 30  # A column of consecutive whole numbers with so many distinct values may hold codes
ENOUGH_NUMBERS = 50
_TARGET_NAMES = frozenset({"label", "labels", "tag", "tags", "target", "targets", "class", "y"})
_PREFIX = re.compile(r"^(is|has|label|tag|target|class|y)[_\-. ]+", re.IGNORECASE)


def check_columns(table: Table, tags: Tags) -> Iterator[Seen]:
    """Look at each column; docs/doctor.md has the rules. Of a sparse matrix: empty and equal columns."""
    if table.matrix is not None:
        yield from _sparse_columns(table)
        return
    explained = set[Hashable]()
    for code, test in _TESTS.items():
        names = [column.name for column in table.columns if test(column, table)]
        explained.update(names)
        if names:
            yield seen(code, names)
    for column in table.columns:
        if column.choice.reason and column.name not in explained:
            yield seen("column-left-out", [column.name], reason=column.choice.reason)
    same: dict[object, list[Hashable]] = defaultdict(list)
    for column in table.columns:
        if len(column.distinct) > 1:
            same[_content(column)].append(column.name)
    yield from _repeats([(group[0], copy) for group in same.values() for copy in group[1:]])
    labels = {_plain(str(name)) for name in tags.names} - {""}
    alike = [name for name in table.names if isinstance(name, str) and _is_label_name(name, labels)]
    if alike and table.named:
        yield seen("column-named-like-label", alike)


def is_id(column: Column, table: Table) -> bool:
    """Whether a column looks like an identifier: words or whole numbers, another one in every row."""
    if table.n_rows < ENOUGH_ROWS or len(column.distinct) < table.n_rows or column in table.texts:
        return False
    if column.kind == CATEGORY:
        return all(isinstance(value, str) and len(value.split()) == 1 for value in column.distinct)
    values = column.values
    if values is None or not _is_whole(column):
        return False
    return bool((np.diff(values) > 0).all() or values.max() - values.min() == len(values) - 1)


def _is_whole(column: Column) -> bool:
    """Whether all numbers of a column are finite and whole, and there is one."""
    if column.kind != NUMBER or column.values is None:
        return False
    present = column.values[column.codes >= 0]
    return bool(present.size and np.isfinite(present).all() and (present == np.floor(present)).all())


_TESTS: dict[str, Callable[[Column, Table], bool]] = {
    "column-empty": lambda column, _: len(column.distinct) == 0,
    "column-constant": lambda column, table: len(column.distinct) == 1 and table.n_rows > 1 and column.missing == 0,
    "column-mostly-missing": lambda column, table: len(column.distinct) > 0 and column.missing > table.n_rows / 2,
    "column-id": is_id,
    "column-number-as-text": lambda column, _: getattr(column.choice.part, "units", None) == [""],
    "column-unsupported": lambda column, _: column.kind == OTHER,
}


def _content(column: Column) -> object:
    """Return what two columns share if they hold the same."""
    if column.values is not None:
        return np.where(np.isnan(column.values), np.nan, column.values + 0.0).tobytes()
    return column.codes.tobytes(), tuple(str(value) for value in column.distinct)


def _repeats(pairs: list[tuple[Hashable, Hashable]]) -> Iterator[Seen]:
    """Report pairs of a column and its copy."""
    if pairs:
        shown = ", ".join(f"{name_of(copy)} = {name_of(first)}" for first, copy in pairs[:5])
        yield seen("column-duplicate", [copy for _, copy in pairs], copies=counted(len(pairs), "column"), shown=shown)


def _is_label_name(name: str, labels: set[str]) -> bool:
    plain = _plain(name)
    # Numbered labels match numbered columns by chance.
    lettered = any(letter.isalpha() for letter in plain)
    return plain in _TARGET_NAMES or (lettered and (plain in labels or _plain(_PREFIX.sub("", name)) in labels))


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\W_]+", name.casefold())).strip()


def _sparse_columns(table: Table) -> Iterator[Seen]:
    columns = table.matrix.T.tocsr()
    columns.sort_indices()
    filled = np.diff(columns.indptr) > 0
    if not filled.all():
        yield seen("column-constant", np.flatnonzero(~filled))
    _, first, group = np.unique(matrix_keys(columns), return_index=True, return_inverse=True)
    yield from _repeats([(int(first[group[j]]), j) for j in np.flatnonzero(filled).tolist() if first[group[j]] != j])


def check_scale(table: Table) -> Iterator[Seen]:
    """Look at the numeric columns: infinite, huge, of very different scale, heavy-tailed, codes of categories."""
    if table.matrix is not None:
        yield from _sparse_scale(table.matrix)
        return
    every = [column for column in table.columns if column.kind == NUMBER]
    infinite = [column.name for column in every if column.values is not None and np.isinf(column.values).any()]
    numeric = [column for column in every if len(column.distinct) > 1]
    yield from _check_size(
        infinite,
        {column.name: spread for column in numeric if (spread := _deviation(column)) > 0},
        {column.name: _largest(column) for column in every},
    )
    tails = [column.name for column in numeric if _is_heavy(column)]
    if tails:
        yield seen("scale-heavy-tail", tails, tail=TAIL)
    codes = [column.name for column in numeric if _may_be_codes(column)]
    if codes and not (len(numeric) >= 10 and len(codes) > len(numeric) / 2):
        yield seen("scale-integer-codes", codes)


def _sparse_scale(matrix: Any) -> Iterator[Seen]:
    finite = np.isfinite(matrix.data)
    values = np.zeros(matrix.shape[1])
    np.maximum.at(values, matrix.indices[finite], np.abs(matrix.data[finite]))
    # The deviation of a rare word is small because the word is rare; the magnitude is not.
    largest: dict[Hashable, float] = {int(j): float(values[j]) for j in np.flatnonzero(values > 0)}
    yield from _check_size(np.unique(matrix.indices[~finite]).tolist(), largest, largest)


def _check_size(
    infinite: list[Hashable], spreads: dict[Hashable, float], largest: dict[Hashable, float]
) -> Iterator[Seen]:
    """Report infinite values, spreads that differ much, and huge magnitudes."""
    if infinite:
        yield seen("scale-infinite", infinite)
    if spreads:
        low, high = min(spreads, key=spreads.__getitem__), max(spreads, key=spreads.__getitem__)
        if spreads[high] / SPREAD > spreads[low]:
            ends: dict[str, Any] = {
                "low": spreads[low],
                "high": spreads[high],
                "lowest": name_of(low),
                "highest": name_of(high),
            }
            yield seen("scale-spread", [low, high], **ends)
    huge = [name for name, value in largest.items() if value > HUGE]
    if huge:
        yield seen("scale-huge", huge, largest=max(largest.values()))


def _finite(column: Column) -> NDArray[np.float64]:
    assert column.values is not None
    return column.values[np.isfinite(column.values)]


def _largest(column: Column) -> float:
    return float(np.abs(_finite(column)).max(initial=0.0))


def _deviation(column: Column) -> float:
    """Standard deviation, from values divided by the largest: squares of large numbers do not overflow."""
    finite, largest = _finite(column), _largest(column)
    if largest == 0:
        return 0.0
    with np.errstate(all="ignore"):
        return float(min(np.std(finite / largest) * largest, np.finfo(np.float64).max))


def _is_heavy(column: Column) -> bool:
    scaled = _finite(column) / max(_largest(column), 1e-300)
    if scaled.size < ENOUGH_NUMBERS:
        return False
    low, middle, high = np.quantile(scaled, [0.25, 0.5, 0.75])
    return bool(high > low and np.abs(scaled - middle).max() > TAIL * (high - low))


def _may_be_codes(column: Column) -> bool:
    n_distinct = len(column.distinct)
    if not FEWEST_CODES <= n_distinct <= MOST_CODES or not _is_whole(column):
        return False
    finite = _finite(column)
    enough = finite.size >= max(ENOUGH_NUMBERS, 3 * n_distinct)
    return bool(enough and finite.max() - finite.min() == n_distinct - 1)
