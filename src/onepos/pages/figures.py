"""How figures look, and the drawings of a model's page: training, and reliability of probabilities."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onepos._utils.machine import require
from onepos._utils.validation import FloatArray
from onepos.label_sets.calibration import calibration_bins
from onepos.metrics import METRIC_TITLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One column of a two-column paper, in inches.
WIDTH = 3.3
#: Points; nothing is set smaller.
TEXT = 7.0

INK, FAINT, PAPER = "#1d2126", "#d9d6d0", "#ffffff"
HUES = {
    "blue": "#0064b0",
    "sky": "#3d8fc4",
    "red": "#c4460d",
    "green": "#00805a",
    "amber": "#b07a00",
    "purple": "#7d3fa0",
    "pink": "#b8487e",
    "grey": "#767c84",
}
#: Each colour and the CSS variable by which a page may replace it, for instance in dark mode.
VARIABLES: dict[str, str] = {INK: "--figure-ink", FAINT: "--figure-faint", PAPER: "--figure-paper"} | {
    colour: f"--figure-{hue}" for hue, colour in HUES.items()
}

#: Bins of equal width from 0 to 1.
N_BINS = 10
#: Names of the training loss in a history; the first one found is drawn.
_LOSSES = ("loss", "objective")

#: A figure and its caption; None if the model has no data for it.
Drawing: TypeAlias = "tuple[Figure, str] | None"


def _line(hue: str, dashes: tuple[float, ...], marker: str) -> dict[str, Any]:
    dashed = {"dashes": dashes} if dashes else {}
    return {"color": HUES[hue], "marker": marker, "markersize": 3.6, "linewidth": 1.2, **dashed}


#: Keyword arguments of ``Axes.plot``: lines in the order in which a figure takes them. Dashes and markers tell them
#: apart in print.
LINES = (_line("blue", (), "o"), _line("red", (4.0, 1.6), "^"), _line("green", (6.0, 1.5, 1.0, 1.5), "s"))


def new_figure(height: float, rows: Sequence[float] = (1.0,)) -> tuple["Figure", list[Any]]:
    """Return a figure one column wide and its axes, one below the other with these relative heights."""
    # Without pyplot: no global state, no display.
    module = require("matplotlib.figure", extra="plot", purpose="drawing figures")
    figure: Figure = module.Figure(figsize=(WIDTH, height), layout="constrained", facecolor=PAPER)
    panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": list(rows)})
    axes = [panel[0] for panel in panels]
    for panel in axes:
        panel.set_facecolor(PAPER)
        panel.tick_params(colors=INK, labelsize=TEXT, length=2, width=0.6, color=FAINT)
        panel.grid(color=FAINT, linewidth=0.5)
        panel.set_axisbelow(True)
        for side, spine in panel.spines.items():
            spine.set_color(FAINT)
            spine.set_visible(side in ("left", "bottom"))
    return figure, axes


def label_axes(axes: Any, x: str | None, y: str | None) -> None:
    """Name the axes in words."""
    axes.set_xlabel(x or "", fontsize=TEXT + 0.5, color=INK)
    axes.set_ylabel(y or "", fontsize=TEXT + 0.5, color=INK)


def use_log_scale(axes: Any) -> None:
    """Make the upright axis logarithmic; its numbers are written out, as the exponent of 10⁻³ would be too small."""
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:,g}")


def figure_svg(figure: "Figure") -> str:
    """Return the figure as the text of an SVG file; equal figures give equal texts, and text in it stays text."""
    return draw(figure, "svg", {"Date": None, "Creator": None}).decode("utf-8")


def draw(figure: Any, kind: str, metadata: dict[str, None]) -> bytes:
    """Return the picture as a file of this kind."""
    matplotlib = require("matplotlib", extra="plot", purpose="drawing figures")
    stream = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "onepos"}):
        figure.savefig(stream, format=kind, dpi=300, metadata=metadata)
    # The layout would move a little each time that it is computed.
    figure.set_layout_engine("none")
    return stream.getvalue()


def model_figures(estimator: Any, probabilities: FloatArray, truth: "NDArray[Any] | None") -> dict[str, Drawing]:
    """Return the drawings of a model's page by name; ``truth`` are the complete labels of the rows, if known."""
    caption = "Share of true labels by predicted probability. On the dotted line, probabilities are right."
    return {
        "history": _draw_history(getattr(estimator, "history_", None)),
        "reliability": None if truth is None or not len(truth) else (reliability(probabilities, truth), caption),
    }


def _draw_history(history: Any) -> Drawing:
    """Draw the loss, and the validation score if there is one, by epoch; None for a training without epochs."""
    if history is None or len(history) < 2:
        return None
    names = [name for name in _LOSSES if name in history.records[0]][:1]
    names += [name for name in history.records[0] if name.startswith("valid_")][:1]
    if not names:
        return None
    figure, panels = new_figure(0.6 + 1.2 * len(names), rows=[1.0] * len(names))
    steps = np.arange(1, len(history) + 1)
    best = history.facts.get("best_epoch")
    for axes, name in zip(panels, names, strict=True):
        values = np.array([np.nan if value is None else value for value in history[name]], dtype=float)
        axes.plot(steps, values, **LINES[0] | {"marker": "o" if len(steps) <= 30 else ""})
        if best is not None:
            axes.axvline(best, color=INK, linewidth=0.8, dashes=(1, 2))
        label_axes(axes, None, _title(name))
    step = "epoch" if "epoch" in history.records[0] else "iteration"
    label_axes(panels[-1], step, _title(names[-1]))
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    kept = f" The dotted line is epoch {best}, whose weights were kept." if best is not None else ""
    shown = "Loss and validation score" if len(names) > 1 else _title(names[0]).replace("\n", " ").capitalize()
    return figure, f"{shown} by {step}.{kept}"


def _title(name: str) -> str:
    if name.startswith("valid_"):
        metric = name.removeprefix("valid_")
        return f"validation\n{METRIC_TITLES.get(metric, metric).lower()}"
    return f"training {name}" if name == "loss" else name


def reliability(probabilities: ArrayLike, truth: ArrayLike) -> "Figure":
    """Draw the reliability of predicted probabilities against the complete labels of the rows."""
    present = (np.asarray(truth) > 0).astype(np.uint8)
    bins = calibration_bins(np.asarray(probabilities), present, np.zeros_like(present), N_BINS)
    return draw_reliability([(bins, LINES[0])], "probability of the label")


def draw_reliability(lines: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], meaning: str) -> "Figure":
    """Draw bins as ``calibration_bins`` returns them, with the look of each line: above shares, below counts."""
    figure, (upper, lower) = new_figure(3.3, rows=(3.0, 1.1))
    upper.plot([0, 1], [0, 1], color=INK, linewidth=0.8, dashes=(1, 2), zorder=1)
    for bins, look in lines:
        upper.plot(bins["confidence"], bins["frequency"], zorder=3, **look)
        lower.plot(bins["confidence"], bins["count"], zorder=3, **look)
    upper.set(xlim=(0, 1), ylim=(0, 1))
    use_log_scale(lower)
    lower.margins(y=0.2)
    # Markers of a confidence or share of exactly 0 or 1 sit on the frame.
    for line in (*upper.lines, *lower.lines):
        line.set_clip_on(False)
    label_axes(upper, None, "share that is truly present\n(below the dotted line: too sure)")
    label_axes(lower, meaning, "labels\n(log scale)")
    figure.align_ylabels()
    return figure
