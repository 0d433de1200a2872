"""One self-contained HTML page about a fitted model."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._files import write_durably
from onepos._templates import load_templates
from onepos.report.embed import embed_svg
from onepos.report.model_figures import model_figures
from onepos.report.model_summary import Scored, summarise_model
from onepos.report.render import require_report

if TYPE_CHECKING:
    from onepos.columns import TableModel
    from onepos.doctor import Diagnosis
    from onepos.methods._base import OnePositiveClassifier

_PURPOSE = "writing the model's report"


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
) -> Path:
    """Write a page about a fitted model: data, measures with intervals, training, every label, completions, settings.

    The page needs no other file and no network; every text is shown as text.

    Parameters
    ----------
    model : a fitted onepos classifier, or a TableModel
    X : features, or the table, as the model's ``predict_proba`` takes them
    Y : indicator of shape (n_samples, n_labels)
        What is known of the rows' labels.
    path : str or Path
        The HTML file; its folder is made if need be.
    complete : bool
        Whether Y has all labels. If so: the five measures, quality label by label, and a reliability drawing. If not,
        only how high the known labels are ranked: nobody knows whether another one is wrong.
    measured : sequence of int, optional
        Positions of the rows to measure on, best those that training did not see; default: all.
    ids, texts : sequences, optional
        A name and a text for each row, shown beside its completions.
    diagnosis : Diagnosis, optional
        Findings of ``onepos.doctor.diagnose`` to show.
    title : str, optional

    Returns
    -------
    Path
        The file.
    """
    require_report()
    scored = Scored(model, X, Y, complete=complete, measured=measured)
    page = render_model_report(scored, ids=ids, texts=texts, diagnosis=diagnosis, title=title)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_durably(target, page.encode("utf-8"))


def render_model_report(
    scored: Scored,
    *,
    ids: Sequence[Any] | None = None,
    texts: Sequence[Any] | None = None,
    diagnosis: "Diagnosis | None" = None,
    title: str = "",
) -> str:
    """Return the page; its own policy lets the browser load nothing and run one script, the one it was written with."""
    templates, safe = load_templates("onepos.report", _PURPOSE)
    summary = summarise_model(scored, ids=ids, texts=texts)
    drawings: dict[str, Any] = {"history": None, "reliability": None}
    drawings |= {
        drawing.name: {"caption": drawing.caption, "svg": safe(embed_svg(drawing.svg, drawing.name, drawing.caption))}
        for drawing in model_figures(scored)
    }
    script = templates.get_template("model.js").render()
    page: str = templates.get_template("model.html.j2").render(
        title=title or f"Model: {summary['facts']['method']}",
        drawings=drawings,
        diagnosis=diagnosis,
        script=safe(script),
        script_hash=b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii"),
        **summary,
    )
    # Half a character, which a label read from a broken file may hold, has no UTF-8.
    return page.encode("utf-8", "replace").decode("utf-8")
