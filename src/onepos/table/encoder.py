"""Turn the columns of a table into one numeric matrix, in training and in every prediction alike."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.datasets._table import short_indices
from onepos.exceptions import DataFileError
from onepos.table.features import (
    LEAST_ROWS,
    Bag,
    NumberColumns,
    TextColumn,
    bag_matrix,
    find_bag,
    find_categories,
    looks_measured,
    one_hot,
)
from onepos.table.kinds import (
    BOOLEAN,
    CATEGORY,
    DATE,
    LIST,
    NUMBER,
    OTHER,
    TEXT,
    VALUES,
    kind_of,
    named,
    odd_value,
    require_columns,
    shorten,
)

if TYPE_CHECKING:
    import pandas as pd


#: With fewer rows, words that all differ may be chance.
_ROWS_TO_TELL = 20
_SETTINGS = ("text", "categories", "drop", "max_categories", "max_values", "max_terms")
_IDENTIFIER = "has another value in every row, as identifiers do (as text its words would be used)"


@dataclass
class Tally:
    """What was filled in or not recognised while encoding, counted by column; chunks add up."""

    missing: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def notes(self, kinds: dict[str, str]) -> list[str]:
        """Return one sentence for each column."""
        own = "taken as a value of its own"
        how = {CATEGORY: "taken as none of the categories", BOOLEAN: "taken as the more frequent one"}
        how |= {VALUES: own, LIST: own}
        notes = [
            f"column {name!r}: {count:,} missing, {how.get(kinds.get(name, ''), 'filled with the median')}"
            for name, count in self.missing.items()
        ]
        return notes + [
            f"column {name!r}: {count:,} of a category that training never saw, taken as none of the categories"
            for name, count in self.unknown.items()
        ]


class ColumnEncoder:
    """Learn how the columns of a table become numbers, then do it to other tables.

    Numbers are standardised, their gaps filled with the median. Categories (words with few distinct values) become one
    0/1 column each; one that training never saw is all zeros. Of words with more distinct values, those in at least 5
    rows get a column, and all others share one; so do the parts of cells that are lists (``Chile, Peru``). Text columns
    become tf-idf weights. Columns that say nothing (constant, empty, a different word in every row) are left out, and
    ``left_out_`` says why.

    Parameters
    ----------
    text : str or sequence of str
        Columns whose words are used.
    categories : sequence of str
        Columns to take as categories although they hold numbers.
    drop : sequence of str
        Columns to leave out: identifiers, labels.
    max_categories : int
        Of a column of words with more distinct values only frequent values are used.
    max_values : int
        Most values of such a column that get a feature of their own. 0: leave such columns out.
    max_terms : int
        Words kept for each text column, the most frequent ones.

    Attributes
    ----------
    kinds_ : dict
        Column used → "number", "boolean", "category", "values" (words with many distinct values), "list" or "text",
        in the order of the table.
    left_out_ : dict
        Column not used → why.
    n_features_ : int
        Columns of the matrix.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [1.0, 3.0, None], "colour": ["red", "blue", "red"]})
    >>> encoder = ColumnEncoder().fit(table)
    >>> encoder.transform(table).round(2)
    array([[-1.22,  0.  ,  1.  ],
           [ 1.22,  1.  ,  0.  ],
           [ 0.  ,  0.  ,  1.  ]], dtype=float32)
    """

    kinds_: dict[str, str]
    left_out_: dict[str, str]

    def __init__(
        self,
        *,
        text: str | Sequence[str] = (),
        categories: Sequence[str] = (),
        drop: Sequence[str] = (),
        max_categories: int = 100,
        max_values: int = 1_000,
        max_terms: int = 10_000,
    ) -> None:
        self.text = [text] if isinstance(text, str) else list(text)
        self.categories, self.drop = list(categories), list(drop)
        self.max_categories, self.max_values, self.max_terms = max_categories, max_values, max_terms

    def fit(self, frame: "pd.DataFrame") -> Self:
        """Learn from the training rows."""
        frame = named(frame)
        self.kinds_, self.left_out_ = choose_columns(frame, self)
        numbers = self._of(NUMBER, BOOLEAN)
        self._numbers = NumberColumns(numbers, [self.kinds_[name] == BOOLEAN for name in numbers]).fit(frame)
        self._categories = {name: find_categories(frame[name]) for name in self._of(CATEGORY)}
        found = {name: find_bag(frame[name], self.max_values) for name in self._of(VALUES, LIST)}
        self._bags = {name: bag for name, bag in found.items() if bag is not None}
        self._texts = [TextColumn(name, self.max_terms).fit(frame[name]) for name in self._of(TEXT)]
        return self

    def transform(self, frame: "pd.DataFrame", tally: Tally | None = None) -> Any:
        """Return float32 features: an ndarray, or CSR if there are texts, lists, many-valued words or sparse columns.

        Parameters
        ----------
        frame : DataFrame
            With every column used in training, in any order; others are ignored.
        tally : Tally, optional
            Counts what was filled in and what was not recognised.
        """
        frame, tally = named(frame), Tally() if tally is None else tally
        self.check(frame)
        blocks: list[Any] = []
        if self._numbers.names:
            blocks.append(self._numbers.transform(frame, tally.missing))
        for name, categories in self._categories.items():
            blocks.append(one_hot(frame[name], categories, tally.missing, tally.unknown))
        blocks += [bag_matrix(frame[name], bag, tally.missing) for name, bag in self._bags.items()]
        blocks += [words.transform(frame[words.name]) for words in self._texts]
        if any(sparse.issparse(block) for block in blocks):
            return short_indices(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
        return np.ascontiguousarray(np.hstack(blocks))

    def check(self, frame: "pd.DataFrame") -> None:
        """Raise DataFileError, naming it, if a column that training used is not there."""
        missing = [name for name in self.kinds_ if name not in frame.columns]
        if missing:
            raise DataFileError(
                f"the model needs the column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing[:5]))}"
                f"{' …' if len(missing) > 5 else ''}, which the data lack; they have {shorten(frame.columns)}."
            )

    @property
    def n_features_(self) -> int:
        """Number of columns of the matrix."""
        n_categories = sum(len(categories) for categories in self._categories.values())
        n_values = sum(bag.n_features for bag in self._bags.values())
        return len(self._numbers.names) + n_categories + n_values + sum(len(words.terms) for words in self._texts)

    @property
    def words_(self) -> list[str]:
        """Columns that must be read as text, whatever they look like."""
        return self._of(CATEGORY, VALUES, LIST, TEXT, BOOLEAN)

    def _of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.kinds_.items() if kind in kinds]

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and JSON-able facts that ``from_state`` takes back, bit for bit."""
        arrays, numbers = self._numbers.state()
        for j, words in enumerate(self._texts):
            arrays |= {f"text.{j}.{key}": value for key, value in words.state().items()}
        settings = {name: getattr(self, name) for name in _SETTINGS}
        return arrays, {
            "settings": settings,
            "kinds": self.kinds_,
            "left_out": self.left_out_,
            "numbers": numbers,
            "categories": self._categories,
            "bags": self._bags,
        }

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> Self:
        """Build the encoder that ``state`` described."""
        made = cls(**{name: value for name, value in facts["settings"].items() if name in _SETTINGS})
        made.kinds_, made.left_out_ = dict(facts["kinds"]), dict(facts["left_out"])
        made._numbers = NumberColumns.from_state(arrays, facts["numbers"])
        made._categories = {name: list(found) for name, found in facts["categories"].items()}
        # Files of versions before 0.2 have none.
        stored = facts.get("bags", {}).items()
        made._bags = {name: Bag([str(value) for value in values], str(sign)) for name, (values, sign) in stored}
        parts = (made._numbers.names, list(made._categories), list(made._bags))
        if parts != (made._of(NUMBER, BOOLEAN), made._of(CATEGORY), made._of(VALUES, LIST)):
            raise ValueError("the columns of its parts are not the columns it names")
        made._texts = [
            TextColumn.from_state(
                name, made.max_terms, {key: arrays[f"text.{j}.{key}"] for key in ("terms", "weights")}
            )
            for j, name in enumerate(made._of(TEXT))
        ]
        return made


