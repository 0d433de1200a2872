"""A reviewer's decisions: extra positives and known negatives for rows of the table."""

from typing import TYPE_CHECKING, Any

import numpy as np

from onepos.exceptions import DataFileError
from onepos.table.kinds import as_words

if TYPE_CHECKING:
    import pandas as pd


_VALUES = {"accept": 1, "reject": -1}


def row_ids(frame: "pd.DataFrame", column: str | None) -> "pd.Index[Any]":
    """Return the id of each row as text: its cell in ``column``, or without such a column its number from 1 on."""
    import pandas as pd

    if column is None:
        return pd.Index([str(number) for number in range(1, len(frame) + 1)])
    ids: pd.Index[Any] = pd.Index(as_words(frame[column]))
    if ids.hasnans:
        raise DataFileError(f"id column {column!r} is empty in row {int(np.flatnonzero(ids.isna())[0])}. Fill it in.")
    if not ids.is_unique:
        raise DataFileError(
            f"ids must be distinct; {ids[ids.duplicated()][0]!r} comes twice in column {column!r}. Name another "
            "column, or none to have rows numbered."
        )
    return ids


def apply_decisions(
    indicator: "pd.DataFrame", ids: "pd.Index[Any]", decisions: "pd.DataFrame"
) -> tuple["pd.DataFrame", dict[str, int]]:
    """Return the indicator with 1 where a label was accepted and −1 where it was rejected, and how many of each.

    Parameters
    ----------
    indicator : DataFrame of shape (n_samples, n_labels)
        Observed labels; not changed.
    ids : Index of shape (n_samples,)
        The id of each row, as from ``row_ids``.
    decisions : DataFrame
        As from ``read_decisions``: columns id, label and decision ("accept" or "reject"). Those on rows
        that are not in the table are counted and left.

    Examples
    --------
    >>> import pandas as pd
    >>> observed = pd.DataFrame({"sea": [1], "sun": [0]})
    >>> decided = pd.DataFrame({"id": ["a"], "label": ["sun"], "decision": ["accept"]})
    >>> apply_decisions(observed, pd.Index(["a"]), decided)[0].to_numpy().tolist()
    [[1, 1]]
    """
    import pandas as pd

    missing = [name for name in ("id", "label", "decision") if name not in decisions.columns]
    if missing:
        raise DataFileError(f"decisions need the columns id, label and decision; {missing[0]!r} is not there.")
    names, tags, verdicts = (as_words(decisions[name]) for name in ("id", "label", "decision"))
    _check(verdicts, set(_VALUES), "a decision is accept or reject")
    labels = pd.Index([str(name) for name in indicator.columns])
    _check(tags, set(labels), "decisions must name labels of the table")
    rows, columns = ids.get_indexer(pd.Index(names)), labels.get_indexer(pd.Index(tags))
    if len(rows) and (rows < 0).all():
        raise DataFileError(
            f"no decision is about a row of the table: {names[0]!r} and all others are none of its ids (the first is "
            f"{ids[0]!r}). Do both files belong together, and is the id column the same?"
        )
    values = indicator.to_numpy(dtype=np.int8).copy()
    here = rows >= 0
    values[rows[here], columns[here]] = [_VALUES[verdict] for verdict in verdicts[here]]
    counts = {
        "accepted": int((verdicts[here] == "accept").sum()),
        "rejected": int((verdicts[here] == "reject").sum()),
        "elsewhere": int((~here).sum()),
    }
    return pd.DataFrame(values, columns=indicator.columns, index=indicator.index), counts


def _check(found: Any, known: set[str], what: str) -> None:
    wrong = [word for word in found if word not in known]
    if wrong:
        raise DataFileError(f"{what}; got {wrong[0]!r}. Correct it.")
