"""The pages about a table: the report of a model on labelled rows, and the review of a completion."""

import os
from pathlib import Path
from typing import Any

from onepos.doctor import diagnose
from onepos.exceptions import DataFileError
from onepos.pages.model_page import model_report
from onepos.pages.review import write_review
from onepos.table import Completion, KnownLabels, TableData, TableModel
from onepos.table.kinds import as_words, named, require_columns

#: Columns shown beside each row of a review page.
_SHOWN_COLUMNS = 12


def table_report(
    model: TableModel,
    data: TableData,
    labels: KnownLabels,
    path: Path,
    *,
    measured: Any = None,
) -> None:
    """Write the page of a model and a labelled table; ``measured`` are positions of rows (None: all)."""
    frame, text = named(data.frame), model.encoder_.text[:1]
    ids = as_words(frame[model.id_]) if model.id_ in frame.columns else [None] * len(frame)
    diagnosis = None
    if not labels.complete:  # the doctor expects single observed labels; it would report complete ones as too many
        diagnosis = diagnose(
            frame[list(model.encoder_.kinds_)],
            labels.table,
            text=[name for name in model.encoder_.text if name in frame.columns],
        )
    model_report(
        model,
        frame,
        labels.table.to_numpy(),
        path,
        complete=labels.complete,
        measured=measured,
        ids=[number if name is None else name for number, name in enumerate(ids, start=1)],
        texts=frame[text[0]].fillna("").tolist() if text else None,
        diagnosis=diagnosis,
    )


def review_page(
    completion: Completion,
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
        from_page = Path(os.path.relpath(Path(image_folder).resolve(), path.parent.resolve()))
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
