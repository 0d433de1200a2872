"""Reviewing suggested labels: a page for a person (``write_review``). ``decisions`` beside it reads what was decided.

The page is one HTML file. It loads and sends nothing; decisions stay in the browser until they are saved as CSV.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from os import PathLike
from os.path import relpath
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.files import write_durably
from onepos.exceptions import DataFileError
from onepos.pages.style import content_hash, render_page
from onepos.table.kinds import NUMBER, is_suggestion, require_columns
from onepos.table.tags import JOINED_BY

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from onepos.table import Completion

__all__ = ["write_review"]

# Signs that could end the element or open a comment, and those that older scripts take for the end of a line.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
#: Least probability of a suggestion, and most suggestions per row. Probabilities are stored in thousandths.
_LEAST, _MOST, _SCALE = 0.01, 20, 1000
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_DATA_IMAGE = re.compile(r"data:image/[a-z0-9.+-]+[;,]", re.IGNORECASE)
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_SHOWN = 12  # Columns of the table shown beside each row


def write_review(
    path: str | PathLike[str],
    *,
    ids: Sequence[str],
    observed: Sequence[str | Sequence[str] | None],
    labels: Sequence[str],
    probabilities: "ArrayLike",
    sets: "ArrayLike | None" = None,
    titles: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    images: Sequence[str] | None = None,
    features: pd.DataFrame | None = None,
    shown: Sequence[str] | None = None,
    title: str = "Review suggested labels",
    threshold: float | Sequence[float] = 0.5,
    only: Sequence[str] | None = None,
    names: tuple[str, str] = ("id", "tags"),
    separator: str = JOINED_BY,
) -> Path:
    """Write a page that shows each row beside its suggested labels, to be accepted or rejected one by one.

    Every text is shown as text. Decisions stay in the browser that made them, also when the page is loaded again, until
    they are saved: all of them for ``read_decisions``, and the rows with complete labels as a table.

    Parameters
    ----------
    path : str or path
        The HTML file; its folder must exist.
    ids : sequence of str
        A name for each row, by which decisions refer to it.
    observed : sequence of str, list of str, or None
        The label that each row came with, or all of them.
    labels : sequence of str
    probabilities : array of shape (n, c)
        For instance from ``predict_proba``. The page stores the 20 best of each row down to 1 %, in thousandths.
    sets : 0/1 array of shape (n, c), optional
        The labels that the model suggests for each row: marked, and accepted by the key ``a``. By default those whose
        probability reaches the threshold.
    titles, texts, images : optional
        What to show of each row. A title takes the place of the id as heading. Images are paths relative to the page,
        or ``data:`` addresses.
    features : DataFrame, optional
        The columns of the table, one row per row of the page. They are written into the file of complete rows.
    shown : sequence of str, optional
        Columns of ``features`` to show; by default the first 12 that are not the titles or texts.
    title : str
    threshold : float or one for each label
        The probability from which a label is suggested.
    only : sequence of str, optional
        Ids of the rows to show, in this order. By default all rows, those with something to accept first.
    names : pair of str
        Columns of the file of complete rows: that of ids, and that of labels, which ``separator`` joins.
    separator : str

    Returns
    -------
    Path
        The file.
    """
    ids, labels = _check_names(ids, "ids"), _check_names(labels, "labels")
    if not ids:
        raise ValueError("ids must name at least one row; got none: there is nothing to review")
    given_content: dict[str, Any] = {"titles": titles, "texts": texts, "images": images, "features": features}
    for name, values in (("observed", observed), *given_content.items()):
        if values is not None and len(values) != len(ids):
            raise ValueError(f"{name} must have one entry for each of the {len(ids)} ids; got {len(values)}")
    scores = _check_probabilities(probabilities, (len(ids), len(labels)), "probabilities")
    each = np.full(len(labels), threshold, dtype=np.float64) if np.ndim(threshold) == 0 else threshold
    thresholds = _check_probabilities(each, (len(labels),), "threshold").astype(np.float64)
    likely = scores >= thresholds.astype(scores.dtype) if sets is None else np.asarray(sets) > 0
    if likely.shape != scores.shape:
        raise ValueError(f"sets must have the shape {scores.shape}; got {likely.shape}")
    given = _number_given(observed, labels)
    rows = rows_to_show(ids, only)
    order = np.argsort(-scores, axis=1, kind="stable")  # ties stay in the order of the labels
    thousandths = scale_confidences(scores, thresholds)
    suggestions, suggested_sets = [], []
    for row in rows:
        best = [j for j in order[row].tolist() if j not in given[row]]
        shares = [(j, int(thousandths[row, j])) for j in best[:_MOST] if scores[row, j] >= _LEAST]
        suggestions.append([number for pair in shares for number in pair])
        suggested_sets.append([j for j in best if likely[row, j]])
    payload: dict[str, Any] = {
        "ids": [ids[row] for row in rows],
        "labels": labels,
        "thresholds": scale_thresholds(thresholds).tolist(),
        "given": [given[row] for row in rows],  # the numbers of the labels that each row came with
        "suggestions": suggestions,  # of each row, best first: label, thousandths, label, …
        "sets": suggested_sets,
        "ordered": only is not None,
        "saved": {"id": names[0], "label": names[1], "separator": separator},
    }
    # A pandas column is indexed by its own labels, a list is not.
    chosen = {name: [values[row] for row in rows] for name, values in _as_lists(titles, texts, images).items()}
    payload |= {name: (_image_addresses if name == "images" else _plain_texts)(chosen[name]) for name in chosen}
    if features is not None:
        payload["features"] = _feature_table(features.iloc[rows], names, shown, payload)
    return write_durably(Path(path), _render(payload, title).encode("utf-8"))


def review_page(
    completion: "Completion",
    path: Path,
    *,
    image: str | None = None,
    image_folder: str | Path = "",
    title: str | None = None,
    threshold: float | None = None,
    only: Sequence[str] | None = None,
) -> None:
    """Write the page on which a person checks suggested tags; ``image`` and ``title`` are columns of the table.

    Names of pictures begin in ``image_folder``, and may not leave it. ``only`` has ids of rows, in their order.
    """
    model, (written, text, shown) = completion.model, what_to_show(completion, image, title)
    names = (model.id_ or "row number", model.label_ or "tags")
    kept = [name for name in written if name not in names and not is_suggestion(str(name), completion.data.frame[name])]
    sets = [set(tags.split(completion.separator)) for tags in completion.suggested]
    titles, texts, images = (written[name].tolist() if name else None for name in (title, text, image))
    path.parent.mkdir(parents=True, exist_ok=True)
    if images is not None:
        from_page = Path(relpath(Path(image_folder).resolve(), path.parent.resolve()))
        images = [picture_path(from_page, name) for name in images]
    write_review(
        path,
        ids=completion.ids(),
        observed=completion.observed(),
        labels=model.labels_,
        probabilities=completion.probabilities.to_numpy(),
        sets=[[label in tags for label in model.labels_] for tags in sets],
        titles=titles,
        texts=texts,
        images=images,
        features=written[kept],
        shown=shown,
        threshold=model.thresholds_ if threshold is None else threshold,
        only=only,
        names=names,
        separator=completion.separator,
    )


def what_to_show(
    completion: "Completion", image: str | None, title: str | None
) -> tuple[pd.DataFrame, str | None, list[str]]:
    """Return the cells as they stand in the file, the column of longest texts, and the other columns for a person."""
    frame, encoder = completion.data.frame, completion.model.encoder_
    require_columns(frame, [image] if image else [], "image")
    require_columns(frame, [title] if title else [], "title")
    words = [name for name in encoder.text if name != title]
    text = max(words, key=lambda name: frame[name].astype(str).str.len().mean(), default=None)
    kinds = {name: kind for name, kind in encoder.kinds_.items() if name not in (text, title, image)}
    # Many numbers, such as pixels, tell a person nothing.
    few = sum(kind == NUMBER for kind in kinds.values()) <= _SHOWN
    shown = [name for name, kind in kinds.items() if few or kind != NUMBER][:_SHOWN]
    return frame if completion.data.as_written is None else completion.data.as_written, text, shown


def _as_lists(*values: Sequence[Any] | None) -> dict[str, list[Any]]:
    """Return what there is of titles, texts and images."""
    named = zip(("titles", "texts", "images"), values, strict=True)
    return {name: list(one) for name, one in named if one is not None}


def rows_to_show(ids: list[str], only: Sequence[str] | None) -> list[int]:
    """Return the numbers of the rows to show, in their order."""
    if only is None:
        return list(range(len(ids)))
    places = {name: place for place, name in enumerate(ids)}
    missing = [name for name in only if name not in places]
    if missing or not len(only):
        what = f"got {missing[0]!r}, which is none of them" if missing else "got none"
        raise ValueError(f"only must name rows by their ids, such as {ids[0]!r}; {what}")
    return [places[name] for name in dict.fromkeys(only)]


def picture_path(folder: Path, name: Any) -> Any:
    """Return the name of a picture as a path that begins with its folder; names that leave that folder are an error."""
    if not isinstance(name, str) or not name or name.startswith("data:"):
        return name
    if ".." in Path(name.replace("\\", "/")).parts:
        raise DataFileError(f"the picture {name[:80]!r} is outside of the table's folder. Put it into that folder.")
    return name if Path(name).is_absolute() else (folder / name).as_posix()  # the page refuses absolute paths


def _render(payload: Mapping[str, Any], title: str) -> str:
    # Nothing in the data can end the script element, whatever the texts say.
    content = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)
    style = (files("onepos.pages") / "templates" / "review.css").read_text(encoding="utf-8")
    return render_page(
        "review",
        "writing the review page",
        title=title.encode("utf-8", "replace").decode("utf-8"),
        style=style,
        style_hash=content_hash(style),
        image_files=any(image and not image.startswith("data:") for image in payload.get("images", ())),
        data=content,
        # Decisions are stored under this name: another page with other data has another one.
        fingerprint=sha256(content.encode("utf-8")).hexdigest()[:20],
        n_rows=len(payload["ids"]),
        ordered=payload["ordered"],
    )


def _check_probabilities(values: "ArrayLike", shape: tuple[int, ...], what: str) -> NDArray[np.floating[Any]]:
    """Return probabilities as an array of floats, in their own precision."""
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if array.shape != shape:
        raise ValueError(f"{what} must have the shape {shape}; got {array.shape}")
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise ValueError(f"{what} must lie between 0 and 1; got {array[bad][0]} at {np.argwhere(bad)[0].tolist()}")
    return array


def _check_names(values: Sequence[str], what: str) -> list[str]:
    """Return ids or labels as a list: text, none empty, none twice, all of which a CSV file in UTF-8 can hold."""
    seen: dict[str, int] = {}
    for place, name in enumerate(values):
        if not isinstance(name, str) or not name or _HALF_CHARACTER.search(name):
            raise ValueError(f"{what} must be non-empty strings of valid Unicode; got {name!r} at {place}")
        if name in seen:
            raise ValueError(f"{what} must be unique; {name!r} is at {seen[name]} and at {place}")
        seen[name] = place
    return list(seen)


def _number_given(observed: Sequence[str | Sequence[str] | None], labels: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the labels that each row came with."""
    numbers = {label: number for number, label in enumerate(labels)}
    given = []
    for place, tags in enumerate(observed):
        each = [] if _is_missing(tags) else [tags] if isinstance(tags, str) else list(tags)  # type: ignore[arg-type]
        unknown = [tag for tag in each if tag not in numbers]
        if unknown:
            raise ValueError(f"observed must name labels or be None; got {unknown[0]!r} at {place}")
        given.append([numbers[tag] for tag in each])
    return given