def choose_columns(frame: "pd.DataFrame", wanted: ColumnEncoder) -> tuple[dict[str, str], dict[str, str]]:
    """Return (column → kind) of the columns used, in the order of the table, and (column → reason) of the others."""
    for what, names in (("text", wanted.text), ("categories", wanted.categories), ("drop", wanted.drop)):
        require_columns(frame, names, what)
    twice = sorted(set(wanted.text) & {*wanted.categories, *wanted.drop})
    if twice:
        raise DataFileError(f"column {twice[0]!r} is named as text and as something else. Name it once.")
    kinds: dict[str, str] = {}
    left_out: dict[str, str] = {}
    # dtypes once: a sparse file has tens of thousands of columns, and each look at frame.dtypes builds them all.
    for key, dtype in frame.dtypes.items():
        name = str(key)
        if name in wanted.drop:
            continue
        kind, reason = (NUMBER, "") if hasattr(dtype, "fill_value") else _judge(frame[name], wanted)
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


def _judge(column: "pd.Series[Any]", wanted: ColumnEncoder) -> tuple[str, str]:
    """Return the kind of a column and, if it cannot be used, the reason."""
    name = str(column.name)
    if name in wanted.text:
        return TEXT, ""
    if column.isna().all():
        return "", "is empty"
    asked = name in wanted.categories
    kind = CATEGORY if asked else kind_of(column)
    if kind in (NUMBER, BOOLEAN):
        return kind, "is the same in every row" if column.notna().all() and column.nunique() == 1 else ""
    if kind in (DATE, OTHER):
        odd = odd_value(column) if column.dtype == object else None
        held = column.dtype if odd is None else f"values of type {type(odd).__name__}"
        return "", f"holds {held}, which is neither numbers nor words"
    # Words of text are used only if the user names the column as text; until then a sentence is a category.
    n_found = len(find_categories(column))
    if n_found > wanted.max_categories:
        return _judge_many(column, wanted, n_found, asked=asked)
    if not asked and n_found == len(column) > _ROWS_TO_TELL:
        return "", _IDENTIFIER
    if n_found == 1 and column.notna().all():
        return "", "is the same in every row"
    return CATEGORY, ""


def _judge_many(column: "pd.Series[Any]", wanted: ColumnEncoder, n_found: int, *, asked: bool) -> tuple[str, str]:
    """Return the kind of a column of words with more values than categories may have, or why it is left out."""
    bag = find_bag(column, wanted.max_values) if wanted.max_values else None
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
