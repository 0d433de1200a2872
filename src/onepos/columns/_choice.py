"""Which columns are used, as what, and why the others are not."""

from typing import TYPE_CHECKING, Any, NamedTuple

from onepos.columns._bags import LEAST_ROWS, find_bag, looks_measured
from onepos.columns._categories import find_categories
from onepos.columns._kinds import BOOLEAN, CATEGORY, LIST, NUMBER, TEXT, VALUES, kind_of
from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd

#: With fewer rows, words that all differ may be chance.
_ROWS_TO_TELL = 20
_IDENTIFIER = "has another value in every row, as identifiers do (as text its words would be used)"


class Choice(NamedTuple):
    """What the user said about the columns."""

    text: list[str]
    categories: list[str]
    drop: list[str]
    max_categories: int
    max_values: int


def choose_columns(frame: "pd.DataFrame", choice: Choice) -> tuple[dict[str, str], dict[str, str]]:
    """Return (column → kind) of those used, in the order of the table, and (column → reason) of the others."""
    _check_names(frame, choice)
    kinds: dict[str, str] = {}
    left_out: dict[str, str] = {}
    # dtypes once: a sparse file has tens of thousands of columns, and each look at frame.dtypes builds them all.
    for key, dtype in frame.dtypes.items():
        name = str(key)
        if name in choice.drop:
            continue
        kind, reason = (NUMBER, "") if hasattr(dtype, "fill_value") else _judge(frame[name], choice)
        if reason:
            left_out[name] = reason
        else:
            kinds[name] = kind
    if not kinds:
        why = "; ".join(f"{name!r} {reason}" for name, reason in list(left_out.items())[:3])
        raise DataFileError(
            f"no column is left to learn from{f' ({why})' if why else ''}. A column of free text is used when it is "
            "named as text."
        )
    return kinds, left_out


def _check_names(frame: "pd.DataFrame", choice: Choice) -> None:
    for what, names in (("text", choice.text), ("categories", choice.categories), ("drop", choice.drop)):
        for name in names:
            if name not in frame.columns:
                known = ", ".join(map(str, frame.columns[:10])) + (" …" if len(frame.columns) > 10 else "")
                raise DataFileError(f"there is no column {name!r} (named as {what}); the columns are: {known}.")
    twice = sorted((set(choice.text) & set(choice.categories)) | (set(choice.text) & set(choice.drop)))
    if twice:
        raise DataFileError(f"column {twice[0]!r} is named as text and as something else. Name it once.")


def _judge(column: "pd.Series[Any]", choice: Choice) -> tuple[str, str]:
    """Return the kind of a column and, if it cannot be used, the reason."""
    name = str(column.name)
    if name in choice.text:
        return TEXT, ""
    if column.isna().all():
        return "", "is empty"
    kind = CATEGORY if name in choice.categories else kind_of(column)
    if kind in (NUMBER, BOOLEAN):
        return kind, "is the same in every row" if column.notna().all() and column.nunique() == 1 else ""
    if kind != CATEGORY:
        return "", f"holds {kind}, which is neither numbers nor words"
    n_found = len(find_categories(column))
    asked = name in choice.categories
    if n_found > choice.max_categories:
        return _judge_many(column, choice, n_found, asked=asked)
    if not asked and n_found == len(column) > _ROWS_TO_TELL:
        return "", _IDENTIFIER
    if n_found == 1 and column.notna().all():
        return "", "is the same in every row"
    return CATEGORY, ""


def _judge_many(column: "pd.Series[Any]", choice: Choice, n_found: int, *, asked: bool) -> tuple[str, str]:
    """Return the kind of a column of words with more values than categories may have, or why it is left out."""
    bag = find_bag(column, choice.max_values) if choice.max_values else None
    if bag is not None and (asked or not looks_measured(bag)):
        return LIST if bag.sign else VALUES, ""
    if asked:
        raise DataFileError(
            f"column {str(column.name)!r} has {n_found:,} categories, and few rows have one that is in {LEAST_ROWS} "
            "rows or more. Merge rare ones, or leave the column out."
        )
    if bag is not None:
        return "", (
            f"has {n_found:,} different values, most with digits, as dates and numbers with units have (as categories "
            "the frequent ones would be used)"
        )
    if n_found == len(column):
        return "", _IDENTIFIER
    return "", (
        f"has {n_found:,} different values, and few rows have one that is in {LEAST_ROWS} rows or more (as text its "
        "words would be used)"
    )
