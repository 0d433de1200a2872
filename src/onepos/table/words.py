"""Columns of words as features: categories, words with many values, lists of names, text."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils import storage
from onepos.exceptions import DataFileError
from onepos.table.columns import FittedColumn
from onepos.table.kinds import CATEGORY, LIST, TEXT, VALUES, Tally, Words, as_words, words_of

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder

LEAST_ROWS = 3  # A value that so many rows hold gets a column of its own; the others share one
_LEAST_SHARE = 0.05  # Without a frequent value in so many of its cells, a column is left out
_REST, HASHED = 2.0, 512  # With so many values without a column per cell, these values are hashed into so many columns
_SIGNS, _LISTS = (",", ";", "|"), 0.05  # What may stand between the parts of a list, if it is in so many of the cells
_LEAST_ROWS, _ENOUGH_ROWS = 2, 100  # Words in at least this many rows are used, once there are enough rows to tell


@dataclass(kw_only=True, eq=False)
class CategoryColumn(FittedColumn):
    """Words with few distinct values: one 0/1 column each. Gaps and unknown words are all zeros."""

    kinds = (CATEGORY,)
    _stored: ClassVar[storage.Rules] = {"values": storage.TEXTS}
    values: list[str]

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self:
        """Find the distinct values, however many there are."""
        return cls(name=str(column.name), values=sorted(set(_wholes(words_of(column)))))

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return one column for each value."""
        words, position = words_of(column), {value: j for j, value in enumerate(self.values)}
        codes = words.rows([position.get(word, -2) for word in _wholes(words)], -1)
        tally.count(self.name, codes == -1, "missing, taken as none of the categories")
        tally.count(self.name, codes == -2, "of a category that training never saw, taken as none of the categories")
        return np.asarray(codes[:, None] == np.arange(len(self.values)), dtype=np.float32)

    def describe(self) -> str:
        """Return how many values there are."""
        return f"category: {len(self.values):,} values → {self.n_features:,} features"


def _wholes(words: Words) -> list[str]:
    """Return distinct words, whole numbers without ``.0``, which pandas writes after them if another row has a gap."""
    return [re.sub(r"^(-?\d+)\.0$", r"\1", word) for word in words.distinct]


