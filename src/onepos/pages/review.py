"""Reviewing suggested labels: a page for a person (``write_review``), and what the person decided (``read_decisions``).

The page is one HTML file. It loads and sends nothing; decisions stay in the browser until they are saved as CSV.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
from scipy.special import entr, expit, logit

from onepos._utils.files import write_durably
from onepos.exceptions import DataFileError
from onepos.pages.style import content_hash, load_templates
from onepos.table.kinds import require_columns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from onepos.table import Completion

__all__ = ["read_decisions", "write_review"]

#: Joined in this order to one script; each may use what stands before it, and at run time what comes after.
_SCRIPTS = ("data", "decisions", "csv", "view", "list", "pane", "suggestions", "actions", "keys", "start")
_STYLES = ("tokens", "layout", "parts")
# Signs that could end the element or open a comment, and those that older scripts take for the end of a line.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
#: Least probability of a suggestion, and most suggestions per example. Probabilities are stored in thousandths.
_LEAST, _MOST, _SCALE = 0.01, 20, 1000
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_DATA_IMAGE = re.compile(r"data:image/[a-z0-9.+-]+[;,]", re.IGNORECASE)
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
#: Columns of the table shown beside each row.
_SHOWN_COLUMNS = 12
COLUMNS = ("id", "label", "decision")
DECISIONS = ("accept", "reject")


def write_review(
    path: str | PathLike[str],
    *,
    ids: Sequence[str],
    observed: Sequence[str | None],
    labels: Sequence[str],
    probabilities: "ArrayLike",
    sets: "ArrayLike | None" = None,
    titles: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    images: Sequence[str] | None = None,
    features: pd.DataFrame | None = None,
    title: str = "Review suggested labels",
    threshold: float | Sequence[float] = 0.5,
    limit: int | None = None,
) -> Path:
    """Write a page that shows each example beside its suggested labels, to be accepted or rejected one by one.

    Every text is shown as text. Decisions stay in the browser that made them, also when the page is loaded again, until
    they are saved as CSV for ``read_decisions``.

    Parameters
    ----------
    path : str or path
        The HTML file; its folder must exist.
    ids : sequence of str
        A name for each example, by which decisions refer to it.
    observed : sequence of str or None
        The one label that each example came with.
    labels : sequence of str
    probabilities : array of shape (n, c)
        For instance from ``predict_proba``. The page stores the 20 best of each example down to 1 %, in thousandths.
    sets : 0/1 array of shape (n, c), optional
        The labels that the model puts into the set of each example: marked, and accepted by the key ``a``. By default
        those whose probability reaches the threshold.
    titles, texts, images, features : optional
        What to show of each example. A title takes the place of the id as heading. Images are paths relative to the
        page, or ``data:`` addresses. Features are a frame with one row per example.
    title : str
    threshold : float or one for each label
        The probability from which a label belongs to the set. Near it the model is least sure.
    limit : int, optional
        Show only this many examples: those about which a decision tells most. The page lists them first in any case.

    Returns
    -------
    Path
        The file.
    """
    ids, labels = _check_names(ids, "ids"), _check_names(labels, "labels")
    if not ids:
        raise ValueError("ids must name at least one example; got none: there is nothing to review")
    shown: dict[str, Any] = {"titles": titles, "texts": texts, "images": images, "features": features}
    for name, values in (("observed", observed), *shown.items()):
        if values is not None and len(values) != len(ids):
            raise ValueError(f"{name} must have one entry for each of the {len(ids)} ids; got {len(values)}")
    scores = _check_probabilities(probabilities, (len(ids), len(labels)), "probabilities")
    each = np.full(len(labels), threshold, dtype=np.float64) if np.ndim(threshold) == 0 else threshold
    thresholds = _check_probabilities(each, (len(labels),), "threshold").astype(np.float64)
    likely = scores >= thresholds.astype(scores.dtype) if sets is None else np.asarray(sets) > 0
    if likely.shape != scores.shape:
        raise ValueError(f"sets must have the shape {scores.shape}; got {likely.shape}")
    given = _number_given(observed, labels)
    worth = informativeness(scores, thresholds, given)
    rows = most_informative(worth, limit)
    order = np.argsort(-scores, axis=1, kind="stable")  # ties stay in the order of the labels
    thousandths = scale_confidences(scores, thresholds)
    suggestions, suggested_sets = [], []
    for row in rows:
        best = [j for j in order[row].tolist() if j != given[row]]
        shares = [(j, int(thousandths[row, j])) for j in best[:_MOST] if scores[row, j] >= _LEAST]
        suggestions.append([number for pair in shares for number in pair])
        suggested_sets.append([j for j in best if likely[row, j]])
    payload: dict[str, Any] = {
        "ids": [ids[row] for row in rows],
        "labels": labels,
        "thresholds": scale_thresholds(thresholds).tolist(),
        # The number of the observed label, or -1.
        "given": given[rows].tolist(),
        "suggestions": suggestions,  # of each example, best first: label, thousandths, label, …
        "sets": suggested_sets,
        # In thousandths of a bit.
        "worth": np.rint(_SCALE * worth[rows]).astype(np.int64).tolist(),
    }
    for name in ("titles", "texts", "images"):
        if shown[name] is not None:
            convert = _image_addresses if name == "images" else _plain_texts
            values = list(shown[name])  # a pandas column is indexed by its own labels, a list is not
            payload[name] = convert([values[row] for row in rows])
    if features is not None:
        payload["features"] = _feature_table(features.iloc[rows])
    return write_durably(Path(path), _render(payload, title).encode("utf-8"))


def review_page(
    completion: "Completion",
    path: Path,
    *,
    image: str | None = None,
    image_folder: str | Path = "",
    title: str | None = None,
    threshold: float | None = None,
) -> None:
    """Write the page on which a person checks suggested tags; ``image`` and ``title`` are columns of the table.

    Names of pictures begin in ``image_folder``, and may not leave it.
    """
    frame, model = completion.data.frame, completion.model
    require_columns(frame, [image] if image else [], "image")
    require_columns(frame, [title] if title else [], "title")
    text = model.encoder_.text[0] if model.encoder_.text else None
    shown = [name for name in model.encoder_.kinds_ if name not in (text, title)][:_SHOWN_COLUMNS]
    sets = [set(tags.split(completion.separator)) for tags in completion.suggested]
    titles, texts, images = (frame[name].tolist() if name else None for name in (title, text, image))
    path.parent.mkdir(parents=True, exist_ok=True)
    if images is not None:
        from_page = Path(relpath(Path(image_folder).resolve(), path.parent.resolve()))
        images = [_seen_from(from_page, name) for name in images]
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
        features=frame[shown] if shown else None,
        threshold=model.thresholds_ if threshold is None else threshold,
    )


def _seen_from(folder: Path, name: Any) -> Any:
    """Return the name of a picture as a path from the page; names that leave the folder of pictures are an error."""
    if not isinstance(name, str) or not name or name.startswith("data:"):
        return name
    if ".." in Path(name.replace("\\", "/")).parts:
        raise DataFileError(f"the picture {name[:80]!r} is outside of the table's folder. Put it into that folder.")
    return name if Path(name).is_absolute() else (folder / name).as_posix()  # the page refuses absolute paths


def _render(payload: Mapping[str, Any], title: str) -> str:
    script = "\n".join(['"use strict";', "(() => {", *(_part(f"{name}.js") for name in _SCRIPTS), "})();"])
    style = "\n".join(_part(f"{name}.css") for name in _STYLES)
    # Nothing in the data can end the script element, whatever the texts say.
    content = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)
    template = load_templates("writing the review page").get_template("review/review.html.j2")
    return str(
        template.render(
            title=title.encode("utf-8", "replace").decode("utf-8"),
            script=script,
            script_hash=content_hash(script),
            style=style,
            style_hash=content_hash(style),
            image_files=any(image and not image.startswith("data:") for image in payload.get("images", ())),
            data=content,
            # Decisions are stored under this name: another page with other data has another one.
            fingerprint=sha256(content.encode("utf-8")).hexdigest()[:20],
            n_examples=len(payload["ids"]),
        )
    )


def _part(name: str) -> str:
    return (files("onepos.pages") / "templates" / "review" / name).read_text(encoding="utf-8")


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


def _number_given(observed: Sequence[str | None], labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of each example's observed label, -1 where there is none."""
    numbers: dict[str | None, int] = {label: number for number, label in enumerate(labels)}
    for place, label in enumerate(observed):
        if label not in numbers and not (label is None or _is_missing(label)):
            raise ValueError(f"observed must name one of the labels or be None; got {label!r} at {place}")
    return np.array([numbers.get(label, -1) for label in observed], dtype=np.int64)


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


