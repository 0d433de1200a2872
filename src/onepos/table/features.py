"""Columns of words as features: categories, words with many values, lists, text; and what all kinds have in common."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos.exceptions import DataFileError
from onepos.table.kinds import CATEGORY, LIST, TEXT, VALUES, Tally, as_words

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder

LEAST_ROWS = 3  # A value that so many rows hold gets a column of its own; the others share one
_LEAST_SHARE = 0.05  # Without a frequent value in so many of its cells, a column is left out
_REST, HASHED = 2.0, 512  # With so many values without a column per cell, these values are hashed into so many columns
_SIGNS, _LISTS = (",", ";", "|"), 0.05  # What may stand between the parts of a list, if it is in so many of the cells
_LEAST_ROWS, _ENOUGH_ROWS = 2, 100  # Words in at least this many rows are used, once there are enough rows to tell


class FittedColumn(ABC):
    """What a column of one kind became. A new kind is a class like this in ``KINDS`` of ``encoder.py``.

    ``key`` is the place of such columns in a model file, ``kinds`` are those that the class encodes (as in
    ``ColumnEncoder.kinds_``), ``stored`` are the attributes that are the state. The encoder sets ``weight``, a factor
    of the features.
    """

    key: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    stored: ClassVar[tuple[str, ...]] = ()
    values: list[str]
    weight: float = 1.0

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def fit(self, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Learn from the training rows; None if the column is not of this kind."""

    @abstractmethod
    def transform(self, column: "pd.Series[Any]", tally: Tally) -> Any:
        """Return float32 features, dense or CSR."""

    @property
    def n_features(self) -> int:
        """Columns of the result of ``transform``: one for each value, unless a kind says otherwise."""
        return len(self.values)

    @abstractmethod
    def describe(self) -> str:
        """Return in one line what the column became."""

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Return arrays and JSON-able facts that ``from_state`` takes back."""
        return {}, {name: getattr(self, name) for name in self.stored}

    @classmethod
    def from_state(cls, name: str, arrays: dict[str, NDArray[Any]], facts: Any) -> Self:
        """Take back what ``state`` gave."""
        made = cls(name)
        values = [facts[attribute] for attribute in cls.stored] if isinstance(facts, dict) else facts
        for attribute, value in zip(cls.stored, values, strict=True):
            setattr(made, attribute, value)
        return made


class CategoryColumn(FittedColumn):
    """Words with few distinct values: one 0/1 column each. Gaps and unknown words are all zeros."""

    key, kinds, stored = "categories", (CATEGORY,), ("values",)

    def fit(self, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Find the distinct values; None if there are too many."""
        self.values = sorted({_whole(word) for word in as_words(column) if word is not None})
        return self if len(self.values) <= wanted.max_categories else None

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return one column for each value."""
        exact = {value: j for j, value in enumerate(self.values)}
        position = {_whole(value): j for value, j in exact.items()} | exact
        words = [None if word is None else word if word in exact else _whole(word) for word in as_words(column)]
        codes = np.array([-1 if word is None else position.get(word, -2) for word in words], dtype=np.int64)
        tally.count(self.name, codes == -1, "missing, taken as none of the categories")
        tally.count(self.name, codes == -2, "of a category that training never saw, taken as none of the categories")
        return np.asarray(codes[:, None] == np.arange(len(self.values)), dtype=np.float32)

    def describe(self) -> str:
        """Return how many values there are."""
        return f"category: {len(self.values):,} values → {self.n_features:,} features"

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Return the values."""
        return {}, self.values

    @classmethod
    def from_state(cls, name: str, arrays: dict[str, NDArray[Any]], facts: Any) -> Self:
        """Take back the values."""
        return super().from_state(name, arrays, [facts])


def _whole(word: str) -> str:
    """Return a whole number without ``.0``, which pandas writes after it if another row has a gap."""
    return word.removesuffix(".0") if word.endswith(".0") and word[:-2].removeprefix("-").isdecimal() else word


