"""Decide what is to become of a column: the rules that ``fit`` follows, and that the doctor reports."""

from typing import TYPE_CHECKING, Any, NamedTuple

from onepos.exceptions import DataFileError
from onepos.table.features import LEAST_ROWS, BagColumn, CategoryColumn, FittedColumn, TextColumn
from onepos.table.kinds import (
    BOOLEAN,
    CATEGORY,
    IMAGE,
    LIST,
    NUMBER,
    OTHER,
    TEXT,
    VALUES,
    kind_of,
    odd_value,
    require_columns,
)
from onepos.table.measures import DateColumn, MeasureColumn

if TYPE_CHECKING:
    import pandas as pd

    from onepos.table.encoder import ColumnEncoder


#: What becomes of columns that are encoded together.
PLAIN = {
    NUMBER: "number → 1 feature, standardised",
    BOOLEAN: "yes/no → 1 feature",
    TEXT: "text",
    IMAGE: "picture",
}
EMPTY, CONSTANT = "is empty", "is the same in every row"
_IDENTIFIER = "has another value in every row, as identifiers do (as text its words would be used)"
#: With fewer rows, words that all differ may be chance.
_ROWS_TO_TELL = 20
#: Words are text, not names or lists of names, if values have more words than this on average.
_NAME_WORDS = 3.0


class Choice(NamedTuple):
    """What is to become of a column: its kind and, for most kinds, the fitted column; or why it is left out."""

    kind: str = ""
    part: FittedColumn | None = None
    reason: str = ""

    def describe(self) -> str:
        """Return it in one line."""
        if self.reason:
            return f"left out: {self.reason}"
        return self.part.describe() if self.part is not None else PLAIN[self.kind]


def choose_columns(frame: "pd.DataFrame", wanted: "ColumnEncoder") -> dict[str, Choice]:
    """Return what is to become of each column, in the order of the table; columns to drop are not among them."""
    image = [wanted.image] if wanted.image else []
    roles = {"text": wanted.text, "image": image, "categories": wanted.categories, "drop": wanted.drop}
    for what, names in roles.items():
        require_columns(frame, names, what)
    for what, names in (("image", image), ("text", wanted.text)):
        twice = sorted(set(names) & {name for other in roles if other != what for name in roles[other]})
        if twice:
            raise DataFileError(f"column {twice[0]!r} is named as {what} and as something else. Name it once.")
    # dtypes once: a sparse file has tens of thousands of columns, and each look at frame.dtypes builds them all.
    return {
        str(name): Choice(NUMBER) if hasattr(dtype, "fill_value") else judge(frame[name], wanted)
        for name, dtype in frame.dtypes.items()
        if name not in wanted.drop
    }


def judge(column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Choice:
    """Decide what is to become of a column. ``fit`` and the doctor both ask this function, so that they agree.

    Columns that the user names are what the user says. Else the type decides; then, for words, the first kind that
    fits: dates, numbers with units, categories, frequent values, text.
    """
    name = str(column.name)
    if name in wanted.text or name == wanted.image:
        return Choice(IMAGE if name == wanted.image else TEXT)
    if column.isna().all():
        return Choice(reason=EMPTY)
    asked = name in wanted.categories
    kind = CATEGORY if asked else kind_of(column)
    if kind in (NUMBER, BOOLEAN):
        constant = column.notna().all() and column.nunique() == 1
        return Choice(reason=CONSTANT) if constant else Choice(kind)
    if kind == OTHER:
        odd = odd_value(column) if column.dtype == object else None
        held = column.dtype if odd is None else f"values of type {type(odd).__name__}"
        return Choice(reason=f"holds {held}, which is neither numbers nor words")
    for made in () if asked else (DateColumn, MeasureColumn):
        part = made(name).fit(column, wanted)
        if part is not None:
            return Choice(made.kinds[0], part)
    category = CategoryColumn(name)
    few, n_found = category.fit(column, wanted), len(category.values)
    if n_found == 1 and column.notna().all():
        return Choice(reason=CONSTANT)
    different = n_found == len(column) > _ROWS_TO_TELL
    if few is None or (different and kind == TEXT):
        return _judge_many(column, wanted, n_found, kind, asked=asked)
    return Choice(reason=_IDENTIFIER) if different and not asked else Choice(CATEGORY, few)


def _judge_many(column: "pd.Series[Any]", wanted: "ColumnEncoder", n_found: int, kind: str, *, asked: bool) -> Choice:
    """Decide about a column of words with more values than categories may have, or of another text in every row."""
    bag = BagColumn(str(column.name)).fit(column, wanted) if wanted.max_values else None
    if bag is not None and (asked or not bag.measured) and not (kind == TEXT and bag.length > _NAME_WORDS):
        return Choice(LIST if bag.sign else VALUES, bag)
    if kind == TEXT and wanted.max_values:
        words = TextColumn(str(column.name)).fit(column, wanted)
        if words is not None:
            return Choice(TEXT, words)
    if asked:
        raise DataFileError(
            f"column {str(column.name)!r} has {n_found:,} categories, and few rows have one that is in {LEAST_ROWS} "
            "rows or more. Merge rare ones, or leave the column out."
        )
    if bag is None and n_found == len(column):
        return Choice(reason=_IDENTIFIER)
    why = (
        f"few rows have one that is in {LEAST_ROWS} rows or more (as text its words would be used)"
        if bag is None
        else "most have digits but are no dates or numbers with units (as categories the frequent ones would be used)"
    )
    return Choice(reason=f"has {n_found:,} different values, and {why}")
