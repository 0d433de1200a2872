"""One self-contained HTML page about a fitted model, and its drawings: training, and reliability of probabilities."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from onepos._utils.files import write_durably
from onepos._utils.validation import FloatArray
from onepos.label_sets.calibration import calibration_bins
from onepos.metrics import METRIC_TITLES
from onepos.pages import style
from onepos.pages.model_summary import Scored, summarise_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from onepos.doctor import Diagnosis
    from onepos.methods._base import OnePositiveClassifier
    from onepos.table import TableModel

#: Names of the training loss in a history; the first one found is drawn.
_LOSSES = ("loss", "objective")
#: Bins of equal width from 0 to 1.
N_BINS = 10

#: A figure and its caption; None if the model has no data for it.
Drawing: TypeAlias = "tuple[Figure, str] | None"


def model_figures(scored: Scored) -> dict[str, Drawing]:
    """Return the drawings of a page by name."""
    history = getattr(scored.estimator, "history_", None)
    return {"history": _draw_history(history), "reliability": _draw_probabilities(scored)}


def _draw_history(history: Any) -> Drawing:
    """Draw the loss, and the validation score if there is one, by epoch; None for a training without epochs."""
    if history is None or len(history) < 2:
        return None
    names = [name for name in _LOSSES if name in history.records[0]][:1]
    names += [name for name in history.records[0] if name.startswith("valid_")][:1]
    if not names:
        return None
    figure, panels = style.new_figure(0.6 + 1.2 * len(names), rows=[1.0] * len(names))
    look = style.looks(["smile"])["smile"]
    steps = np.arange(1, len(history) + 1)
    best = history.facts.get("best_epoch")
    for axes, name in zip(panels, names, strict=True):
        values = np.array([np.nan if value is None else value for value in history[name]], dtype=float)
        axes.plot(steps, values, **look.line(marker="o" if len(steps) <= 30 else ""))
        if best is not None:
            axes.axvline(best, color=style.INK, linewidth=0.8, dashes=(1, 2))
        style.label_axes(axes, None, _title(name))
    step = "epoch" if "epoch" in history.records[0] else "iteration"
    style.label_axes(panels[-1], step, _title(names[-1]))
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    kept = f" The dotted line is epoch {best}, whose weights were kept." if best is not None else ""
    shown = "Loss and validation score" if len(names) > 1 else _title(names[0]).replace("\n", " ").capitalize()
    return figure, f"{shown} by {step}.{kept}"


def _title(name: str) -> str:
    if name.startswith("valid_"):
        metric = name.removeprefix("valid_")
        return f"validation\n{METRIC_TITLES.get(metric, metric).lower()}"
    return f"training {name}" if name == "loss" else name


def _draw_probabilities(scored: Scored) -> Drawing:
    """Draw the reliability of the probabilities, before calibration too if there was one; needs complete labels."""
    if not scored.complete or not len(scored.measured):
        return None
    lines = {"probabilities": scored.probabilities[scored.measured]}
    if hasattr(scored.estimator, "calibration_"):
        found, after = scored.estimator.calibration_, lines["probabilities"]
        before = expit((logit(after) - found.offsets) / found.slope)
        lines = {"before calibration": before, "calibrated": after}
    caption = "Share of true labels by predicted probability. On the dotted line, probabilities are right."
    return reliability(lines, scored.known[scored.measured]), caption


def reliability(probabilities: Mapping[str, ArrayLike], truth: ArrayLike) -> "Figure":
    """Reliability of predicted probabilities: above, probability against truth; below, how many labels got it.

    ``probabilities`` maps a name per line, for instance before and after ``calibrate``, to an array of shape
    (n_samples, n_labels). ``truth`` has the same shape: the complete labels of the rows.
    """
    present = (np.asarray(truth) > 0).astype(np.uint8)
    line_looks = style.looks([f"line {number}" for number in range(len(probabilities))])
    lines = {}
    for look, (name, values) in zip(line_looks.values(), probabilities.items(), strict=True):
        scores = np.asarray(values)
        if scores.shape != present.shape:
            raise ValueError(f"probabilities and truth must have one shape; got {scores.shape} and {present.shape}.")
        lines[name] = (look, pool_bins([calibration_bins(scores, present, np.zeros_like(present), N_BINS)]))
    return draw_reliability(lines, "probability of the label", legend=len(lines) > 1)


def draw_reliability(
    lines: Mapping[str, tuple[style.Look, tuple[FloatArray, FloatArray, FloatArray]]],
    meaning: str,
    *,
    legend: bool = True,
) -> "Figure":
    """Draw each line's bins above and their counts below."""
    figure, (upper, lower) = style.new_figure(3.3, rows=(3.0, 1.1))
    upper.plot([0, 1], [0, 1], color=style.INK, linewidth=0.8, dashes=(1, 2), zorder=1)
    handles = []
    for look, (confidence, frequency, count) in lines.values():
        handles += upper.plot(confidence, frequency, zorder=3, **look.line())
        lower.plot(confidence, count, zorder=3, **look.line())
    upper.set(xlim=(0, 1), ylim=(0, 1))
    style.use_log_scale(lower)
    lower.margins(y=0.2)
    # Markers of a confidence or share of exactly 0 or 1 sit on the frame.
    for line in (*upper.lines, *lower.lines):
        line.set_clip_on(False)
    style.label_axes(upper, None, "share that is truly present\n(below the dotted line: too sure)")
    style.label_axes(lower, meaning, "labels\n(log scale)")
    figure.align_ylabels()
    if legend:
        style.add_legend(figure, handles, list(lines))
    return figure


def pool_bins(trials: Sequence[dict[str, Any]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return confidence, frequency and count of each bin that holds a label in any trial."""
    # A trial may leave its empty bins out, so bins are known by where their confidence lies, not by their number.
    columns = ("confidence", "frequency", "count")
    points = np.concatenate([np.array([trial[name] for name in columns], dtype=float) for trial in trials], axis=1)
    confidence, frequency, count = points[:, points[2] > 0]
    place = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    total = np.bincount(place, count, N_BINS).astype(float)
    kept = total > 0
    means = [np.bincount(place, values * count, N_BINS)[kept] / total[kept] for values in (confidence, frequency)]
    return means[0], means[1], total[kept]


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
    style.require_report()
    scored = Scored(model, X, Y, complete=complete, measured=measured)
    summary = summarise_model(scored, ids=ids, texts=texts)
    drawings = {
        name: drawn and {"caption": drawn[1], "svg": style.embed_svg(style.figure_svg(drawn[0]), name, drawn[1])}
        for name, drawn in model_figures(scored).items()
    }
    page = style.render_page(
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
