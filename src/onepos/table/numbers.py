"""The numeric and yes/no columns: gaps filled with the median, numbers standardised."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.table.kinds import as_numbers, as_words

if TYPE_CHECKING:
    import pandas as pd


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


# A column of categories as one 0/1 column a category.


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
