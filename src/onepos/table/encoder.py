"""Turn the columns of a table into one numeric matrix, in training and in every prediction alike."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.validation import all_or_nothing
from onepos.datasets._table import short_indices
from onepos.exceptions import DataFileError
from onepos.table.choice import PLAIN, choose_columns
from onepos.table.embedders import assign
from onepos.table.embedding import Embedded
from onepos.table.features import BagColumn, CategoryColumn, FittedColumn, TextColumn
from onepos.table.kinds import BOOLEAN, IMAGE, NUMBER, TEXT, named, shorten
from onepos.table.measures import DateColumn, MeasureColumn, NumberColumns

if TYPE_CHECKING:
    import pandas as pd


#: The kinds of columns beside numbers, in the order of their features.
KINDS: tuple[type[FittedColumn], ...] = (CategoryColumn, BagColumn, TextColumn, DateColumn, MeasureColumn)
_CLASS = {kind: made for made in KINDS for kind in made.kinds}
#: Weight of other columns beside text. A row of text has length one, so each of its words weighs less than a category.
_BESIDE_TEXT = 0.5
_SETTINGS = ("text", "categories", "drop", "max_categories", "max_values", "max_terms", "image")
#: Broken pictures that a note names; the others are counted.
_NAMED_PICTURES = 5


@dataclass
class Tally:
    """What was filled in or not recognised while encoding, counted by column; chunks add up."""

    missing: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Add what another tally counted."""
        for own, more in ((self.missing, other.missing), (self.unknown, other.unknown), (self.outside, other.outside)):
            own.update(more)
        for name, found in other.broken.items():
            self.broken[name] = self.broken.get(name, []) + found

    def notes(self, kinds: dict[str, str]) -> list[str]:
        """Return one sentence for each column and each thing that was counted."""
        gaps = {kind: made.gap for kind, made in _CLASS.items()}
        gaps |= {BOOLEAN: "taken as the more frequent one", IMAGE: "taken as the mean picture"}
        gap = {name: gaps.get(kinds.get(name, NUMBER), "filled with the median") for name in self.missing}
        notes = [f"column {name!r}: {count:,} missing, {gap[name]}" for name, count in self.missing.items()]
        strange = {name: _CLASS[kinds[name]].strange for name in self.unknown}
        notes += [f"column {name!r}: {count:,} {strange[name]}" for name, count in self.unknown.items()]
        notes += [
            f"column {name!r}: {count:,} outside the range of training, taken as its nearest end"
            for name, count in self.outside.items()
        ]
        for name, found in self.broken.items():
            more = f"; and {len(found) - _NAMED_PICTURES:,} more" if len(found) > _NAMED_PICTURES else ""
            notes.append(f"column {name!r}: {'; '.join(found[:_NAMED_PICTURES])}{more}. Taken as the mean picture")
        return notes


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
        max_values: int = 5_000,
        max_terms: int = 10_000,
        image: str | None = None,
        embed: Any = None,
        image_folder: str | Path = "",
    ) -> None:
        self.text = [text] if isinstance(text, str) else list(text)
        self.categories, self.drop = list(categories), list(drop)
        self.max_categories, self.max_values, self.max_terms = max_categories, max_values, max_terms
        self.image, self.embed, self.image_folder = image, embed, image_folder

    @all_or_nothing
    def fit(self, frame: "pd.DataFrame") -> Self:
        """Learn from the training rows."""
        frame = named(frame)
        choices = choose_columns(frame, self)
        self.kinds_ = {name: choice.kind for name, choice in choices.items() if not choice.reason}
        self.left_out_ = {name: choice.reason for name, choice in choices.items() if choice.reason}
        if not self.kinds_:
            why = "; ".join(f"{name!r} {reason}" for name, reason in list(self.left_out_.items())[:3])
            raise DataFileError(
                f"no column is left to learn from{f' ({why})' if why else ''}. A column named as text is used, "
                "whatever it holds."
            )
        numbers = self._of(NUMBER, BOOLEAN)
        self._numbers = NumberColumns(numbers, [self.kinds_[name] == BOOLEAN for name in numbers]).fit(frame)
        fitted = {name: choices[name].part or self._words(frame[name]) for name in self._of(*_CLASS)}
        self._parts = [part for made in KINDS for part in fitted.values() if isinstance(part, made)]
        given = assign(self.embed, text=self._of(TEXT), image=self.image)
        self._embedded = [
            Embedded(self._of(IMAGE if pictures else TEXT), one, pictures=pictures, folder=self.image_folder).fit(frame)
            for pictures, one in sorted(given.items())
        ]
        self._weigh()
        return self

    def _words(self, column: "pd.Series[Any]") -> TextColumn | None:
        """Return the words of a column that the user names as text."""
        return TextColumn(str(column.name)).fit(column, self) if self.max_terms else None

    def _weigh(self) -> None:
        """Beside text, other columns weigh half; of several texts, words of one weigh about what those of others do."""
        texts = [part for part in self._parts if isinstance(part, TextColumn)]
        longest = max((text.length for text in texts), default=0.0)
        for part in self._blocks:
            part.weight = _BESIDE_TEXT if texts else 1.0
        for text in texts:
            text.weight = float(np.sqrt(text.length / longest))

    @property
    def embedders_(self) -> list[str]:
        """Names of the embedders used."""
        return [one.name for one in self._embedded]

    def use(self, embed: Any, image_folder: str | Path) -> None:
        """Set the folder of pictures, and embedders that a stored model does not find by their names."""
        given = assign(embed, text=self._of(TEXT), image=self.image if embed is not None else None)
        for one in self._embedded:
            one.folder = Path(image_folder)
            if one.pictures in given:
                one.use(given[one.pictures])

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
        blocks = [self._numbers.weight * self._numbers.transform(frame, tally)] if self._numbers.names else []
        blocks += [part.weight * part.transform(frame[part.name], tally) for part in self._parts]
        blocks += [one.transform(frame, tally) for one in self._embedded]
        if any(sparse.issparse(block) for block in blocks):
            return short_indices(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
        return np.ascontiguousarray(np.hstack(blocks))

    def describe(self) -> dict[str, str]:
        """Return for each column in one line what it became; those that are left out first, with the reason.

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"size": [1.0, 3.0, 2.0], "unit": ["cm"] * 3, "colour": ["red", "blue", "red"]})
        >>> ColumnEncoder().fit(table).describe()["colour"]
        'category: 2 values → 2 features'
        """
        parts = {part.name: part.describe() for part in self._parts}
        used = {name: parts.get(name) or PLAIN[kind] for name, kind in self.kinds_.items()}
        return {name: f"left out: {reason}" for name, reason in self.left_out_.items()} | used

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
        settings = {name: getattr(self, name) for name in _SETTINGS}
        facts: dict[str, Any] = {
            "settings": settings,
            "kinds": self.kinds_,
            "left_out": self.left_out_,
            "numbers": numbers,
            "embedded": [one.state() for one in self._embedded],
        }
        facts["weights"] = [part.weight for part in self._blocks]
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
