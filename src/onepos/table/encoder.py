"""Decide what becomes of each column of a table, and turn the columns into one numeric matrix."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.matrices import short_indices
from onepos._utils.validation import all_or_nothing
from onepos.exceptions import DataFileError
from onepos.table.embedders import TIMM
from onepos.table.embedding import Embedded
from onepos.table.features import LEAST_ROWS, BagColumn, CategoryColumn, FittedColumn, TextColumn
from onepos.table.kinds import (
    BOOLEAN,
    CATEGORY,
    IMAGE,
    LIST,
    NUMBER,
    OTHER,
    TEXT,
    TEXT_WORDS,
    VALUES,
    WRITTEN,
    Tally,
    as_list,
    is_suggestion,
    kind_of,
    named,
    odd_value,
    require_columns,
    shorten,
)
from onepos.table.measures import DateColumn, MeasureColumn, NumberColumns

#: The kinds of columns beside numbers, in the order of their features.
KINDS: tuple[type[FittedColumn], ...] = (CategoryColumn, BagColumn, TextColumn, DateColumn, MeasureColumn)
#: What becomes of columns that are encoded together.
_TOGETHER = {NUMBER: "number → 1 feature, standardised", BOOLEAN: "yes/no → 1 feature", TEXT: "text", IMAGE: "picture"}
_EMPTY, _CONSTANT = "is empty", "is the same in every row"
_IDENTIFIER = "has another value in every row, as identifiers do (as text its words would be used)"
_INDEX = "has no name and numbers the rows, as the index of a DataFrame that was written with its index"
_ROWS_TO_TELL = 20  # With fewer rows, words that all differ may be chance
#: Weight of other columns beside text. A row of text has length one, so each of its words weighs less than a category.
_BESIDE_TEXT = 0.5
_SETTINGS = ("text", "categories", "drop", "max_categories", "max_values", "max_terms", "image")


class Choice(NamedTuple):
    """What becomes of a column: its kind and, for most kinds, the fitted column; or why it is left out."""

    kind: str = ""
    part: FittedColumn | None = None
    reason: str = ""

    def describe(self) -> str:
        """Return it in one line."""
        if self.reason:
            return f"left out: {self.reason}"
        return self.part.describe() if self.part is not None else _TOGETHER[self.kind]


def judge(column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Choice:
    """Decide what becomes of a column, for ``fit`` and the doctor; one that the user names is what the user says."""
    name = str(column.name)
    if name in wanted.text or name == wanted.image:
        return Choice(IMAGE if name == wanted.image else TEXT)
    if column.isna().all():
        return Choice(reason=_EMPTY)
    asked = name in wanted.categories
    if not asked and is_suggestion(name, column):
        return Choice(reason=WRITTEN)
    kind = CATEGORY if asked else kind_of(column)
    if kind in (NUMBER, BOOLEAN):
        if column.notna().all() and column.nunique() == 1:
            return Choice(reason=_CONSTANT)
        return Choice(reason=_INDEX) if kind == NUMBER and _is_index(column) else Choice(kind)
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
        return Choice(reason=_CONSTANT)
    different = n_found == len(column) > _ROWS_TO_TELL
    if few is None or (different and kind == TEXT):
        return _judge_many(column, wanted, n_found, kind, asked=asked)
    return Choice(reason=_IDENTIFIER) if different and not asked else Choice(CATEGORY, few)


def _is_index(column: "pd.Series[Any]") -> bool:
    """Whether a column without a name, "Unnamed: 0" in pandas, has another whole number in every row."""
    if not re.fullmatch(r"(Unnamed: \d+)?", str(column.name).strip()) or column.isna().any():
        return False
    values = column.to_numpy(dtype=np.float64)
    return column.is_unique and bool((values == np.floor(values)).all())


def _judge_many(column: "pd.Series[Any]", wanted: "ColumnEncoder", n_found: int, kind: str, *, asked: bool) -> Choice:
    """Decide about a column of words with more values than categories may have, or of another text in every row."""
    name = str(column.name)
    bag = BagColumn(name).fit(column, wanted) if wanted.max_values else None
    if bag is not None and (asked or not bag.measured) and not (kind == TEXT and bag.length > TEXT_WORDS):
        return Choice(LIST if bag.sign else VALUES, bag)
    words = TextColumn(name).fit(column, wanted) if kind == TEXT and wanted.max_values else None
    if words is not None:
        return Choice(TEXT, words)
    if asked:
        raise DataFileError(
            f"column {name!r} has {n_found:,} categories, and few rows have one that is in {LEAST_ROWS} "
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


def for_pictures(embed: Any, *, text: str | Sequence[str]) -> bool:
    """Whether an embedder is for the pictures of a table with these text columns."""
    marked = embed.startswith(TIMM) if isinstance(embed, str) else bool(getattr(embed, "pictures", False))
    return marked or not text


def assign(embed: Any, *, text: Sequence[str], image: str | None) -> dict[bool, Any]:
    """Return, of one or two embedders, that of texts at False and that of pictures (see ``for_pictures``) at True."""
    given = list(embed) if isinstance(embed, list | tuple) else [] if embed is None else [embed]
    found: dict[bool, Any] = {}
    for one in given:
        pictures = for_pictures(one, text=text) if image is not None else str(one).startswith(TIMM)
        if not isinstance(one, str) and not callable(getattr(one, "encode", None)):
            raise ValueError(f"embed takes a name, a folder, or an object with encode(list); got {type(one).__name__}.")
        what, column = ("pictures", "image") if pictures else ("texts", "text")
        if pictures in found:
            raise ValueError(f"embed takes one embedder of texts and one of pictures; got two of {what}.")
        if (image is None) if pictures else not text:
            raise ValueError(f"embed gives an embedder of {what}, but no column is named as {column}. Name one.")
        found[pictures] = one
    if image is not None and True not in found:
        raise ValueError(
            f"the pictures of column {image!r} need an embedder of pictures: give embed={TIMM}NAME or {TIMM}FOLDER."
        )
    return found


class ColumnEncoder:
    """Learn how the columns of a table become numbers, then do it to other tables.

    Numbers are standardised, their gaps filled with the median. Categories (words with few distinct values) become one
    0/1 column each; one that training never saw is all zeros. Of words with more distinct values, those in at least 3
    rows get a column, and all others share one; so do the parts of cells that are lists (``Chile, Peru``). Dates become
    their place in the range of training, month and weekday. Numbers with units (``93 min``) become a number for each
    unit. Texts become tf-idf weights. Columns that say nothing (constant, empty, a different word in every row)
    are left out, and ``left_out_`` says why. ``describe`` says what each column became. Beside text, other columns are
    multiplied by ½.

    Parameters
    ----------
    text : str or sequence of str
        Columns to take as text. Columns of sentences are taken as text without being named.
    categories : sequence of str
        Columns to take as categories although they hold numbers.
    drop : sequence of str
        Columns to leave out: identifiers, labels.
    max_categories : int
        Of a column of words with more distinct values only frequent values are used.
    max_values : int
        Most values of such a column that get a feature of their own. 0: leave such columns out.
    max_terms : int
        Words kept for each text column, the most frequent ones. 0: none, if the columns are embedded.
    image : str, optional
        Column with the names of picture files.
    embed : str, object with ``encode(list)``, or a list of two, optional
        What turns texts into vectors, which stand beside the tf-idf weights, and what turns pictures into vectors: the
        name or folder of a sentence-transformers model; "timm:" and the name or folder of a timm model; or an
        ``Embedder``.
    image_folder : path
        Where relative names of pictures begin; default: the current folder.

    Attributes
    ----------
    kinds_ : dict
        Column used → "number", "boolean", "category", "values" (words with many distinct values), "list", "date",
        "measure" (numbers with units) or "text", in the order of the table.
    left_out_ : dict
        Column not used → why.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [1.0, 3.0, None], "colour": ["red", "blue", "red"]})
    >>> encoder = ColumnEncoder().fit(table)
    >>> encoder.transform(table).round(2)
    array([[-1.22,  0.  ,  1.  ],
           [ 1.22,  1.  ,  0.  ],
           [ 0.  ,  0.  ,  1.  ]], dtype=float32)
    >>> encoder.describe()["colour"]
    'category: 2 values → 2 features'
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
        max_values: int = 5_000,
        max_terms: int = 10_000,
        image: str | None = None,
        embed: Any = None,
        image_folder: str | Path = "",
    ) -> None:
        self.text, self.categories, self.drop = as_list(text), as_list(categories), as_list(drop)
        self.max_categories, self.max_values, self.max_terms = max_categories, max_values, max_terms
        self.image, self.embed, self.image_folder = image, embed, image_folder

    @all_or_nothing
    def fit(self, frame: pd.DataFrame) -> Self:
        """Learn from the training rows."""
        frame = named(frame)
        self._check_names(frame)
        # dtypes once: a sparse file has tens of thousands of columns, and each look at frame.dtypes builds them all.
        choices = {
            str(name): Choice(NUMBER) if hasattr(dtype, "fill_value") else judge(frame[name], self)
            for name, dtype in frame.dtypes.items()
            if name not in self.drop
        }
        self.kinds_ = {name: choice.kind for name, choice in choices.items() if not choice.reason}
        self.left_out_ = {name: choice.reason for name, choice in choices.items() if choice.reason}
        if not self.kinds_:
            why = "; ".join(f"{name!r} {reason}" for name, reason in list(self.left_out_.items())[:3])
            raise DataFileError(
                f"no column is left to learn from{f' ({why})' if why else ''}. A column named as text is always used."
            )
        numbers, texts = self._of(NUMBER, BOOLEAN), self._of(TEXT)
        self._numbers = NumberColumns(numbers, [self.kinds_[name] == BOOLEAN for name in numbers]).fit(frame)
        fitted = {name: choice.part for name, choice in choices.items()}
        for name in texts if self.max_terms else []:
            fitted[name] = fitted[name] or TextColumn(name).fit(frame[name], self)
        self._parts = [part for made in KINDS for part in fitted.values() if isinstance(part, made)]
        given = assign(self.embed, text=texts, image=self.image)
        columns = {False: texts, True: self._of(IMAGE)}
        self._embedded = [
            Embedded(columns[pictures], one, pictures=pictures, folder=self.image_folder).fit(frame)
            for pictures, one in sorted(given.items())
        ]
        # Of several texts, words of one weigh about what those of others do.
        lengths = {part.name: part.length for part in self._parts if isinstance(part, TextColumn)}
        for part in self._blocks:
            part.weight = _BESIDE_TEXT if lengths else 1.0
            if isinstance(part, TextColumn):
                part.weight = float(np.sqrt(part.length / max(lengths.values())))
        return self

    def _check_names(self, frame: pd.DataFrame) -> None:
        """Raise DataFileError if a column that the user names is not there, or is named as two things."""
        image = [self.image] if self.image else []
        roles = {"text": self.text, "image": image, "categories": self.categories, "drop": self.drop}
        for what, names in roles.items():
            require_columns(frame, names, what)
        for what in ("image", "text"):
            others = {name for other, names in roles.items() if other != what for name in names}
            twice = sorted(others.intersection(roles[what]))
            if twice:
                raise DataFileError(f"column {twice[0]!r} is named as {what} and as something else. Name it once.")

    @property
    def embedders_(self) -> list[str]:
        """Names of the embedders used."""
        return [one.name for one in self._embedded]

    def use(self, embed: Any, image_folder: str | Path) -> None:
        """Set the folder of pictures, and embedders that a stored model does not find by their names."""
        given = assign(embed, text=self._of(TEXT), image=self.image if embed is not None else None)
        for pictures in given.keys() - {one.pictures for one in self._embedded}:
            what = "pictures" if pictures else "texts"
            raise ValueError(f"the model was trained without an embedder of {what}: leave embed out.")
        for one in self._embedded:
            one.folder = Path(image_folder)
            if one.pictures in given:
                one.use(given[one.pictures])

    def transform(self, frame: pd.DataFrame, tally: Tally | None = None) -> Any:
        """Return float32 features: an ndarray, or CSR if there are texts, lists, many-valued words or sparse columns.

        ``frame`` has every column used in training, in any order; others are ignored. ``tally`` counts what was filled
        in and what was not recognised.
        """
        frame, tally = named(frame), Tally() if tally is None else tally
        missing = [name for name in self.kinds_ if name not in frame.columns]
        if missing:
            raise DataFileError(
                f"the model needs the column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing[:5]))}"
                f"{' …' if len(missing) > 5 else ''}, which the data lack; they have {shorten(frame.columns)}."
            )
        blocks = [self._numbers.weight * self._numbers.transform(frame, tally)] if self._numbers.names else []
        blocks += [part.weight * part.transform(frame[part.name], tally) for part in self._parts]
        blocks += [one.transform(frame, tally) for one in self._embedded]
        if any(sparse.issparse(block) for block in blocks):
            return short_indices(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
        return np.ascontiguousarray(np.hstack(blocks))

    def describe(self) -> dict[str, str]:
        """Return for each column in one line what it became; those that are left out first, with the reason."""
        parts = {part.name: part for part in self._parts}
        left_out = {name: Choice(reason=reason).describe() for name, reason in self.left_out_.items()}
        return left_out | {name: Choice(kind, parts.get(name)).describe() for name, kind in self.kinds_.items()}

    @property
    def n_features_(self) -> int:
        """Number of columns of the matrix."""
        n_vectors = sum(one.n_features for one in self._embedded)
        return len(self._numbers.names) + sum(part.n_features for part in self._parts) + n_vectors

    @property
    def words_(self) -> list[str]:
        """Columns that must be read as text, whatever they look like."""
        return [name for name, kind in self.kinds_.items() if kind != NUMBER]

    @property
    def _blocks(self) -> list[NumberColumns | FittedColumn]:
        return [self._numbers, *self._parts]

    def _of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.kinds_.items() if kind in kinds]

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and JSON-able facts that ``from_state`` takes back, bit for bit."""
        arrays, numbers = self._numbers.state()
        facts: dict[str, Any] = {
            "settings": {name: getattr(self, name) for name in _SETTINGS},
            "kinds": self.kinds_,
            "left_out": self.left_out_,
            "numbers": numbers,
            "embedded": [one.state() for one in self._embedded],
            "weights": [part.weight for part in self._blocks],
        }
        for made in KINDS:
            stored = facts[made.key] = {}
            for j, part in enumerate(part for part in self._parts if isinstance(part, made)):
                found, stored[part.name] = part.state()
                arrays |= {f"{made.key}.{j}.{key}": value for key, value in found.items()}
        return arrays, facts

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> Self:
        """Build the encoder that ``state`` described. Files of version 0.1 lack what it did not have."""
        encoder = cls(**{name: value for name, value in facts["settings"].items() if name in _SETTINGS})
        encoder.kinds_, encoder.left_out_ = dict(facts["kinds"]), dict(facts["left_out"])
        encoder._numbers = NumberColumns.from_state(arrays, facts["numbers"])
        encoder._parts = []
        for made in KINDS:
            names = encoder._of(*made.kinds) if made is not TextColumn or encoder.max_terms else []
            stored = facts.get(made.key, dict.fromkeys(names) if made is TextColumn else {})
            for j, name in enumerate(names):
                start = f"{made.key}.{j}."
                own = {key.removeprefix(start): value for key, value in arrays.items() if key.startswith(start)}
                encoder._parts.append(made.from_state(name, own, stored[name]))
        weights = facts.get("weights", [1.0] * len(encoder._blocks))
        for part, weight in zip(encoder._blocks, weights, strict=True):
            part.weight = float(weight)
        encoder._embedded = [Embedded.from_state(about) for about in facts.get("embedded", ())]
        encoder.embed = [one.name for one in encoder._embedded if not one.own] or None
        return encoder