class BagColumn(FittedColumn):
    """Words with many distinct values, or lists of them (``Chile, Peru``): one column for each frequent value.

    A value is frequent if it is in 3 rows or more; the ``max_values`` most frequent ones are used. All other values
    share a column. Gaps have one too. Rows have length one, with equal weights of the values in the cell. If cells hold
    two values or more without a column on average, character n-grams of these are hashed into 512 more columns.

    ``sign`` separates the values of a cell; "": a cell is one value. ``n_found`` distinct values were in training, with
    ``length`` words on average.
    """

    key, kinds = "bags", (VALUES, LIST)
    stored = ("values", "sign", "n_found", "n_hashed")
    n_found = n_hashed = 0

    def fit(self, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Choose frequent values, of cells or of their parts, whichever cover more rows; None if they cover too few."""
        words = [_whole(word) for word in as_words(column) if word is not None]
        signs = ["", *(sign for sign in _SIGNS if sum(sign in word for word in words) >= _LISTS * len(words))]
        most, found = max(1.0, _LEAST_SHARE * len(words)), False
        for sign in signs:
            cells = [_parts(word, sign) for word in words]
            counts = Counter(part for cell in cells for part in cell)
            frequent = [part for part, n in counts.items() if n >= LEAST_ROWS]
            values = sorted(frequent, key=lambda part: (-counts[part], part))[: wanted.max_values]
            covered = sum(not cell.isdisjoint(values) for cell in cells)
            if covered >= most:
                most, found = covered + 1.0, True
                self.values, self.sign, self.n_found = values, sign, len(counts)
                self.length = float(np.mean([len(part.split()) for part in counts]))
                rest = sum(counts.values()) - sum(counts[value] for value in values)
                self.n_hashed = HASHED if rest >= _REST * len(cells) and len(cells) >= _ENOUGH_ROWS else 0
        return self if found else None

    @property
    def n_features(self) -> int:
        """One for each value, one for all others, one for gaps; and the hashed ones."""
        return len(self.values) + 2 + self.n_hashed

    @property
    def measured(self) -> bool:
        """Whether most values hold digits, as numbers and codes do: one column for each would be noise."""
        return 2 * sum(any(sign.isdigit() for sign in value) for value in self.values) > len(self.values)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> Any:
        """Return CSR, one column for each value, one for all others, one for gaps, and the hashed ones."""
        position = {value: j for j, value in enumerate(self.values)}
        other, words = len(position), as_words(column)
        cells = [set() if word is None else _parts(_whole(word), self.sign) for word in words]
        found = [sorted({position.get(part, other) for part in cell}) for cell in cells]
        rows = [[other + 1] if word is None else row for word, row in zip(words, found, strict=True)]
        tally.count(self.name, [word is None for word in words], "missing, taken as a value of its own")
        sizes = np.array([len(row) for row in rows])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        indices = np.fromiter((j for row in rows for j in row), dtype=np.int32, count=int(starts[-1]))
        weights = np.repeat(1.0 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
        bag = sparse.csr_array((weights, indices, starts), shape=(len(rows), other + 2))
        if not self.n_hashed:
            return bag
        from sklearn.feature_extraction.text import HashingVectorizer

        ngrams = HashingVectorizer(
            analyzer="char_wb", ngram_range=(3, 4), n_features=self.n_hashed, alternate_sign=False, dtype=np.float32
        )
        rest = [" ".join(sorted(part for part in cell if part not in position)) for cell in cells]
        return sparse.hstack([bag, sparse.csr_array(ngrams.transform(rest))], format="csr")

    def describe(self) -> str:
        """Return how many values there are, and how many have a column."""
        what = f"lists of names between {self.sign!r}" if self.sign else "words with many values"
        found = f" of {self.n_found:,}" if self.n_found else ""
        rare = ", the others share one" if self.n_found > len(self.values) else ""
        rare += f" and {self.n_hashed} of hashed character n-grams" if self.n_hashed else ""
        return f"{what}: {len(self.values):,}{found} values get a column{rare} → {self.n_features:,} features"

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Return a list of what is stored."""
        return {}, [getattr(self, name) for name in self.stored]


def _parts(word: str, sign: str) -> set[str]:
    return {part.strip() for part in word.split(sign)} - {""} if sign else {word}


class TextColumn(FittedColumn):
    """scikit-learn's ``TfidfVectorizer`` on one column: lower case, 1 + log of counts, rows of length one.

    ``length`` is the mean number of known words per row of training, each counted once.
    """

    key, kinds = "text", (TEXT,)

    def fit(self, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Choose the words and weigh them; None if there are none and the user did not name the column as text."""
        made = _vectorizer(min_df=_LEAST_ROWS if len(column) >= _ENOUGH_ROWS else 1, max_features=wanted.max_terms)
        try:
            self.length = made.fit_transform(_texts(column)).nnz / len(column)
        except ValueError as error:
            if self.name not in wanted.text:
                return None
            raise DataFileError(
                f"text column {self.name!r} holds no usable words (two letters or more, in several rows). "
                "Name another column, or drop it."
            ) from error
        self.terms = [str(term) for term in made.get_feature_names_out()]
        self.weights = np.asarray(made.idf_, dtype=np.float64)
        return self._ready()

    @property
    def n_features(self) -> int:
        """One for each word."""
        return len(self.terms)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> Any:
        """Return CSR, one column for each word; a row without known words is empty."""
        return self._made.transform(_texts(column)).astype(np.float32)

    def describe(self) -> str:
        """Return how many words there are."""
        return f"text: tf-idf of {len(self.terms):,} words → {self.n_features:,} features"

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Return the words as JSON in bytes, and their weights."""
        words = json.dumps(self.terms, ensure_ascii=False).encode()
        return {"terms": np.frombuffer(words, dtype=np.uint8), "weights": self.weights}, None

    @classmethod
    def from_state(cls, name: str, arrays: dict[str, NDArray[Any]], facts: Any) -> Self:
        """Take back what ``state`` gave."""
        made = cls(name)
        made.terms = json.loads(arrays["terms"].tobytes().decode())
        made.weights = np.asarray(arrays["weights"], dtype=np.float64)
        return made._ready()

    def _ready(self) -> Self:
        # Built from words and weights in both cases, so that a loaded model computes what the fitted one did.
        self._made = _vectorizer(vocabulary={term: j for j, term in enumerate(self.terms)})
        self._made.idf_ = self.weights
        return self


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, **settings)


def _texts(column: "pd.Series[Any]") -> list[str]:
    missing = column.isna().to_numpy()
    return ["" if gap else str(value) for value, gap in zip(column, missing, strict=True)]
