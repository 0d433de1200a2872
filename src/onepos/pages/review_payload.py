"""What a review page shows, checked and turned into plain values."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit, logit

if TYPE_CHECKING:
    import pandas as pd

#: Least probability of a suggestion, and most suggestions per example.
LEAST, MOST = 0.01, 20

#: Confidences are stored in thousandths: three digits.
SCALE = 1000


def check_probabilities(probabilities: ArrayLike, n_examples: int, n_labels: int) -> NDArray[np.floating]:
    """Return the probabilities as an array of floats, or say what is wrong with them."""
    array = np.asarray(probabilities)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if array.shape != (n_examples, n_labels):
        raise ValueError(f"probabilities must have the shape ({n_examples}, {n_labels}); got {array.shape}")
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"probabilities must lie between 0 and 1; got {array[row, column]} at [{row}, {column}]")
    return array


def check_thresholds(threshold: float | Sequence[float], n_labels: int) -> NDArray[np.float64]:
    """Return one threshold for each label."""
    array = np.asarray(threshold, dtype=np.float64)
    if array.shape not in ((), (n_labels,)):
        raise ValueError(f"threshold must be one number or one for each of {n_labels} labels; got {array.shape}")
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"threshold must lie between 0 and 1; got {threshold}")
    return np.broadcast_to(array, (n_labels,))


def scale_thresholds(thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the least whole number of thousandths that reaches each threshold."""
    # Rounded first: 0.1 + 0.2 is meant as 300 thousandths, not as the next one above.
    return np.ceil(np.round(SCALE * thresholds, 6)).astype(np.int64)


def scale_confidences(probabilities: NDArray[np.floating], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to thousandths, but never across the threshold: the page compares the rounded numbers."""
    limits = scale_thresholds(thresholds)
    rounded = np.rint(SCALE * probabilities.astype(np.float64)).astype(np.int64)
    # Compared in the probabilities' own precision, as ``probabilities >= 0.7`` does.
    above = probabilities >= thresholds.astype(probabilities.dtype)
    return np.where(above, np.maximum(rounded, limits), np.minimum(rounded, limits - 1))


def suggest(
    probabilities: NDArray[np.floating], thresholds: NDArray[np.float64], given: NDArray[np.int64]
) -> list[list[int]]:
    """Return each example's suggestions but the given label, best first: ``[label, thousandths, label, …]``."""
    confidences = scale_confidences(probabilities, thresholds)
    # Ties stay in the order of the labels.
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, : MOST + 1]
    result = []
    for row, columns in enumerate(best):
        wanted = columns[(columns != given[row]) & (probabilities[row, columns] >= LEAST)][:MOST]
        result.append(np.column_stack((wanted, confidences[row, wanted])).ravel().tolist())
    return result


def informativeness(
    probabilities: NDArray[np.floating], thresholds: NDArray[np.float64], given: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how many bits a person's decisions about each example are worth.

    The entropies of its labels, the given one left out, are added. Each probability is moved so that its threshold
    becomes ½: the model is least sure there.
    """
    levels, cuts = (np.clip(values, 1e-6, 1 - 1e-6) for values in (probabilities.astype(np.float64), thresholds))
    p = expit(logit(levels) - logit(cuts))
    bits = (entr(p) + entr(1 - p)) / np.log(2)
    known = np.flatnonzero(given >= 0)
    bits[known, given[known]] = 0.0
    return np.asarray(bits.sum(axis=1))


def most_informative(worth: NDArray[np.float64], limit: int | None) -> NDArray[np.int64]:
    """Return which examples to show, in their order: with a limit, the most informative ones."""
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1; got {limit}")
    return np.sort(np.argsort(-worth, kind="stable")[:limit])


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_DATA_IMAGE = re.compile(r"data:image/[a-z0-9.+-]+[;,]", re.IGNORECASE)


def check_names(values: Sequence[str], what: str) -> list[str]:
    """Return ids or labels as a list: text, none empty, none twice, all of which a CSV file in UTF-8 can hold."""
    names = list(values)
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(f"{what} must be non-empty strings; got {name!r} at {place}")
        if _HALF_CHARACTER.search(name):
            raise ValueError(f"{what} must be valid Unicode; got {name!r} at {place}, which no UTF-8 file can hold")
        if name in seen:
            raise ValueError(f"{what} must be unique; {name!r} is at {seen[name]} and at {place}")
        seen[name] = place
    return names


def number_given(observed: Sequence[str | None], labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of each example's observed label, -1 where there is none."""
    numbers = {label: number for number, label in enumerate(labels)}
    result = []
    for place, label in enumerate(observed):
        if label is None or _is_missing(label):
            result.append(-1)
        elif label in numbers:
            result.append(numbers[label])
        else:
            raise ValueError(f"observed must name one of the labels or be None; got {label!r} at {place}")
    return np.array(result, dtype=np.int64)


def plain_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts; what is missing is empty, what is no Unicode is replaced by the sign for that."""
    result = []
    for place, text in enumerate(texts):
        if _is_missing(text):
            result.append("")
        elif isinstance(text, str):
            result.append(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        else:
            raise ValueError(f"texts must be strings; got {text!r} at {place}")
    return result


def image_addresses(images: Sequence[Any]) -> list[str]:
    """Return what the page asks its browser for: a path relative to the page, quoted, or a ``data:`` address."""
    addresses = []
    for place, image in enumerate(images):
        path = "" if _is_missing(image) else image.as_posix() if isinstance(image, PurePath) else image
        if not isinstance(path, str):
            raise ValueError(f"images must be paths or data: addresses; got {image!r} at {place}")
        embedded = _DATA_IMAGE.match(path)
        # A drive letter looks like a scheme; both are refused.
        if not embedded and (_SCHEME.match(path) or path.startswith(("/", "\\"))):
            raise ValueError(
                f"images must be paths relative to the page or data:image/ addresses; got {path[:80]!r} at {place}: "
                "the page loads nothing from elsewhere"
            )
        addresses.append(path if embedded else quote(path, errors="surrogateescape"))
    return addresses


def feature_table(features: "pd.DataFrame") -> dict[str, Any]:
    """Return the names of the columns and, for each example, their values as text."""
    columns = [[_cell(value) for value in features.iloc[:, place].tolist()] for place in range(features.shape[1])]
    names = plain_texts([str(name) for name in features.columns])
    return {"names": names, "rows": [list(row) for row in zip(*columns, strict=True)]}


def _cell(value: Any) -> str:
    if _is_missing(value):
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return plain_texts([str(value)])[0]


def _is_missing(value: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_scalar(value) and pd.isna(value))
