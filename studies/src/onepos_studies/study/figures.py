"""Figures of a study, drawn from its results: one column wide, readable in grey and at small size.

Each function takes rows of results, of one data set and one selection rule, and returns a matplotlib figure;
``save_figure`` writes it as SVG and PNG.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from math import ceil, floor, log
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from numpy.typing import ArrayLike

from onepos._utils.validation import FloatArray
from onepos.label_sets.calibration import calibration_bins
from onepos.methods.registry import installed_methods
from onepos.pages.figures import (
    INK,
    LINES,
    N_BINS,
    PAPER,
    TEXT,
    WIDTH,
    draw_reliability,
    figure_svg,
    label_axes,
    new_figure,
    use_log_scale,
)
from onepos_studies.study.looks import looks, save_figure

__all__ = [
    "calibration",
    "convergence",
    "critical_difference",
    "epochs",
    "figure_svg",
    "reliability",
    "save_figure",
    "sufficiency",
]

#: By method, the values of each trial, by the place on the horizontal axis.
Runs: TypeAlias = "dict[str, list[pd.Series[float]]]"


def read_json(value: Any) -> Any:
    """Return what a JSON column holds, or None where it holds nothing (None, NaN or an empty text)."""
    return json.loads(value) if isinstance(value, str) and value.strip() else None


def method_name(key: str) -> str:
    """Return a method's name from the registry; a method unknown there is called by its key."""
    known = installed_methods()
    return known[key].name if key in known else key


def order_methods(keys: Iterable[str]) -> list[str]:
    """Return each key once: registered methods in the registry's order, then the others by name."""
    wanted, known = set(keys), installed_methods()
    return [key for key in known if key in wanted] + sorted(wanted - known.keys())


