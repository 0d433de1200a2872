"""What is shown of an example: checked, and turned into plain strings."""

import re
from collections.abc import Sequence, Sized
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import pandas as pd

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_DATA_IMAGE = re.compile(r"data:image/[a-z0-9.+-]+[;,]", re.IGNORECASE)


def check_names(values: Sequence[str], what: str) -> list[str]:
    """Return ids or labels as a list: text, none empty, none twice, all of which a CSV file in UTF-8 can hold."""
    names = list(values)
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(f"{what} must be non-empty strings; got {name!r} at {place}")
        if not _is_unicode(name):
            raise ValueError(f"{what} must be valid Unicode; got {name!r} at {place}, which no UTF-8 file can hold")
        if name in seen:
            raise ValueError(f"{what} must be unique; {name!r} is at {seen[name]} and at {place}")
        seen[name] = place
    return names


def check_length(values: Sized, n_examples: int, what: str) -> None:
    """Refuse what does not have one entry for each id."""
    if len(values) != n_examples:
        raise ValueError(f"{what} must have one entry for each of the {n_examples} ids; got {len(values)}")


def number_given(observed: Sequence[str | None], labels: Sequence[str]) -> list[int]:
    """Return the number of each example's observed label, -1 where there is none."""
    numbers = {label: number for number, label in enumerate(labels)}
    result = []
    for place, label in enumerate(observed):
        if _is_missing(label):
            result.append(-1)
        elif label in numbers:
            result.append(numbers[label])
        else:
            raise ValueError(f"observed must name one of the labels or be None; got {label!r} at {place}")
    return result


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


def image_addresses(images: Sequence[str]) -> list[str]:
    """Return what the page asks its browser for: a path relative to the page, quoted, or a ``data:`` address."""
    return ["" if _is_missing(image) else _image_address(image, place) for place, image in enumerate(images)]


def _image_address(image: str | PurePath, place: int) -> str:
    path = image.as_posix() if isinstance(image, PurePath) else image
    if not isinstance(path, str):
        raise ValueError(f"images must be paths or data: addresses; got {image!r} at {place}")
    if _DATA_IMAGE.match(path):
        return path
    # A drive letter looks like a scheme; both are refused.
    if _SCHEME.match(path) or path.startswith(("/", "\\")):
        raise ValueError(
            f"images must be paths relative to the page or data:image/ addresses; got {path[:80]!r} at {place}: "
            "the page loads nothing from elsewhere"
        )
    return quote(path, errors="surrogateescape")


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


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
