"""Which columns are used, as what, and why the others are not."""

from typing import TYPE_CHECKING, Any, NamedTuple

from onepos.columns._categories import find_categories
from onepos.columns._kinds import BOOLEAN, CATEGORY, NUMBER, TEXT, kind_of
from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd

#: With fewer rows, words that all differ may be chance.
_ROWS_TO_TELL = 20


class Choice(NamedTuple):
    """What the user said about the columns."""

    text: list[str]
    categories: list[str]
    drop: list[str]
    max_categories: int


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
    found = find_categories(column)
    asked = name in choice.categories
    if not asked and len(found) == len(column) > _ROWS_TO_TELL:
        return "", "has another value in every row, as identifiers do (as text its words would be used)"
    if len(found) > choice.max_categories:
        if asked:
            raise DataFileError(
                f"column {name!r} has {len(found):,} categories; at most {choice.max_categories} are taken. Merge rare "
                "ones, or leave the column out."
            )
        return "", f"has {len(found):,} different values, too many for categories (as text its words would be used)"
    if len(found) == 1 and column.notna().all():
        return "", "is the same in every row"
    return CATEGORY, ""