def _plain_texts(texts: Sequence[Any]) -> list[str]:
    """Return the texts; what is missing is empty, what is no Unicode is replaced by the sign for that."""
    words = ["" if _is_missing(text) else str(text) for text in texts]
    return [word.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for word in words]


def _image_addresses(images: Sequence[Any]) -> list[str]:
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


def _feature_table(
    features: pd.DataFrame, names: tuple[str, str], shown: Sequence[str] | None, payload: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns with their cells as text, and which of them to show.

    Titles and texts that are a column become its number in ``payload``: the page stores them once.
    """
    columns = _plain_texts(list(features.columns))
    clash = {*names} & {*columns}
    if clash or len({*columns}) < len(columns):
        what = f"{sorted(clash)[0]!r} is also a name of the file of complete rows" if clash else "one is there twice"
        raise ValueError(f"columns of features must be distinct, and not {names}: {what}. Rename or drop it.")
    cells = [_plain_texts(features.iloc[:, place].tolist()) for place in range(len(columns))]
    for name in ("titles", "texts"):
        if payload.get(name) in cells:
            payload[name] = cells.index(payload[name])
    used = (payload.get("titles"), payload.get("texts"))
    others = [place for place in range(len(columns)) if place not in used]
    places = others[:_SHOWN] if shown is None else [columns.index(name) for name in shown]
    return {"names": columns, "shown": places, "rows": [list(row) for row in zip(*cells, strict=True)]}


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def scale_thresholds(thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the least whole number of thousandths that reaches each threshold."""
    # Rounded first: 0.1 + 0.2 is meant as 300 thousandths, not as the next one above.
    return np.ceil(np.round(_SCALE * thresholds, 6)).astype(np.int64)


def scale_confidences(probabilities: NDArray[np.floating], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to thousandths, but never across the threshold: the page compares the rounded numbers."""
    limits = scale_thresholds(thresholds)
    rounded = np.rint(_SCALE * probabilities.astype(np.float64)).astype(np.int64)
    # Compared in the probabilities' own precision, as ``probabilities >= 0.7`` does.
    above = probabilities >= thresholds.astype(probabilities.dtype)
    return np.where(above, np.maximum(rounded, limits), np.minimum(rounded, limits - 1))
