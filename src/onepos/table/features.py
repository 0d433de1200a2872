"""Columns of one kind as features: numbers, categories, words with many values or lists, and text."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.exceptions import DataFileError
from onepos.table.kinds import as_numbers, as_words

if TYPE_CHECKING:
    import pandas as pd


#: A value that so many rows hold gets a column of its own; the others share one.
LEAST_ROWS = 5
#: Without a frequent value in so many of its cells, a column is left out.
_LEAST_SHARE = 0.05
#: What may stand between the parts of a list, if it is in so many of the cells.
_SIGNS, _LISTS = (",", ";", "|"), 0.05
#: Words in at least this many rows are used, once there are enough rows to tell.
_LEAST_ROWS, _ENOUGH_ROWS = 2, 100


class NumberColumns:
    """Fitted numbers: what fills a gap, and ``(x − shift) · factor`` for each column.

    Standardised here and not only by the estimator, which leaves sparse features as they are: beside words, a price in
    thousands would drown everything. A frame whose columns are all sparse is neither shifted nor scaled.
    """

    def __init__(self, names: list[str], boolean: list[bool]) -> None:
        self.names, self.boolean = names, boolean

    def fit(self, frame: "pd.DataFrame") -> Self:
        """Learn medians, means and spreads."""
        values = _matrix(frame, self.names, self.boolean)
        n_columns = len(self.names)
        self.fill = np.zeros(n_columns)
        self.shift, self.factor = np.zeros(n_columns), np.ones(n_columns)
        if sparse.issparse(values):
            by_column = values.tocsc()
            for j in np.unique(values.indices[np.isnan(values.data)]):
                self.fill[j] = np.nanmedian(by_column[:, [j]].toarray())
            return self
        gaps = np.isnan(values)
        for j in range(n_columns):
            # A column at a time: a median of the whole matrix would copy it.
            self.fill[j] = np.nanmedian(values[:, j])
        filled = np.where(gaps, self.fill, values)
        number = ~np.array(self.boolean, dtype=bool)
        self.shift[number] = filled.mean(axis=0)[number]
        spread = filled.std(axis=0)
        useful = number & (spread > 1e-10 * np.abs(self.shift))
        self.factor[useful] = 1.0 / spread[useful]
        return self

    def transform(self, frame: "pd.DataFrame", missing: Counter[str]) -> Any:
        """Return float32 columns, dense or CSR as the frame is; ``missing`` counts what was filled in."""
        values = _matrix(frame, self.names, self.boolean)
        if sparse.issparse(values):
            gaps = np.isnan(values.data)
            columns = values.indices[gaps]
            missing.update(Counter(self.names[j] for j in columns.tolist()))
            values.data[gaps] = self.fill[columns]
            return values.astype(np.float32)
        gaps = np.isnan(values)
        for j in np.flatnonzero(gaps.any(axis=0)):
            missing[self.names[j]] += int(gaps[:, j].sum())
        return ((np.where(gaps, self.fill, values) - self.shift) * self.factor).astype(np.float32)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and facts."""
        arrays = {"fill": self.fill, "shift": self.shift, "factor": self.factor}
        return arrays, {"names": self.names, "boolean": self.boolean}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> Self:
        """Take back what ``state`` gave."""
        made = cls(list(facts["names"]), [bool(value) for value in facts["boolean"]])
        made.fill, made.shift, made.factor = arrays["fill"], arrays["shift"], arrays["factor"]
        if not len(made.names) == len(made.boolean) == len(made.fill) == len(made.shift) == len(made.factor):
            raise ValueError("the stored numeric columns do not fit together")
        return made


def is_sparse(frame: "pd.DataFrame") -> bool:
    """Whether every column is sparse."""
    import pandas as pd

    return all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes)


def _matrix(frame: "pd.DataFrame", names: list[str], boolean: list[bool]) -> Any:
    part = frame[names]
    if names and is_sparse(part):
        accessor: Any = part.sparse
        return accessor.to_coo().astype(np.float64).tocsr()
    values = np.empty((len(part), len(names)))
    for j, (name, is_boolean) in enumerate(zip(names, boolean, strict=True)):
        values[:, j] = as_numbers(part[name], name, boolean=is_boolean)
    return values


def find_categories(column: "pd.Series[Any]") -> list[str]:
    """Return the distinct values, sorted."""
    return sorted({word for word in as_words(column) if word is not None})


