"""Tags in a column ↔ the indicator matrix that the estimators take."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos.columns._kinds import as_words
from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd


def tag_indicator(
    tags: "pd.Series[Any]", classes: Sequence[str] | None = None, separator: str | None = None
) -> "pd.DataFrame":
    """Tags of rows → int8 indicator; a row without a tag has no 1.

    Parameters
    ----------
    tags : Series
        Text or numbers; blanks around a tag do not count.
    classes : sequence of str, optional
        The labels, in the order of the columns. Default: the distinct tags, sorted. A tag that is not among them
        leaves its row without a 1.
    separator : str, optional
        What stands between the tags of a cell, if a cell can hold several.

    Examples
    --------
    >>> import pandas as pd
    >>> tag_indicator(pd.Series(["sea", None, "city"]))
       city  sea
    0     0    1
    1     0    0
    2     1    0
    """
    sets = [split_cell(word, separator) for word in as_words(tags)]
    found = sorted({tag for row in sets for tag in row})
    if not found:
        raise DataFileError(
            f"label column {tags.name!r} holds no tag: all {len(tags):,} rows are empty. Is it the right column?"
        )
    if classes is None and len(found) == 1:
        raise DataFileError(
            f"label column {tags.name!r} holds one label only, {found[0]!r}; at least two are needed to learn anything."
        )
    return _indicator(sets, found if classes is None else classes, tags)


def split_tags(tags: "pd.Series[Any]", separator: str = ";", classes: Sequence[str] | None = None) -> "pd.DataFrame":
    """Several tags a row, joined by ``separator`` → int8 indicator; parameters as for ``tag_indicator``.

    Examples
    --------
    >>> import pandas as pd
    >>> split_tags(pd.Series(["sea;city", ""])).to_numpy().tolist()
    [[1, 1], [0, 0]]
    """
    sets = [split_cell(word, separator) for word in as_words(tags)]
    return _indicator(sets, sorted({tag for row in sets for tag in row}) if classes is None else classes, tags)


def split_cell(word: str | None, separator: str | None) -> list[str]:
    """Return the tags of a cell: one without ``separator``, around which blanks do not count.

    Examples
    --------
    >>> split_cell("sea,city, ", ", "), split_cell("sea, city", None), split_cell(None, None)
    (['sea', 'city'], ['sea, city'], [])
    """
    if word is None:
        return []
    return [tag.strip() for tag in word.split(separator.strip() or separator) if tag.strip()] if separator else [word]


def joined_tags(tags: Iterable[str]) -> tuple[str, int] | None:
    """Return the sign that seems to join several tags in a cell, and how many of the distinct tags hold it; or None.

    A tenth of the tags must hold it, and half of these must have a part that is also a tag, or part of another one.

    Examples
    --------
    >>> joined_tags(["sea;city", "sea", "city", "snow"])
    (';', 1)
    >>> joined_tags(["Smith, John", "Miller, Ann"]) is None
    True
    """
    distinct = list(tags)
    for sign in (";", "|", ","):
        lists = [split_cell(tag, sign) for tag in distinct if sign in tag]
        parts = Counter(part for tag in distinct for part in set(split_cell(tag, sign)))
        shared = sum(any(parts[part] > 1 for part in cell) for cell in lists)
        if len(lists) >= max(1.0, 0.1 * len(distinct)) and 2 * shared >= len(lists):
            return sign, len(lists)
    return None


def join_tags(
    probabilities: "pd.DataFrame",
    *,
    threshold: float | Sequence[float] = 0.5,
    top: int | None = None,
    separator: str = ";",
    at_least_one: bool = False,
) -> list[str]:
    """Return each row's labels with at least ``threshold``, or its ``top`` ones, most probable first, joined.

    ``threshold`` is one number, or one for each label; ``at_least_one`` takes the best label where none reaches it.

    Examples
    --------
    >>> import pandas as pd
    >>> join_tags(pd.DataFrame({"sea": [0.6], "city": [0.9], "snow": [0.1]}))
    ['city;sea']
    """
    labels = [str(name) for name in probabilities.columns]
    held = [label for label in labels if separator in label]
    if held:
        raise DataFileError(f"the label {held[0]!r} holds the separator {separator!r} of sets. Choose another one.")
    values: NDArray[np.float64] = probabilities.to_numpy(dtype=np.float64)
    order = np.argsort(-values, axis=1, kind="stable")
    # Below zero is no probability: whoever joins knows that the label is absent.
    taken = values >= (np.asarray(threshold) if top is None else 0.0)
    if at_least_one:
        taken[np.arange(len(taken)), order[:, 0]] |= ~taken.any(axis=1)
    sets = ([labels[j] for j in row if chosen[j]] for row, chosen in zip(order, taken, strict=True))
    return [separator.join(found[:top]) for found in sets]


def _indicator(sets: list[list[str]], classes: Sequence[str], tags: "pd.Series[Any]") -> "pd.DataFrame":
    import pandas as pd

    position = {name: j for j, name in enumerate(classes)}
    values = np.zeros((len(sets), len(classes)), dtype=np.int8)
    for row, found in enumerate(sets):
        for tag in found:
            if tag in position:
                values[row, position[tag]] = 1
    return pd.DataFrame(values, columns=list(classes), index=tags.index)
