"""One self-contained HTML page about a fitted model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._utils.files import write_durably
from onepos.pages.figures import figure_svg, model_figures
from onepos.pages.model_summary import Scored, summarise_model
from onepos.pages.style import embed_svg, render_page, require_report

if TYPE_CHECKING:
    from onepos.doctor import Diagnosis
    from onepos.methods._base import OnePositiveClassifier
    from onepos.table import TableModel


def model_report(
    model: "OnePositiveClassifier | TableModel",
    X: Any,
    Y: Any,
    path: str | Path,
    *,
    complete: bool = False,
    measured: Any = None,
    ids: Sequence[Any] | None = None,
    texts: Sequence[Any] | None = None,
    diagnosis: "Diagnosis | None" = None,
    title: str = "",
    lead: str = "",
) -> Path:
    """Write a page about a fitted model: data, measures with intervals, training, every label, completions, settings.

    The page needs no other file and no network; every text is shown as text. Its own policy lets the browser load
    nothing and run one script, the one it was written with.

    Parameters
    ----------
    model : a fitted onepos classifier, or a TableModel
    X : features, or the table, as the model's ``predict_proba`` takes them
    Y : indicator of shape (n_samples, n_labels)
        What is known of the rows' labels.
    path : str or Path
        The HTML file. Its folder is created if it does not exist.
    complete : bool
        Whether Y has all labels. If so: the five measures, quality label by label, and a reliability drawing. If not,
        only how high the known labels are ranked: nobody knows whether another one is wrong.
    measured : sequence of int, optional
        Positions of the rows to measure on, best those that training did not see; default: all.
    ids, texts : sequences, optional
        A name and a text for each row, shown beside its completions.
    diagnosis : Diagnosis, optional
        Findings of ``onepos.doctor.diagnose`` to show.
    title, lead : str, optional
        Heading, and the sentences below it.

    Returns
    -------
    Path
        The file.
    """
    require_report()
    scored = Scored(model, X, Y, complete=complete, measured=measured)
    summary = summarise_model(scored, ids=ids, texts=texts)
    drawings = {
        name: drawn and {"caption": drawn[1], "svg": embed_svg(figure_svg(drawn[0]), name, drawn[1])}
        for name, drawn in model_figures(scored).items()
    }
    page = render_page(
        "model",
        "writing the model's report",
        title=title or f"Model: {summary['facts']['method']}",
        lead=lead,
        drawings=drawings,
        diagnosis=diagnosis,
        **summary,
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # A label from a broken file may hold half a character, which UTF-8 cannot write.
    return write_durably(Path(path), page.encode("utf-8", "replace"))
