"""One self-contained HTML page about a fitted model."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit

from onepos._utils.files import write_durably
from onepos.metrics import METRIC_TITLES
from onepos.pages.model_summary import Scored, summarise_model
from onepos.pages.reliability import reliability
from onepos.pages.rendering import embed_svg, load_templates, require_report
from onepos.pages.style import INK, figure_svg, label_axes, looks, new_figure

if TYPE_CHECKING:
    from onepos.doctor import Diagnosis
    from onepos.methods._base import OnePositiveClassifier
    from onepos.pages.model_summary import Scored
    from onepos.table import TableModel


#: What is drawn of a history's records as training goes on, the first that there is.
_LOSSES = ("loss", "objective")


class Drawing(NamedTuple):
    """A name, what is to be seen, and the SVG."""

    name: str
    caption: str
    svg: str


def model_figures(scored: "Scored") -> list[Drawing]:
    """Return the drawings that the model has data for."""
    drawn = [history_figure(getattr(scored.estimator, "history_", None)), _reliability(scored)]
    return [drawing for drawing in drawn if drawing is not None]


def history_figure(history: Any) -> Drawing | None:
    """Draw the loss, and the validation score if there is one, by epoch; None for a training without epochs."""
    if history is None or len(history) < 2:
        return None
    loss = next((name for name in _LOSSES if name in history.records[0]), None)
    score = next((name for name in history.records[0] if name.startswith("valid_")), None)
    names = [name for name in (loss, score) if name is not None]
    if not names:
        return None
    figure, panels = new_figure(0.6 + 1.2 * len(names), rows=[1.0] * len(names))
    look = looks(["smile"])["smile"]
    steps = np.arange(1, len(history) + 1)
    best = history.facts.get("best_epoch")
    for axes, name in zip(panels, names, strict=True):
        values = np.array([np.nan if value is None else value for value in history[name]], dtype=float)
        axes.plot(steps, values, **look.line(marker="o" if len(steps) <= 30 else ""))
        if best is not None:
            axes.axvline(best, color=INK, linewidth=0.8, dashes=(1, 2))
        label_axes(axes, None, _title(name))
    is_epoch = "epoch" in history.records[0]
    label_axes(panels[-1], "epoch" if is_epoch else "iteration", _title(names[-1]))
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    kept = f" The dotted line is epoch {best}, whose weights were kept." if best is not None else ""
    return Drawing("history", f"Training by {'epoch' if is_epoch else 'iteration'}.{kept}", figure_svg(figure))


def _title(name: str) -> str:
    if name.startswith("valid_"):
        metric = name.removeprefix("valid_")
        return f"validation\n{METRIC_TITLES.get(metric, metric).lower()}"
    return f"training {name}" if name == "loss" else name


def _reliability(scored: "Scored") -> Drawing | None:
    if not scored.complete or not len(scored.measured):
        return None
    truth = scored.known[scored.measured]
    lines = {"probabilities": scored.probabilities[scored.measured]}
    caption = "Share of true labels by predicted probability. On the dotted line, probabilities are right."
    if hasattr(scored.estimator, "calibration_"):
        found = scored.estimator.calibration_
        after = lines["probabilities"]
        with np.errstate(divide="ignore"):
            logits = np.log(after) - np.log1p(-after)
        lines = {"before calibration": expit((logits - found.offsets) / found.slope), "calibrated": after}
    return Drawing("reliability", caption, figure_svg(reliability(lines, truth)))


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
    templates, safe = load_templates(_PURPOSE)
    summary = summarise_model(scored, ids=ids, texts=texts)
    drawings: dict[str, Any] = {"history": None, "reliability": None}
    drawings |= {
        drawing.name: {"caption": drawing.caption, "svg": safe(embed_svg(drawing.svg, drawing.name, drawing.caption))}
        for drawing in model_figures(scored)
    }
    script = templates.get_template("model.js").render()
    page: str = templates.get_template("model.html.j2").render(
        title=title or f"Model: {summary['facts']['method']}",
        lead=lead,
        drawings=drawings,
        diagnosis=diagnosis,
        script=safe(script),
        script_hash=b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii"),
        **summary,
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Half a character, which a label read from a broken file may hold, has no UTF-8.
    return write_durably(target, page.encode("utf-8", "replace"))