def _finished(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the finished cells; ValueError if there are none, or those of several data sets or selection rules."""
    rows = frame[frame["status"] == "ok"]
    if rows.empty:
        raise ValueError("no finished cell to draw: run the study first, or give other rows")
    for column in ("dataset", "selection"):
        present = sorted({str(value) for value in rows[column]})
        if len(present) > 1:
            raise ValueError(f"expected rows of one {column}; got {', '.join(present)}: give those of one of them")
    return rows


#: With more lines than this, bands would cover each other.
_MOST_BANDS = 4
#: Beyond this ratio of largest to smallest, a linear axis crowds most points into one end.
_WIDE = 20


def sufficiency(frame: pd.DataFrame) -> Figure:
    """Test average precision by number of training examples: the mean over trials, a band of one standard deviation."""
    rows = _finished(frame)
    runs: Runs = {}
    for (method, _), part in rows.groupby(["method", "trial"]):
        runs.setdefault(str(method), []).append(part.set_index("n_train")["average_precision"])
    figure, axes, _ = _draw(2.5, runs, "number of training examples", "test average precision\n(higher is better)")
    sizes = sorted({int(size) for size in rows["n_train"]})
    if sizes[-1] > _WIDE * sizes[0]:
        axes.set_xscale("log")
        _name_sizes(axes, sizes)
    else:
        axes.xaxis.get_major_locator().set_params(nbins=6)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def epochs(frame: pd.DataFrame) -> Figure:
    """Average precision by epoch on one data set: the mean over trials, with a band where lines are few.

    On test rows where every drawn cell recorded them, otherwise on validation rows; the axis says which. Lines end
    with the shortest trial. Methods without epochs are left out.
    """
    rows = _finished(frame)
    curves = [(str(method), read_json(text) or {}) for method, text in zip(rows["method"], rows["curve"], strict=True)]
    curves = [(method, curve) for method, curve in curves if curve.get("test") or curve.get("validation")]
    if not curves:
        raise ValueError("no cell recorded average precision by epoch: the column 'curve' is empty for these methods")
    measured_on = "test" if all(curve.get("test") for _, curve in curves) else "validation"
    runs: Runs = {}
    for method, curve in curves:
        if curve.get(measured_on):
            runs.setdefault(method, []).append(pd.Series(curve[measured_on], index=curve["epoch"], dtype=float))
    # The legend takes a row for every three names, and many lines need height to part.
    height = 2.1 + 0.13 * ceil(len(runs) / 3) + (0.6 if len(runs) > _MOST_BANDS else 0.0)
    return _draw(height, runs, "epoch", f"{measured_on} average precision\n(higher is better)")[0]


def convergence(frame: pd.DataFrame) -> Figure:
    """Mean absolute change of the soft labels D from epoch to epoch, for the methods that have soft labels.

    Mean over trials and a band of one standard deviation; lines end with the shortest trial.
    """
    # The first change is that from the first epoch to the second.
    runs = {
        method: [pd.Series(one, index=range(2, len(one) + 2), dtype=float) for one in found]
        for method, found in _recorded(_finished(frame), "soft_label_change").items()
    }
    title = "mean change of a soft label\n(lower is steadier"
    figure, axes, drawn = _draw(2.3, runs, "epoch", f"{title})")
    if drawn.min() > 0 and drawn.max() > _WIDE * drawn.min():
        use_log_scale(axes)
        label_axes(axes, "epoch", f"{title}, log scale)")
    else:
        axes.set_ylim(bottom=0)
    return figure


def _recorded(rows: pd.DataFrame, name: str) -> dict[str, list[Any]]:
    """Return what the cells of each method have under this name in the column ``extra``."""
    found: dict[str, list[Any]] = {}
    for method, text in zip(rows["method"], rows["extra"], strict=True):
        if value := (read_json(text) or {}).get(name):
            found.setdefault(str(method), []).append(value)
    if not found:
        raise ValueError(f"no cell recorded {name!r} in the column 'extra' for these methods")
    return found


def _draw(height: float, runs: Runs, x_title: str, y_title: str) -> tuple[Figure, Any, FloatArray]:
    """Draw a line per method, with a band where there is room; return the figure, its axes, and all means."""
    figure, (axes,) = new_figure(height)
    methods = order_methods(runs)
    look_of = looks(methods)
    means, handles = [], []
    for place, method in enumerate(methods):
        # Places that all trials have: a mean over whichever are left would jump where one of them stops.
        common = pd.concat(runs[method], axis=1, join="inner").dropna().sort_index()
        if common.empty:
            raise ValueError(f"the trials of {method!r} have no point in common")
        x, mean = common.index.to_numpy(dtype=float), common.mean(axis=1).to_numpy()
        # Markers at other places for each line, so that lines that coincide still show theirs.
        step = max(1, round(x.size / 6))
        shift = (place * step) // len(methods) if step > 1 else 0
        handles += axes.plot(x, mean, markevery=(shift, step), zorder=3, **look_of[method].line())
        if len(runs[method]) > 1 and len(methods) <= _MOST_BANDS:
            spread = common.std(axis=1, ddof=1).to_numpy()
            band = {"color": look_of[method].colour, "alpha": 0.18, "linewidth": 0, "zorder": 2}
            axes.fill_between(x, mean - spread, mean + spread, **band)
        means.append(mean)
    add_legend(figure, handles, [method_name(method) for method in methods])
    axes.xaxis.get_major_locator().set_params(integer=True)
    label_axes(axes, x_title, y_title)
    return figure, axes, np.concatenate(means)


def _name_sizes(axes: Any, sizes: Sequence[int]) -> None:
    """Name the sizes themselves on a logarithmic axis, leaving out those too near the next larger one."""
    span = log(sizes[-1] / sizes[0])
    shown: list[int] = []
    for size in reversed(sizes):
        if not shown or log(shown[-1] / size) / span > 0.16:
            shown.append(size)
    axes.minorticks_off()
    axes.set_xticks(shown, [f"{size:,}" for size in shown], fontsize=TEXT)


def calibration(frame: pd.DataFrame) -> Figure:
    """Reliability of the soft labels D: above, confidence against truth; below, how many labels got that confidence.

    Trials are pooled: each of ten equal bins of confidence holds the labels of all of them.
    """
    bins = _recorded(_finished(frame), "calibration")
    look_of = looks(order_methods(bins))
    figure = draw_reliability(
        [(pool_bins(bins[method]), look.line()) for method, look in look_of.items()], "confidence in the label, D"
    )
    add_legend(figure, figure.axes[0].lines[1:], [method_name(method) for method in look_of])
    return figure


def reliability(probabilities: Mapping[str, ArrayLike], truth: ArrayLike) -> Figure:
    """Reliability of predicted probabilities: above, probability against truth; below, how many labels got it.

    ``probabilities`` maps a name per line, for instance before and after ``calibrate``, to an array of shape
    (n_samples, n_labels). ``truth`` has the same shape: the complete labels of the rows.
    """
    present = (np.asarray(truth) > 0).astype(np.uint8)
    lines = []
    for look, values in zip(cycle(LINES), probabilities.values(), strict=False):
        scores = np.asarray(values)
        if scores.shape != present.shape:
            raise ValueError(f"probabilities and truth must have one shape; got {scores.shape} and {present.shape}.")
        lines.append((calibration_bins(scores, present, np.zeros_like(present), N_BINS), look))
    figure = draw_reliability(lines, "probability of the label")
    if len(lines) > 1:
        add_legend(figure, figure.axes[0].lines[1:], list(probabilities))
    return figure


def pool_bins(trials: Sequence[dict[str, Any]]) -> dict[str, FloatArray]:
    """Return confidence, frequency and count of each bin that holds a label in any trial."""
    # A trial may leave its empty bins out, so bins are known by where their confidence lies, not by their number.
    columns = ("confidence", "frequency", "count")
    points = np.concatenate([np.array([trial[name] for name in columns], dtype=float) for trial in trials], axis=1)
    confidence, frequency, count = points[:, points[2] > 0]
    place = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    total = np.bincount(place, count, N_BINS).astype(float)
    kept = total > 0
    means = [np.bincount(place, values * count, N_BINS)[kept] / total[kept] for values in (confidence, frequency)]
    return {"confidence": means[0], "frequency": means[1], "count": total[kept]}


def add_legend(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Put the legend above the axes, where it hides no line; three columns fit the longest method names."""
    figure.legend(
        handles,
        [plain(name) for name in names],
        loc="outside upper center",
        ncols=min(3, len(names)),
        fontsize=TEXT,
        labelcolor=INK,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.0,
        borderpad=0.2,
    )


def plain(text: str) -> str:
    """Return a text that matplotlib sets as it stands: a dollar sign would start a formula."""
    return text.replace("$", r"\$")


# Demšar's diagram. All in inches, so that text keeps its distance whatever the number of methods.
_TITLE, _RULER, _AXIS = 0.10, 0.30, 0.62
_BAR_STEP, _LABEL_STEP, _GAP = 0.08, 0.155, 0.05
_WORDS: dict[str, Any] = {"fontsize": TEXT, "color": INK}


def critical_difference(
    average_ranks: Mapping[str, float], critical_difference: float, cliques: Sequence[Sequence[str]]
) -> Figure:
    """Draw average ranks, best at the left; a bar joins methods that the test cannot tell apart.

    ``average_ranks`` are by method key (1 is best). The critical difference is drawn to scale as a ruler. ``cliques``
    are groups of keys without a significant difference inside. It is Figure 1 of Demšar (JMLR 7, 2006).
    """
    if len(average_ranks) < 2:
        raise ValueError(f"expected the ranks of at least two methods; got {len(average_ranks)}")
    if not critical_difference > 0:
        raise ValueError(f"expected a critical difference above 0; got {critical_difference}")
    if strangers := sorted({key for clique in cliques for key in clique} - set(average_ranks)):
        raise ValueError(f"these methods of a clique have no rank: {', '.join(strangers)}")
    order = sorted(average_ranks, key=lambda key: (average_ranks[key], key))
    half = ceil(len(order) / 2)
    sides = (order[:half], order[half:][::-1])
    texts = {key: f"{plain(method_name(key))} {average_ranks[key]:.2f}" for key in order}

    low = floor(min(average_ranks.values()))
    high = max(ceil(max(average_ranks.values())), ceil(low + critical_difference), low + 1)
    needed = [[(_text_width(texts[key]) + 0.12, average_ranks[key]) for key in side] for side in sides]
    left, scale = _fit(needed[0], needed[1], low, high)
    place = {key: left + (rank - low) * scale for key, rank in average_ranks.items()}

    bars = _stack_bars([[place[key] for key in clique] for clique in cliques if len(clique) > 1])
    first_label = _AXIS + _BAR_STEP * (1 + max((row for row, _, _ in bars), default=-1)) + 0.16
    height = first_label + _LABEL_STEP * (half - 1) + 0.12
    figure = Figure(figsize=(WIDTH, height), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    _draw_axis(axes, low, high, left, scale)
    _draw_ruler(axes, critical_difference, left, scale)
    for row, start, end in bars:
        y = _AXIS + _BAR_STEP * (row + 1)
        axes.plot([start - 0.03, end + 0.03], [y, y], color=INK, linewidth=3, solid_capstyle="butt")
    for side, edge, direction in ((sides[0], 0.04, "left"), (sides[1], WIDTH - 0.04, "right")):
        for row, key in enumerate(side):
            y = first_label + _LABEL_STEP * row
            width = _text_width(texts[key]) + _GAP
            end = edge + width if direction == "left" else edge - width
            axes.plot([place[key], place[key], end], [_AXIS, y, y], color=INK, linewidth=0.7)
            axes.text(edge, y, texts[key], ha=direction, va="center", **_WORDS)
    return figure


def _fit(
    left: Sequence[tuple[float, float]], right: Sequence[tuple[float, float]], low: int, high: int
) -> tuple[float, float]:
    """Return where the axis starts and how long a rank is, in inches. Labels are given by their width and rank."""
    start, end = 0.15, 0.15
    scale = (WIDTH - start - end) / (high - low)
    # Each pass gives the labels the room that they lack at the present scale; margins only grow, so it settles.
    for _ in range(50):
        start = max([start, *(width - (rank - low) * scale for width, rank in left)])
        end = max([end, *(width - (high - rank) * scale for width, rank in right)])
        scale = (WIDTH - start - end) / (high - low)
    return start, scale


def _draw_axis(axes: Any, low: int, high: int, left: float, scale: float) -> None:
    axes.plot([left, left + (high - low) * scale], [_AXIS, _AXIS], color=INK, linewidth=1)
    # Two digits need about a fifth of an inch.
    step = max(1, ceil(0.2 / scale))
    for rank in range(low, high + 1):
        x = left + (rank - low) * scale
        named = (rank - low) % step == 0
        axes.plot([x, x], [_AXIS - (0.06 if named else 0.03), _AXIS], color=INK, linewidth=0.8)
        if named:
            axes.text(x, _AXIS - 0.075, str(rank), ha="center", va="bottom", **_WORDS)
    axes.text(WIDTH / 2, _TITLE, "average rank (lower is better)", ha="center", va="center", **_WORDS)


def _draw_ruler(axes: Any, difference: float, left: float, scale: float) -> None:
    end = left + difference * scale
    axes.plot([left, end], [_RULER, _RULER], color=INK, linewidth=1)
    for x in (left, end):
        axes.plot([x, x], [_RULER - 0.035, _RULER + 0.035], color=INK, linewidth=1)
    text = f"critical difference {difference:.2f}"
    if end + _GAP + _text_width(text) < WIDTH:
        axes.text(end + _GAP, _RULER, text, ha="left", va="center", **_WORDS)
    else:
        # A ruler that leaves no room beside it is long enough to be interrupted.
        gap = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        axes.text((left + end) / 2, _RULER, text, ha="center", va="center", **_WORDS, bbox=gap)


def _stack_bars(groups: Sequence[Sequence[float]]) -> list[tuple[int, float, float]]:
    """Return each bar's row, start and end; bars that would touch go into different rows."""
    ends: list[float] = []
    bars = []
    for start, end in sorted((min(group), max(group)) for group in groups):
        row = next((row for row, taken in enumerate(ends) if start > taken + 0.1), len(ends))
        ends[row : row + 1] = [end]
        bars.append((row, start, end))
    return bars


def _text_width(text: str) -> float:
    """Width in inches of a text at the figures' size."""
    path = TextPath((0, 0), text, size=TEXT)
    return float(path.get_extents().width) / 72
