"""Figures of a study, drawn from its results: one column wide, readable in grey and at small size.

Each function takes rows of results, of one data set and one selection rule, and returns a matplotlib figure;
``save_figure`` writes it as SVG and PNG.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from onepos._utils.files import write_durably
from onepos._utils.validation import FloatArray
from onepos.methods.registry import installed_methods
from onepos.pages.figures import (
    FAINT,
    HUES,
    INK,
    N_BINS,
    PAPER,
    TEXT,
    draw,
    draw_reliability,
    figure_svg,
    label_axes,
    new_figure,
    use_log_scale,
)

#: By method, the values of each trial, by the place on the horizontal axis.
Runs: TypeAlias = "dict[str, list[pd.Series[float]]]"


def read_json(value: Any) -> Any:
    """Return what a JSON column holds, or None where it holds nothing (None, NaN or an empty text)."""
    return json.loads(value) if isinstance(value, str) and value.strip() else None


def recorded(rows: pd.DataFrame, column: str, name: str) -> pd.DataFrame:
    """Return the rows whose JSON column holds a measurement of this name."""
    return rows[[bool((read_json(text) or {}).get(name)) for text in rows[column]]]


def method_name(key: str) -> str:
    """Return a method's name from the registry; a method unknown there is called by its key."""
    known = installed_methods()
    return known[key].name if key in known else key


def order_methods(keys: Iterable[str]) -> list[str]:
    """Return each key once: registered methods in the registry's order, then the others by name."""
    wanted, known = set(keys), installed_methods()
    return [key for key in known if key in wanted] + sorted(wanted - known.keys())


_DASHES: tuple[tuple[float, ...], ...] = ((), (4.0, 1.6), (8.0, 2.0), (1.0, 1.4), (6.0, 1.5, 1.0, 1.5))
#: The last one is a star of four points.
_MARKERS: tuple[Any, ...] = (*"os^vD<>PXphdH*8", (4, 1, 0))


def looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the arguments of ``Axes.plot`` for each method: registered ones keep theirs, others follow in order.

    Marker and filling tell every two lines apart, so the hue may be lost in print.
    """
    known, hues = list(installed_methods()), list(HUES.values())
    order = [*known, *(method for method in methods if method not in known)]
    lines = {}
    for place, method in enumerate(order):
        colour, marker = hues[place % len(hues)], _MARKERS[place % len(_MARKERS)]
        lines[method] = {
            "color": colour,
            "dashes": _DASHES[place % len(_DASHES)] or (None, None),
            "marker": marker,
            "markerfacecolor": colour if place // len(_MARKERS) % 2 == 0 else PAPER,
            "markersize": 5.5 if marker == "*" else 3.6,
            "markeredgewidth": 0.8,
            "linewidth": 1.2,
        }
    return {method: lines[method] for method in order if method in methods}


def save_figure(figure: Figure, path: str | Path) -> tuple[Path, Path]:
    """Write ``path`` + ``.svg`` and ``path`` + ``.png``, each whole or not at all, and return the two paths."""
    # Draw both before writing either, so that the two files match.
    svg, png = figure_svg(figure).encode("utf-8"), draw(figure, "png", {"Software": None})
    return write_durably(Path(f"{path}.svg"), svg), write_durably(Path(f"{path}.png"), png)


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
        axes.minorticks_off()
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
        handles += axes.plot(x, mean, markevery=(shift, step), zorder=3, **look_of[method])
        if len(runs[method]) > 1 and len(methods) <= _MOST_BANDS:
            spread = common.std(axis=1, ddof=1).to_numpy()
            band = {"color": look_of[method]["color"], "alpha": 0.18, "linewidth": 0, "zorder": 2}
            axes.fill_between(x, mean - spread, mean + spread, **band)
        means.append(mean)
    add_legend(figure, handles, [method_name(method) for method in methods])
    axes.xaxis.get_major_locator().set_params(integer=True)
    label_axes(axes, x_title, y_title)
    return figure, axes, np.concatenate(means)


def calibration(frame: pd.DataFrame) -> Figure:
    """Reliability of the soft labels D: above, confidence against truth; below, how many labels got that confidence.

    Trials are pooled: each of ten equal bins of confidence holds the labels of all of them.
    """
    bins = _recorded(_finished(frame), "calibration")
    look_of = looks(order_methods(bins))
    lines = [(pool_bins(bins[method]), look) for method, look in look_of.items()]
    figure = draw_reliability(lines, "confidence in the label, D")
    add_legend(figure, figure.axes[0].lines[1:], [method_name(method) for method in look_of])
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


def critical_difference(average_ranks: Mapping[str, float], difference: float) -> Figure:
    """Draw average ranks, the best above: each with a bar as long as the critical difference, centred on it.

    Two methods whose bars overlap do not differ significantly. ``average_ranks`` are by method key (1 is best).
    """
    if len(average_ranks) < 2 or not difference > 0:
        raise ValueError(f"expected two methods and a critical difference above 0; got {average_ranks}, {difference}")
    order = sorted(average_ranks, key=lambda key: (-average_ranks[key], key))
    figure, (axes,) = new_figure(0.5 + 0.16 * len(order))
    ranks = np.array([average_ranks[key] for key in order])
    places = np.arange(len(order))
    axes.hlines(places, ranks - difference / 2, ranks + difference / 2, color=INK, linewidth=1.2)
    axes.plot(ranks, places, "o", markersize=4, color=INK)
    axes.axvspan(ranks[-1] - difference / 2, ranks[-1] + difference / 2, color=FAINT, zorder=0)
    axes.set_yticks(places, [f"{plain(method_name(key))} {average_ranks[key]:.2f}" for key in order])
    axes.grid(visible=False, axis="y")
    axes.xaxis.get_major_locator().set_params(integer=True)
    label_axes(axes, f"average rank (lower is better)\ncritical difference {difference:.2f}", None)
    return figure
