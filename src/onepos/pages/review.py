"""Reviewing suggested labels: a page for a person (``write_review``), and what the person decided (``read_decisions``).

The page is one HTML file. It loads and sends nothing; decisions stay in the browser until they are saved as CSV.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos._utils.files import write_durably
from onepos.exceptions import DataFileError
from onepos.pages import review_payload
from onepos.pages.style import content_hash, load_templates

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

__all__ = ["read_decisions", "write_review"]

#: Joined in this order to one script; each may use what stands before it, and at run time what comes after.
_SCRIPTS = ("data", "decisions", "csv", "view", "list", "pane", "suggestions", "actions", "keys", "start")
_STYLES = ("tokens", "layout", "parts")
# Signs that could end the element or open a comment, and those that older scripts take for the end of a line.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


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
    features: "pd.DataFrame | None" = None,
    title: str = "Review suggested labels",
    threshold: float | Sequence[float] = 0.5,
    limit: int | None = None,
) -> Path:
    """Write a page that shows each example beside its suggested labels, to be accepted or rejected one by one.

    The page needs no other file, but for pictures given by path, and no network. Every text is shown as text. Decisions
    stay in the browser that made them, also when the page is loaded again, until they are saved as CSV for
    ``read_decisions``.

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
        What to show of each example; several may be given. A title takes the place of the id as heading. Images are
        paths relative to the page, or ``data:`` addresses. Features are a frame with one row per example, in the same
        order.
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
    ids, labels = review_payload.check_names(ids, "ids"), review_payload.check_names(labels, "labels")
    if not ids:
        raise ValueError("ids must name at least one example; got none: there is nothing to review")
    shown: dict[str, Any] = {"titles": titles, "texts": texts, "images": images, "features": features}
    for name, values in (("observed", observed), *shown.items()):
        if values is not None and len(values) != len(ids):
            raise ValueError(f"{name} must have one entry for each of the {len(ids)} ids; got {len(values)}")
    scores = review_payload.check_probabilities(probabilities, len(ids), len(labels))
    thresholds = review_payload.check_thresholds(threshold, len(labels))
    likely = scores >= thresholds.astype(scores.dtype) if sets is None else np.asarray(sets) > 0
    if likely.shape != scores.shape:
        raise ValueError(f"sets must have the shape {scores.shape}; got {likely.shape}")
    given = review_payload.number_given(observed, labels)
    worth = review_payload.informativeness(scores, thresholds, given)
    rows = review_payload.most_informative(worth, limit)
    order = np.argsort(-scores, axis=1, kind="stable")
    payload: dict[str, Any] = {
        "ids": [ids[row] for row in rows],
        "labels": labels,
        # In thousandths, as all probabilities of the page.
        "thresholds": review_payload.scale_thresholds(thresholds).tolist(),
        # The number of the observed label, or -1.
        "given": given[rows].tolist(),
        "suggestions": review_payload.suggest(scores[rows], thresholds, given[rows]),
        # The numbers of the labels in each set, best first, without the given one.
        "sets": [[j for j in order[row].tolist() if likely[row, j] and j != given[row]] for row in rows],
        # In thousandths of a bit.
        "worth": np.rint(review_payload.SCALE * worth[rows]).astype(np.int64).tolist(),
    }
    for name in ("titles", "texts", "images"):
        if shown[name] is not None:
            convert = review_payload.image_addresses if name == "images" else review_payload.plain_texts
            values = list(shown[name])  # a pandas column is indexed by its own labels, a list is not
            payload[name] = convert([values[row] for row in rows])
    if features is not None:
        payload["features"] = review_payload.feature_table(features.iloc[rows])
    return write_durably(Path(path), _render(payload, title).encode("utf-8"))


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


COLUMNS = ("id", "label", "decision")
DECISIONS = ("accept", "reject")


def read_decisions(path: str | PathLike[str]) -> "pd.DataFrame":
    """Read the decisions that a review page saved, a CSV file in UTF-8 with the header ``id,label,decision``.

    Ids and labels are taken as they are: text, with every blank and every leading zero. The frame has one row for each
    id and label; where a pair comes more than once, its last row counts. A decision is ``"accept"`` or ``"reject"``. A
    file that is not of this form raises DataFileError, a ValueError that names the line.
    """
    import pandas as pd

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
    header, headed = ",".join(COLUMNS), False
    while True:
        place = f"{path}, line {reader.line_num + 1}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise DataFileError(f"{place}: {error}") from error
        if fields is None:
            break
        if not fields:
            continue
        if not headed and tuple(fields) != COLUMNS:
            raise DataFileError(f"{place}: expected the header {header}; got {fields}")
        if len(fields) != len(COLUMNS):
            raise DataFileError(f"{place}: expected {len(COLUMNS)} fields; got {len(fields)}: {fields}")
        if "" in fields[:2]:
            raise DataFileError(f"{place}: the {COLUMNS[fields.index('')]} is empty")
        if headed and fields[2] not in DECISIONS:
            raise DataFileError(f"{place}: expected accept or reject; got {fields[2]!r}")
        if headed:
            yield fields
        headed = True
    if not headed:
        raise DataFileError(f"{path}, line 1: expected the header {header}; the file is empty")
