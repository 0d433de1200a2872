"""Checks of the columns one by one: empty, constant, repeated, identifiers, names; and of the column of texts."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos.doctor.data import Column, Table, Tags
from onepos.doctor.diagnosis import Finding, Level, counted, finding, listed
from onepos.doctor.rows import matrix_keys
from onepos.table.kinds import CATEGORY, OTHER, TEXT

#: Share of missing entries above which a column is mostly missing.
MISSING_SHARE = 0.5
#: From this many rows on, distinct values say something about identifiers and prose.
ENOUGH_ROWS = 20
#: Prose is a category by mistake if more than this share of its entries are distinct.
PROSE_DISTINCT = 0.5
#: Share of the distinct strings that must read as numbers.
NUMBER_SHARE = 0.95
#: A text with fewer letters and digits than this is nearly empty.
FEWEST_LETTERS = 3
#: Repeated texts are a warning above this share, a note below.
REPEATED_SHARE = 0.01

_LETTER = re.compile(r"[^\W_]")

_TARGET_NAMES = frozenset({"label", "labels", "tag", "tags", "target", "targets", "class", "y"})
_PREFIX = re.compile(r"^(is|has|label|tag|target|class|y)[_\-. ]+", re.IGNORECASE)


def check_columns(table: Table, tags: Tags) -> list[Finding]:
    """Look at each column.

    Warnings: all missing; one value only; more than 50 % missing; equal to an earlier column; identifiers (strings all
    different and of one word, or whole numbers all different that increase from row to row or have no gaps; from 20
    rows on); prose (three words or more on average, over half of the entries distinct) that was not named as
    ``text``; strings of which 95 % read as numbers; lists and other objects; the name of a label, or a name like
    "label" or "target".

    Of a sparse matrix: columns without an entry, and equal ones.
    """
    if table.matrix is not None:
        return _sparse_columns(table)
    found = []
    for code, test, advice in _SINGLE:
        names = [column.name for column in table.columns if test(column, table)]
        if names:
            found.append(finding(code, _LEVELS.get(code, "warning"), f"In {_these(names)}: {advice}", names))
    return [*found, *_duplicates(table), *_named_like_labels(table, tags)]


def _these(names: Sequence[object]) -> str:
    return f"{counted(len(names), 'column')} ({listed(names)})"


def _empty(column: Column, _: Table) -> bool:
    return len(column.distinct) == 0


def _constant(column: Column, table: Table) -> bool:
    return len(column.distinct) == 1 and table.n_rows > 1 and column.missing == 0


def _mostly_missing(column: Column, table: Table) -> bool:
    return bool(len(column.distinct)) and column.missing > MISSING_SHARE * table.n_rows


def is_id(column: Column, table: Table) -> bool:
    """Whether a column looks like an identifier: see :func:`check_columns`."""
    if table.n_rows < ENOUGH_ROWS or len(column.distinct) < table.n_rows:
        return False
    if column.kind == CATEGORY and column.name != table.text:
        return all(isinstance(v, str) and len(v.split()) == 1 for v in column.distinct) and not _numbers(column, table)
    if column.values is None or not column.whole:
        return False
    values = column.values
    return bool((np.diff(values) > 0).all() or values.max() - values.min() == len(values) - 1)


def _prose(column: Column, table: Table) -> bool:
    enough = len(column.distinct) > PROSE_DISTINCT * table.n_rows and table.n_rows >= ENOUGH_ROWS
    return column.kind == TEXT and column.name != table.text and enough


def _numbers(column: Column, table: Table) -> bool:
    if column.kind != CATEGORY or column.name == table.text or not len(column.distinct):
        return False
    texts = [value for value in column.distinct[:1000] if isinstance(value, str)]
    if len(texts) < len(column.distinct[:1000]):
        return False
    read = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    return bool(read.notna().sum() >= NUMBER_SHARE * len(texts))


def _other(column: Column, _: Table) -> bool:
    return column.kind == OTHER


_SINGLE: tuple[tuple[str, Callable[[Column, Table], bool], str], ...] = (
    ("column-empty", _empty, "no value at all."),
    ("column-constant", _constant, "the same value in every row, which tells nothing."),
    (
        "column-mostly-missing",
        _mostly_missing,
        "more than half of the entries are missing. Check the source; impute and add a column that says where a value "
        "was missing, or drop them.",
    ),
    (
        "column-id",
        is_id,
        "a different value in every row, as an identifier has.",
    ),
    (
        "column-text",
        _prose,
        "prose, not categories.",
    ),
    ("column-number-as-text", _numbers, "numbers written as text. Write them as plain numbers, without units."),
    (
        "column-unsupported",
        _other,
        "lists, complex numbers or other objects. Turn them into numbers or categories.",
    ),
)
_LEVELS: dict[str, Level] = {"column-unsupported": "error"}


def _duplicates(table: Table) -> list[Finding]:
    same: dict[object, list[Column]] = defaultdict(list)
    for column in table.columns:
        if len(column.distinct) > 1:
            same[_content(column)].append(column)
    pairs = [(group[0].name, column.name) for group in same.values() for column in group[1:]]
    return [_repeats(pairs)] if pairs else []


def _content(column: Column) -> object:
    if column.values is not None:
        return "numbers", np.where(np.isnan(column.values), np.nan, column.values + 0.0).tobytes()
    return "objects", column.codes.tobytes(), tuple(str(value) for value in column.distinct)


def _repeats(pairs: list[tuple[object, object]]) -> Finding:
    shown = ", ".join(f"{listed([copy])} = {listed([first])}" for first, copy in pairs[:5])
    detail = f"The same values as in another column in {counted(len(pairs), 'column')} ({shown}). Copies count double."
    return finding("column-duplicate", "warning", detail, [copy for _, copy in pairs])


def _named_like_labels(table: Table, tags: Tags) -> list[Finding]:
    if not table.named:
        return []
    labels = {_plain(str(name)) for name in tags.names} - {""}
    names = [name for name in table.names if isinstance(name, str) and _is_label_name(name, labels)]
    if not names:
        return []
    detail = (
        f"Named like a label or like a column of labels: {_these(names)}. If they were filled in by whoever chose "
        "the tag, they give the answer away."
    )
    return [finding("column-named-like-label", "warning", detail, names)]


def _is_label_name(name: str, labels: set[str]) -> bool:
    plain = _plain(name)
    # Labels that are numbers meet columns that are numbered: no evidence.
    lettered = any(letter.isalpha() for letter in plain)
    return plain in _TARGET_NAMES or (lettered and (plain in labels or _plain(_PREFIX.sub("", name)) in labels))


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\W_]+", name.casefold())).strip()


def _sparse_columns(table: Table) -> list[Finding]:
    columns = table.matrix.T.tocsr()
    columns.sort_indices()
    filled = np.diff(columns.indptr) > 0
    found = []
    empty = np.flatnonzero(~filled).tolist()
    if empty:
        found.append(finding("column-constant", "warning", f"In {_these(empty)}: {_SINGLE[1][2]}", empty))
    _, first, group = np.unique(matrix_keys(columns), return_index=True, return_inverse=True)
    copies = [j for j in np.flatnonzero(filled).tolist() if first[group[j]] != j]
    if copies:
        found.append(_repeats([(int(first[group[j]]), j) for j in copies]))
    return found


def check_texts(table: Table, test: Table | None = None) -> list[Finding]:
    """Look at the column named as ``text``.

    Warning: texts with fewer than three letters or digits, missing ones included. Texts that are equal but for case and
    blanks, nearly empty ones aside: a note, a warning if more than 1 % repeat another one. Texts that training and test
    share: a warning.
    """
    if table.text is None:
        return []
    texts, blank = _plain_texts(table)
    found = []
    about = [table.text]
    if blank.any():
        detail = (
            f"Fewer than {FEWEST_LETTERS} letters or digits in {counted(int(blank.sum()), 'text')} of {listed(about)}. "
            "Nothing can be learnt from them; drop the rows or find the texts."
        )
        found.append(finding("text-empty", "warning", detail, about))
    kept = texts[~blank]
    repeats = len(kept) - len(set(kept.tolist()))
    if repeats:
        detail = (
            f"The same as an earlier one, but for case and blanks: {counted(repeats, 'text')} of {listed(about)}. "
            "Look for copies and for boilerplate; keep equal texts on the same side of a split."
        )
        many = repeats > REPEATED_SHARE * table.n_rows
        found.append(finding("text-duplicate", "warning" if many else "note", detail, about))
    if test is not None and test.text is not None:
        others, test_blank = _plain_texts(test)
        known = set(kept.tolist())
        shared = sum(text in known for text in others[~test_blank])
        if shared:
            detail = (
                f"In training too, but for case and blanks: {shared:,} of {counted(test.n_rows, 'test text')}. "
                "Results on them flatter. Split by text."
            )
            found.append(finding("text-in-both-splits", "warning", detail, about))
    return found


def text_column(table: Table) -> Column | None:
    """Return the column named as ``text``."""
    return next((column for column in table.columns if column.name == table.text), None)


def texts_of(column: Column) -> NDArray[Any]:
    """Return each row's text; the empty one where it is missing."""
    return _objects([str(value) for value in column.distinct], "")[column.codes]


def nearly_empty(table: Table) -> NDArray[np.bool_]:
    """Return the rows whose text is nearly empty; none without a column of texts."""
    return _plain_texts(table)[1] if table.text is not None else np.zeros(table.n_rows, dtype=np.bool_)


def _plain_texts(table: Table) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    column = text_column(table)
    assert column is not None
    plain = [" ".join(str(value).casefold().split()) for value in column.distinct]
    blank = np.array([len(_LETTER.findall(text)) < FEWEST_LETTERS for text in plain] + [True], dtype=np.bool_)
    return _objects(plain, "")[column.codes], blank[column.codes]


def _objects(texts: Iterable[str], last: str) -> NDArray[Any]:
    """Return an object array whose last entry, that of code −1, stands for missing."""
    return np.array([*texts, last], dtype=object)
