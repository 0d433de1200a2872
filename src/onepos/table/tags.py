"""Tags in a column ↔ the indicator matrix that the estimators take."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos._utils.labels import mark_labels
from onepos.exceptions import DataFileError, LabelWarning
from onepos.table.decisions import apply_decisions, row_ids
from onepos.table.encoder import shorten
from onepos.table.kinds import as_words

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

    rows = np.repeat(np.arange(len(sets)), [len(found) for found in sets])
    values, _ = mark_labels(list(chain.from_iterable(sets)), pd.Index(list(classes), dtype=object), rows, len(sets))
    return pd.DataFrame(values, columns=list(classes), index=tags.index)


# Which columns hold the labels of a training table, and what they say.


class Named(NamedTuple):
    """The columns that the user named."""

    label: str | None
    labels: "Sequence[str] | pd.DataFrame | None"
    id: str | None
    separator: str | None = None


class Known(NamedTuple):
    """Observed labels, the columns that are no features because of them, and how many decisions were applied."""

    indicator: "pd.DataFrame"
    columns: list[str]
    decisions: dict[str, int] | None


def observed_labels(
    frame: "pd.DataFrame", names: Named, decisions: "pd.DataFrame | None", *, text: Sequence[str] = ()
) -> Known:
    """Return the int8 indicator of a training table: 1 observed or accepted, −1 rejected, 0 unknown.

    ``text`` are the columns of words, none of which may name the rows.
    """
    import pandas as pd

    for what, name in (("label", names.label), ("id", names.id)):
        if name is not None:
            require_columns(frame, [name], what)
    columns = [names.id] if names.id is not None else []
    if names.id is not None and (names.id == names.label or names.id in _listed(names.labels)):
        raise DataFileError(f"column {names.id!r} is named as id and as label. It can be one of them.")
    if names.id is not None and names.id in text:
        raise DataFileError(f"column {names.id!r} is named as id and as text. It can be one of them.")
    if names.separator is not None and names.label is None:
        raise DataFileError("a separator says how the tags of the label column are joined: name that column too.")
    if (names.label is None) == (names.labels is None):
        raise DataFileError("say which column holds the tags: label=NAME, or labels=[0/1 columns]; one of them.")
    if names.label is not None:
        indicator = tag_indicator(frame[names.label], separator=names.separator)
        columns = [*columns, names.label]
        if names.separator is None:
            warn_if_joined([str(name) for name in indicator.columns])
    elif isinstance(names.labels, pd.DataFrame):
        if len(names.labels) != len(frame):
            raise DataFileError(
                f"labels must have one row for each row of the table; got {len(names.labels):,} for {len(frame):,}."
            )
        indicator = names.labels
    else:
        chosen = list(names.labels or ())
        indicator, columns = indicator_columns(frame, chosen), [*columns, *chosen]
    if indicator.shape[1] < 2:
        raise DataFileError("at least two labels are needed to learn anything; got one.")
    if decisions is None:
        return Known(indicator, columns, None)
    decided, counts = apply_decisions(indicator, row_ids(frame, names.id), decisions)
    return Known(decided, columns, counts)


def _listed(labels: "Sequence[str] | pd.DataFrame | None") -> list[str]:
    return [] if labels is None or hasattr(labels, "columns") else list(labels)


def warn_if_joined(tags: Sequence[str]) -> None:
    """Warn if many tags look like several tags in one cell."""
    found = joined_tags(tags)
    if found is not None:
        sign, count = found
        warnings.warn(
            f"{count:,} of {len(tags):,} distinct tags contain {sign!r}: pass separator={sign!r} if a cell can hold "
            "several tags",
            LabelWarning,
            stacklevel=4,
        )


def suggestion_columns(frame: "pd.DataFrame", labels: Sequence[str]) -> list[str]:
    """Return the columns that an earlier completion added to the table; learning from them would be circular."""
    probabilities = [f"p({label})" for label in labels]
    if not all(name in frame.columns for name in probabilities):
        return []
    return [*probabilities, *(name for name in ("suggested",) if name in frame.columns)]


def indicator_columns(frame: "pd.DataFrame", names: Sequence[str]) -> "pd.DataFrame":
    """Return the 0/1 columns of the given names as int8; anything else in them is an error."""
    import pandas as pd

    require_columns(frame, names, "labels")
    part: pd.DataFrame = frame[list(names)].apply(pd.to_numeric, errors="coerce")
    legal = part.isin([0, 1, -1])
    if not legal.all(axis=None):
        row, column = (int(i) for i in np.argwhere(~legal.to_numpy())[0])
        raise DataFileError(
            f"label column {names[column]!r} must hold 0 and 1; row {row} has "
            f"{str(frame[names[column]].iloc[row])[:40]!r}. A column of tags is given as label."
        )
    return part.astype(np.int8)


def require_columns(frame: "pd.DataFrame", names: Sequence[str], what: str) -> None:
    """Raise DataFileError if one of the columns is not there."""
    for name in names:
        if name not in frame.columns:
            hint = ""
            if len(frame.columns) == 1 and (";" in str(frame.columns[0]) or "\t" in str(frame.columns[0])):
                hint = " The file looks separated by something else than a comma: save it with commas, or as .tsv."
            raise DataFileError(
                f"there is no column {name!r} (named as {what}); the columns are: {shorten(frame.columns)}.{hint}"
            )
