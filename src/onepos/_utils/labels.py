"""From tags to the indicator matrix that the estimators take."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos._utils.validation import IntArray

if TYPE_CHECKING:
    import pandas as pd


def one_positive(labels: Any, classes: Iterable[Any] | None = None) -> "pd.DataFrame":
    """One observed tag per row → indicator frame: 1 where observed, 0 where unknown.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        The observed label of each row: strings, integers, anything hashable and sortable.
    classes : iterable, optional
        All label names, in the order of the columns. Without it: the sorted distinct labels. Give it
        when some labels may not occur among ``labels``.

    Returns
    -------
    pandas.DataFrame of shape (n_samples, n_labels)
        ``uint8``; the columns are the label names, the index is that of ``labels`` if it has one.

    Examples
    --------
    >>> import onepos
    >>> onepos.one_positive(["beach", "city", "beach"], classes=["beach", "city", "night"])
       beach  city  night
    0      1     0      0
    1      0     1      0
    2      1     0      0
    """
    import pandas as pd

    series = labels if isinstance(labels, pd.Series) else pd.Series(np.asarray(labels).tolist(), dtype=object)
    if np.ndim(labels) != 1:
        raise ValueError(
            f"labels must be 1-D, one observed label per row; got shape {np.shape(labels)}. "
            "An indicator matrix needs no conversion: pass it to fit as it is."
        )
    missing = np.flatnonzero(series.isna().to_numpy())
    if missing.size:
        raise ValueError(
            f"every row needs its one observed label; {missing.size} have none (first: row {missing[0]}). "
            "Drop these rows or fill in the label."
        )
    names = pd.Index(sorted(series.unique())) if classes is None else pd.Index(list(classes))
    if not names.is_unique:
        raise ValueError(f"classes must be distinct; repeated: {names[names.duplicated()].unique().tolist()}.")
    indicator, unknown = mark_labels(series, names, dtype=np.uint8)
    if unknown.size:
        raise ValueError(
            f"{unknown.size} labels are not in classes (first: {series.iloc[unknown[0]]!r} in row {unknown[0]}). "
            "Add them to classes, or correct the labels."
        )
    return pd.DataFrame(indicator, index=series.index, columns=names)


def mark_labels(
    tags: Any, names: "pd.Index[Any]", rows: IntArray | None = None, n_rows: int | None = None, *, dtype: Any = np.int8
) -> tuple[NDArray[Any], IntArray]:
    """Return an indicator with a 1 at each tag, and the positions of the tags that are not among the names.

    Parameters
    ----------
    tags : sequence of length n_tags
    names : pandas.Index
        The labels, in the order of the columns.
    rows : int array of shape (n_tags,), optional
        The row of each tag. Default: one tag per row.
    n_rows : int, optional
        Number of rows, if some of them may have no tag.
    """
    codes = names.get_indexer(tags)
    places = np.arange(len(codes)) if rows is None else rows
    indicator = np.zeros((len(codes) if n_rows is None else n_rows, len(names)), dtype=dtype)
    known = codes >= 0
    indicator[places[known], codes[known]] = 1
    return indicator, np.flatnonzero(~known)
