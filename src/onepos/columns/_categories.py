"""A column of categories as one 0/1 column a category."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos.columns._kinds import as_words

if TYPE_CHECKING:
    import pandas as pd


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
