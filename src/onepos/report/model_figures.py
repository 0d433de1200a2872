"""The drawings of a model's page: how training went, and whether its probabilities mean what they say."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit

from onepos.figures import figure_svg, reliability
from onepos.figures.style import INK, label_axes, looks, new_figure
from onepos.metrics import METRIC_TITLES

if TYPE_CHECKING:
    from onepos.report.model_summary import Scored

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
    return Drawing(
        "history", f"How training went, by {'epoch' if is_epoch else 'iteration'}.{kept}", figure_svg(figure)
    )


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
    caption = "Whether probabilities mean what they say: on the dotted line they do."
    if hasattr(scored.estimator, "calibration_"):
        found = scored.estimator.calibration_
        after = lines["probabilities"]
        with np.errstate(divide="ignore"):
            logits = np.log(after) - np.log1p(-after)
        lines = {"before calibration": expit((logits - found.offsets) / found.slope), "calibrated": after}
    return Drawing("reliability", caption, figure_svg(reliability(lines, truth)))