def _feature_table(features: pd.DataFrame) -> dict[str, Any]:
    """Return the names of the columns and, for each example, their values as text."""
    columns = [
        _plain_texts([f"{value:.6g}" if isinstance(value, float) and value == value else value for value in values])
        for values in (features.iloc[:, place].tolist() for place in range(features.shape[1]))
    ]
    return {"names": _plain_texts(list(features.columns)), "rows": [list(row) for row in zip(*columns, strict=True)]}


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


def read_decisions(path: str | PathLike[str]) -> pd.DataFrame:
    """Read the decisions that a review page saved, a CSV file in UTF-8 with the header ``id,label,decision``.

    Ids and labels are taken as they are: text, with every blank and every leading zero. The frame has one row for each
    id and label; where a pair comes more than once, its last row counts. A decision is ``"accept"`` or ``"reject"``. A
    file that is not of this form raises DataFileError, a ValueError that names the line.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: expected UTF-8; byte {error.start} is not: save the file as CSV UTF-8") from error
    frame = pd.DataFrame(_rows(path, text), columns=list(COLUMNS), dtype=str)
    return frame.drop_duplicates(["id", "label"], keep="last", ignore_index=True)


def _rows(path: Path, text: str) -> Iterator[list[str]]:
    """Yield the decisions; errors name the line on which the record starts, as a quoted field may span several."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = ",".join(COLUMNS)
    while True:
        first, place = reader.line_num == 0, f"{path}, line {reader.line_num + 1}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise DataFileError(f"{place}: {error}") from error
        if first and fields != list(COLUMNS):
            raise DataFileError(f"{place}: expected the header {header}; got {fields or 'an empty line or file'}")
        if fields is None:
            return
        if fields and not first:
            if len(fields) != len(COLUMNS) or not all(fields) or fields[2] not in DECISIONS:
                raise DataFileError(f"{place}: expected an id, a label, and accept or reject; got {fields}")
            yield fields