def one_hot(
    column: "pd.Series[Any]", categories: list[str], missing: Counter[str], unknown: Counter[str]
) -> NDArray[np.float32]:
    """Return one column a category; a gap and a category that training never saw are all zeros, and are counted.

    Examples
    --------
    >>> import pandas as pd
    >>> one_hot(pd.Series(["red", "green"], name="colour"), ["blue", "red"], Counter(), Counter()).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    position = {word: j for j, word in enumerate(categories)}
    words = as_words(column)
    codes = np.array([-1 if word is None else position.get(word, -2) for word in words], dtype=np.int64)
    name = str(column.name)
    if (codes == -1).any():
        missing[name] += int((codes == -1).sum())
    if (codes == -2).any():
        unknown[name] += int((codes == -2).sum())
    values = np.zeros((len(codes), len(categories)), dtype=np.float32)
    known = np.flatnonzero(codes >= 0)
    values[known, codes[known]] = 1.0
    return values


class Bag(NamedTuple):
    """The values that have a column each, most frequent first, and what separates them in a cell ("": nothing)."""

    values: list[str]
    sign: str

    @property
    def n_features(self) -> int:
        """One column for each value, one for all others, one for gaps."""
        return len(self.values) + 2


def find_bag(column: "pd.Series[Any]", max_values: int) -> Bag | None:
    """Return the frequent values of a column, None if too few cells hold one.

    A cell is taken as a list if the parts of cells are frequent in more rows than whole cells are.

    Examples
    --------
    >>> import pandas as pd
    >>> find_bag(pd.Series(["Chile", "Chile, Peru", "Peru, Cuba", "Chile, Peru"] * 3), 2)
    Bag(values=['Chile', 'Peru'], sign=',')
    """
    words = [word for word in as_words(column) if word is not None]
    signs = ["", *(sign for sign in _SIGNS if sum(sign in word for word in words) >= _LISTS * len(words))]
    best, most = None, max(1.0, _LEAST_SHARE * len(words))
    for sign in signs:
        cells = [_parts(word, sign) for word in words]
        counts = Counter(part for cell in cells for part in cell)
        frequent = [part for part, n in counts.items() if n >= LEAST_ROWS]
        bag = Bag(sorted(frequent, key=lambda part: (-counts[part], part))[:max_values], sign)
        covered = sum(not cell.isdisjoint(bag.values) for cell in cells)
        if covered >= most:
            best, most = bag, covered + 1.0
    return best


def bag_matrix(column: "pd.Series[Any]", bag: Bag, missing: Counter[str]) -> Any:
    """Return CSR float32 whose rows have length one, with equal weights of the values in the cell.

    All values without a column of their own share the last but one; the last one is 1 in gaps, which are counted.

    Examples
    --------
    >>> import pandas as pd
    >>> bag_matrix(pd.Series(["Peru", "Cuba, Chile", None]), Bag(["Chile", "Peru"], ","), Counter()).toarray().round(2)
    array([[0.  , 1.  , 0.  , 0.  ],
           [0.71, 0.  , 0.71, 0.  ],
           [0.  , 0.  , 0.  , 1.  ]], dtype=float32)
    """
    position = {value: j for j, value in enumerate(bag.values)}
    other = len(position)
    words = as_words(column)
    rows = [
        [other + 1] if word is None else sorted({position.get(part, other) for part in _parts(word, bag.sign)})
        for word in words
    ]
    gaps = sum(word is None for word in words)
    if gaps:
        missing[str(column.name)] += gaps
    sizes = np.array([len(row) for row in rows])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    indices = np.fromiter((j for row in rows for j in row), dtype=np.int32, count=int(starts[-1]))
    weights = np.repeat(1.0 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
    return sparse.csr_array((weights, indices, starts), shape=(len(rows), bag.n_features))


def looks_measured(bag: Bag) -> bool:
    """Whether most values hold digits, as dates and numbers with units do: one column for each would be noise.

    Examples
    --------
    >>> looks_measured(Bag(["93 min", "1 Season", "short"], ""))
    True
    """
    return 2 * sum(any(sign.isdigit() for sign in value) for value in bag.values) > len(bag.values)


def _parts(word: str, sign: str) -> set[str]:
    return {part.strip() for part in word.split(sign)} - {""} if sign else {word}


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
