"""From cells to tags, and from tags to the indicator matrix that the estimators take."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos._utils.context import warn
from onepos._utils.validation import IntArray
from onepos.exceptions import DataFileError, LabelWarning

if TYPE_CHECKING:
    import pandas as pd

# Zero-width space, word joiner, byte-order mark, soft hyphen, marks of direction. The two joiners shape letters in some
# scripts and make one emoji of several: they are removed only at the ends and beside Latin characters.
_INVISIBLE = re.compile(
    "[\u200b\u2060\ufeff\u00ad\u200e\u200f]|^[\u200c\u200d]+|[\u200c\u200d]+$"
    "|(?<=[\u0001-\u024f])[\u200c\u200d]+|[\u200c\u200d]+(?=[\u0001-\u024f])"
)


def cell_text(value: Any) -> str:
    """Return a cell that is not missing as the text of a tag, an id or a category, without blanks around it.

    Whole numbers have no decimal point, whatever their type: pandas reads integers with a gap as floating point.
    """
    if isinstance(value, float | np.floating) and value % 1 == 0:
        value = int(value)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)  # a remainder would fail beyond 28 digits
    return str(value).strip()


def normal_tag(tag: Any) -> Any:
    """Return a tag in the one form that equal-looking spellings share: NFC, trimmed, without invisible characters."""
    if not isinstance(tag, str):
        return tag
    return tag.strip() if tag.isascii() else unicodedata.normalize("NFC", _INVISIBLE.sub("", tag)).strip()


def distinct_labels(tags: Iterable[Any], stacklevel: int) -> list[Any]:
    """Return the distinct labels, sorted; warn if several spellings are one label."""
    written, spellings = dict.fromkeys(tags), dict[Any, list[Any]]()
    for tag in written:
        spellings.setdefault(normal_tag(tag), []).append(tag)
    if len(spellings) < len(written):
        several = [group for group in spellings.values() if len(group) > 1]
        shown = "; ".join(" = ".join(map(ascii, group[:3])) for group in several[:3])
        warn(
            f"{len(several):,} of {len(spellings):,} labels come in several spellings that look the same ({shown}"
            f"{'; …' if len(several) > 3 else ''}); each counts as one label.",
            LabelWarning,
            stacklevel=stacklevel + 1,
        )
    return sorted(spellings)


def one_positive(labels: Any, classes: Iterable[Any] | None = None) -> "pd.DataFrame":
    """One observed tag per row → indicator frame: 1 where observed, 0 where unknown.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        The observed label of each row: strings, integers, anything hashable and sortable. Strings that look the same
        (Unicode normalisation, invisible characters, blanks around them) are one label, and a warning says so.
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
    names = pd.Index(distinct_labels(series, stacklevel=2) if classes is None else list(classes))
    if not names.is_unique:
        raise ValueError(f"classes must be distinct; repeated: {names[names.duplicated()].unique().tolist()}.")
    codes = label_codes(series, names)
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        raise ValueError(
            f"{unknown.size} labels are not in classes (first: {series.iloc[unknown[0]]!r} in row {unknown[0]}). "
            "Add them to classes, or correct the labels."
        )
    indicator = np.zeros((len(codes), len(names)), dtype=np.uint8)
    indicator[np.arange(len(codes)), codes] = 1
    return pd.DataFrame(indicator, index=series.index, columns=names)


def label_codes(tags: Any, names: "pd.Index[Any]") -> IntArray:
    """Return the place of each tag among the names, −1 without one."""
    import pandas as pd

    normal = pd.Index(list(map(normal_tag, names)), dtype=names.dtype)
    return (normal if normal.is_unique else names).get_indexer(pd.Index(list(map(normal_tag, tags))))


def check_distinct(names: Sequence[str], where: str = "", what: str = "column") -> None:
    """Raise DataFileError if names of columns, features or labels are repeated."""
    if len(set(names)) < len(names):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        shown = ", ".join(map(repr, twice[:5]))
        raise DataFileError(f"{where}{where and ': '}{what} names must be distinct; {shown} come twice: rename.")
