"""Reviewing suggested labels: a page for a person (``write_review``), and what the person decided (``read_decisions``).

The page is one HTML file. It loads and sends nothing; decisions stay in the browser until they are saved as CSV.
"""

import csv
import io
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._utils.files import write_durably
from onepos.exceptions import DataFileError
from onepos.pages.rendering import load_templates
from onepos.pages.review_payload import make_payload

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

__all__ = ["read_decisions", "write_review"]


_PURPOSE = "writing the review page"
#: Joined in this order to one script; each may use what stands before it, and at run time what comes after.
_SCRIPTS = (
    "data.js",
    "decisions.js",
    "csv.js",
    "view.js",
    "list.js",
    "pane.js",
    "suggestions.js",
    "actions.js",
    "keys.js",
    "start.js",
)
_STYLES = ("tokens.css", "layout.css", "parts.css")
# What could end the element or open a comment in it, and what older scripts take for the end of a line.
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
    payload = make_payload(
        ids=ids,
        observed=observed,
        labels=labels,
        probabilities=probabilities,
        sets=sets,
        titles=titles,
        texts=texts,
        images=images,
        features=features,
        threshold=threshold,
        limit=limit,
    )
    return write_durably(Path(path), render_review(payload, title).encode("utf-8"))


def render_review(payload: Mapping[str, Any], title: str) -> str:
    """Return the page for a payload made by ``make_payload``."""
    environment, safe = load_templates(_PURPOSE)
    script = "\n".join(['"use strict";', "(() => {", *(_part(name) for name in _SCRIPTS), "})();"])
    style = "\n".join(_part(name) for name in _STYLES)
    content = script_json(payload)
    page: str = environment.get_template("review/review.html.j2").render(
        title=title.encode("utf-8", "replace").decode("utf-8"),
        script=safe(script),
        script_hash=_hash(script),
        style=safe(style),
        style_hash=_hash(style),
        image_files=any(image and not image.startswith("data:") for image in payload.get("images", ())),
        data=safe(content),
        # Decisions are stored under this name: another page with other data has another one.
        fingerprint=sha256(content.encode("utf-8")).hexdigest()[:20],
        n_examples=len(payload["ids"]),
    )
    return page


def script_json(value: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it can end the element, whatever the texts say."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _part(name: str) -> str:
    return (files("onepos.pages") / "templates" / "review" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


COLUMNS = ("id", "label", "decision")
DECISIONS = ("accept", "reject")


def read_decisions(path: str | PathLike[str]) -> "pd.DataFrame":
    """Read the decisions that a review page saved.

    Parameters
    ----------
    path : str or path
        A CSV file in UTF-8 with the header ``id,label,decision``. Ids and labels are taken as they are: text, with
        every blank and every leading zero.

    Returns
    -------
    DataFrame
        Columns id, label and decision (``"accept"`` or ``"reject"``), one row for each id and label. Where a pair comes
        more than once, its last row counts.

    Raises
    ------
    DataFileError
        A ValueError that names the line, if the file is not of this form.
    """
    import pandas as pd

    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: expected UTF-8; byte {error.start} is not: save the file as CSV UTF-8") from error
    frame = pd.DataFrame(_rows(path, text), columns=list(COLUMNS), dtype=str)
    return frame.drop_duplicates(["id", "label"], keep="last", ignore_index=True)


def _rows(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    header = True
    for line, fields in _records(path, text):
        if header:
            if tuple(fields) != COLUMNS:
                raise DataFileError(f"{path}, line {line}: expected the header {','.join(COLUMNS)}; got {fields}")
            header = False
            continue
        if len(fields) != len(COLUMNS):
            raise DataFileError(f"{path}, line {line}: expected {len(COLUMNS)} fields; got {len(fields)}: {fields}")
        example, label, decision = fields
        for name, value in (("id", example), ("label", label)):
            if not value:
                raise DataFileError(f"{path}, line {line}: the {name} is empty")
        if decision not in DECISIONS:
            raise DataFileError(f"{path}, line {line}: expected accept or reject; got {decision!r}")
        yield example, label, decision
    if header:
        raise DataFileError(f"{path}, line 1: expected the header {','.join(COLUMNS)}; the file is empty")


def _records(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line it starts on: a quoted field may span several."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataFileError(f"{path}, line {line}: {error}") from error
        if fields:
            yield line, fields
