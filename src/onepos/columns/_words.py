"""A column of text as tf-idf weights, with the vocabulary kept as plain data."""

import json
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd

#: Words in at least this many rows are used, once there are enough rows to tell.
_LEAST_ROWS, _ENOUGH_ROWS = 2, 100


class TextColumn:
    """scikit-learn's ``TfidfVectorizer`` on one column: lower case, 1 + log of counts, rows of length one.

    Examples
    --------
    >>> import pandas as pd
    >>> words = TextColumn("title", 10).fit(pd.Series(["red apple", "red sky"]))
    >>> words.terms
    ['apple', 'red', 'sky']
    """

    def __init__(self, name: str, max_terms: int) -> None:
        self.name, self.max_terms = name, max_terms

    def fit(self, column: "pd.Series[Any]") -> Self:
        """Choose the words and weigh them."""
        made = _vectorizer(min_df=_LEAST_ROWS if len(column) >= _ENOUGH_ROWS else 1, max_features=self.max_terms)
        try:
            made.fit(_texts(column))
        except ValueError as error:
            raise DataFileError(
                f"text column {self.name!r} holds no usable words (two letters or more, in several rows). "
                "Name another column, or drop it."
            ) from error
        self.terms = [str(term) for term in made.get_feature_names_out()]
        self.weights = np.asarray(made.idf_, dtype=np.float64)
        return self._ready()

    def transform(self, column: "pd.Series[Any]") -> Any:
        """Return CSR float32, a column a word; a row without known words is empty."""
        return self._made.transform(_texts(column)).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the words as JSON in bytes, and their weights."""
        words = json.dumps(self.terms, ensure_ascii=False).encode()
        return {"terms": np.frombuffer(words, dtype=np.uint8), "weights": self.weights}

    @classmethod
    def from_state(cls, name: str, max_terms: int, arrays: dict[str, NDArray[Any]]) -> Self:
        """Take back what ``state`` gave."""
        made = cls(name, max_terms)
        made.terms = [str(term) for term in json.loads(arrays["terms"].tobytes().decode())]
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
