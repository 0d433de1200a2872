"""Which columns hold the labels of a training table, and what they say."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from onepos.columns.decisions import apply_decisions, row_ids
from onepos.columns.encoder import shorten
from onepos.columns.tags import joined_tags, tag_indicator
from onepos.exceptions import DataFileError, LabelWarning

if TYPE_CHECKING:
    import pandas as pd


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