@dataclass(kw_only=True, eq=False)
class BagColumn(FittedColumn):
    """Words with many distinct values, or lists of them (``Chile, Peru``): one column for each frequent value.

    A value is frequent if it is in 3 rows or more; the ``max_values`` most frequent ones are used. All other values
    share a column. Gaps have one too. Rows have length one, with equal weights of the values in the cell. If cells hold
    two values or more without a column on average, character n-grams of these are hashed into 512 more columns.

    ``sign`` separates the values of a cell; "": a cell is one value. ``n_found`` distinct values were in training, with
    ``length`` words on average.
    """

    kinds = (VALUES, LIST)
    _stored: ClassVar[storage.Rules] = {
        "values": storage.TEXTS,
        "sign": storage.TEXT,
        "n_found": storage.COUNT,
        "n_hashed": storage.Value(f"0 or {HASHED}", lambda value: type(value) is int and value in (0, HASHED)),
        "length": storage.NOT_NEGATIVE,
    }
    values: list[str]
    sign: str
    n_found: int
    n_hashed: int
    length: float

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Choose frequent values, of cells or of their parts, whichever cover more rows; None if they cover too few."""
        words = words_of(column)
        wholes, rows_of = _wholes(words), words.counts.tolist()
        n_rows = sum(rows_of)
        shares = {sign: sum(n for word, n in zip(wholes, rows_of, strict=True) if sign in word) for sign in _SIGNS}
        most, best = max(1.0, _LEAST_SHARE * n_rows), None
        for sign in ["", *(sign for sign in _SIGNS if shares[sign] >= _LISTS * n_rows)]:
            cells = [_parts(word, sign) for word in wholes]
            counts: Counter[str] = Counter()
            for cell, n in zip(cells, rows_of, strict=True):
                counts.update(dict.fromkeys(cell, n))
            frequent = [part for part, n in counts.items() if n >= LEAST_ROWS]
            values = sorted(frequent, key=lambda part: (-counts[part], part))[: wanted.max_values]
            used = set(values)
            covered = sum(n for cell, n in zip(cells, rows_of, strict=True) if not cell.isdisjoint(used))
            if covered >= most:
                most = covered + 1.0
                rest = sum(counts.values()) - sum(counts[value] for value in values)
                best = cls(
                    name=str(column.name),
                    values=values,
                    sign=sign,
                    n_found=len(counts),
                    n_hashed=HASHED if rest >= _REST * n_rows and n_rows >= _ENOUGH_ROWS else 0,
                    length=float(np.mean([len(part.split()) for part in counts])),
                )
        return best

    @property
    def kind(self) -> str:
        """Lists have a sign."""
        return LIST if self.sign else VALUES

    @property
    def measured(self) -> bool:
        """Whether most values hold digits, as numbers and codes do: one column for each would be noise."""
        return 2 * sum(any(sign.isdigit() for sign in value) for value in self.values) > len(self.values)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> Any:
        """Return CSR, one column for each value, one for all others, one for gaps, and the hashed ones."""
        position = {value: j for j, value in enumerate(self.values)}
        other, words = len(position), words_of(column)
        cells = [_parts(word, self.sign) for word in _wholes(words)]
        rows = [sorted({position.get(part, other) for part in cell}) for cell in cells] + [[other + 1]]  # last: a gap
        tally.count(self.name, words.missing, "missing, taken as a value of its own")
        sizes = np.array([len(row) for row in rows])
        indices = np.array([j for row in rows for j in row], dtype=np.int32)
        weights = np.repeat(1.0 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
        bag = sparse.csr_array((weights, indices, np.cumsum([0, *sizes])), shape=(len(rows), other + 2))
        if not self.n_hashed:
            return bag[words.codes]
        from sklearn.feature_extraction.text import HashingVectorizer

        ngrams = HashingVectorizer(
            analyzer="char_wb", ngram_range=(3, 4), n_features=self.n_hashed, alternate_sign=False, dtype=np.float32
        )
        rest = [" ".join(sorted(part for part in cell if part not in position)) for cell in [*cells, set[str]()]]
        return sparse.hstack([bag, sparse.csr_array(ngrams.transform(rest))], format="csr")[words.codes]

    def describe(self) -> str:
        """Return how many values there are, and how many have a column."""
        what = f"lists of names between {self.sign!r}" if self.sign else "words with many values"
        rare = ", the others share one" if self.n_found > len(self.values) else ""
        rare += f" and {self.n_hashed} of hashed character n-grams" if self.n_hashed else ""
        kept = f"{len(self.values):,} of {self.n_found:,} values"
        return f"{what}: {kept} get a column{rare} → {self.n_features:,} features"


def _parts(word: str, sign: str) -> set[str]:
    return {part.strip() for part in word.split(sign)} - {""} if sign else {word}


@dataclass(kw_only=True, eq=False)
class TextColumn(FittedColumn):
    """scikit-learn's ``TfidfVectorizer`` on one column: lower case, 1 + log of counts, rows of length one.

    ``length`` is the mean number of known words per row of training, each counted once.
    """

    kinds = (TEXT,)
    _stored: ClassVar[storage.Rules] = {
        "terms": storage.List(storage.TEXT, "terms"),
        "idf": storage.Array("terms", "f8", 0),
        "length": storage.NOT_NEGATIVE,
    }
    terms: list[str]
    idf: NDArray[np.float64]
    length: float

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Choose the words and weigh them; None if there are none and the user did not name the column as text."""
        name = str(column.name)
        chosen = _vectorizer(min_df=_LEAST_ROWS if len(column) >= _ENOUGH_ROWS else 1, max_features=wanted.max_terms)
        try:
            length = chosen.fit_transform(_texts(column)).nnz / len(column)
        except ValueError as error:
            if name not in wanted.text:
                return None
            raise DataFileError(
                f"text column {name!r} holds no usable words (two letters or more, in several rows). "
                "Name another column, or drop it."
            ) from error
        terms = [str(term) for term in chosen.get_feature_names_out()]
        return cls(name=name, terms=terms, idf=np.asarray(chosen.idf_, dtype=np.float64), length=length)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> Any:
        """Return CSR, one column for each word; a row without known words is empty."""
        # Built from words and weights, so that a loaded model computes what the fitted one did.
        words = _vectorizer(vocabulary={term: j for j, term in enumerate(self.terms)})
        words.idf_ = self.idf
        return words.transform(_texts(column)).astype(np.float32)

    def describe(self) -> str:
        """Return how many words there are."""
        return f"text: tf-idf of {len(self.terms):,} words → {self.n_features:,} features"


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, **settings)


def _texts(column: "pd.Series[Any]") -> list[str]:
    return [word or "" for word in as_words(column)]
