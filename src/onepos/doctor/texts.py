"""Checks of the column that holds texts."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.doctor._column import Column
from onepos.doctor._table import Table
from onepos.doctor.codes import counted, finding, listed
from onepos.doctor.diagnosis import Finding

#: A text with fewer letters and digits than this is nearly empty.
FEWEST_LETTERS = 3
#: Repeated texts are a warning above this share, a note below.
REPEATED_SHARE = 0.01

_LETTER = re.compile(r"[^\W_]")


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
