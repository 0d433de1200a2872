"""``--report``: the page about a model, from the table that a command has read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos.cli._places import check_page
from onepos.cli._table_options import names
from onepos.cli._table_training import Request, Trained

if TYPE_CHECKING:
    from onepos.columns import TableData, TableModel, Truth


def check_report(path: Path) -> None:
    """Raise before the work, not after it, if the page cannot be written."""
    from onepos.report import require_report

    check_page("--report", path)
    require_report()


def write_training_report(trained: Trained, request: Request, path: Path) -> None:
    """Write the page of a model just trained, measured on the rows that training did not see."""
    from onepos.columns import Truth

    assert trained.data is not None  # of a folder of shards no page is asked for
    labels = names(request.labels) if trained.data.labels is None else []
    truth = Truth(request.label or None, None, labels)
    write_table_report(trained.model, trained.data, truth, path, complete=False, measured=trained.model.held_out_)


def write_table_report(
    model: "TableModel",
    data: "TableData",
    where: "Truth",
    path: Path,
    *,
    complete: bool | None = None,
    measured: Any = None,
) -> None:
    """Write the page of a model and a labelled table; ``complete`` None: as the labels look."""
    import pandas as pd

    from onepos.columns import find_truth
    from onepos.columns._kinds import as_words
    from onepos.columns.encoder import named
    from onepos.doctor import diagnose
    from onepos.report import model_report

    found = find_truth(model, data, where)
    complete = found.complete if complete is None else complete
    frame, text = named(data.frame), model.encoder_.text[:1]
    ids = as_words(frame[model.id_]) if model.id_ in frame.columns else [None] * len(frame)
    model_report(
        model,
        frame,
        found.truth,
        path,
        complete=complete,
        measured=measured,
        ids=[number if name is None else name for number, name in enumerate(ids, start=1)],
        texts=frame[text[0]].fillna("").tolist() if text else None,
        # The doctor looks at single observed labels; of complete ones it would say that they are too many.
        diagnosis=None
        if complete
        else diagnose(
            frame if data.labels is not None else frame[list(model.encoder_.kinds_)],
            pd.DataFrame(found.truth, columns=model.labels_),
            text=text[0] if text else None,
            interface="command line",
        ),
    )
