"""From the summary to one HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onepos._utils.files import write_durably
from onepos._utils.optional import require
from onepos.pages.rendering import INK, PAPER, SERIES, inline_svg, load_templates, new_axes

# The report's drawings: one panel a measure, and the learning curves.


_MARKERS = {"frequency": "s", "linear": "^", "an": "D", "smile": "o", "bce": "*"}


def metric_panel(metric: Mapping[str, Any], methods: Sequence[Mapping[str, Any]]) -> str:
    """One measure for all methods: a dot a method, a bar over the spread of its runs."""
    figure, axes = new_axes(3.6, 2.1)
    rows = list(range(len(methods)))[::-1]
    for row, method in zip(rows, methods, strict=True):
        cell = method["cells"][metric["key"]]
        colour = SERIES.get(method["key"], INK)
        axes.errorbar(cell["mean"], row, xerr=cell["spread"], color=colour, linewidth=2, capsize=3)
        marker = _MARKERS.get(method["key"], "o")
        size = 12 if marker == "*" else 8
        axes.plot(cell["mean"], row, marker=marker, markersize=size, color=colour, markeredgecolor=PAPER)
    axes.set_yticks(rows, [method["name"] for method in methods])
    axes.set_ylim(-0.6, len(methods) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    values = ", ".join(f"{method['name']} {method['cells'][metric['key']]['mean']:.3f}" for method in methods)
    return inline_svg(figure, f"metric-{metric['key']}", f"{metric['name']}, {metric['direction']}: {values}")


def learning_panel(curves: Mapping[str, Sequence[Mapping[str, Any]]], names: Mapping[str, str], quantity: str) -> str:
    """One quantity by epoch: the mean of a method's runs, a band from the lowest to the highest of them.

    Parameters
    ----------
    curves : mapping of method key to the records of its runs
    names : mapping of method key to name
    quantity : {"validation", "loss"}
    """
    figure, axes = new_axes(5.2, 2.9)
    title = {"validation": "validation average precision", "loss": "training loss"}[quantity]
    for key, runs in curves.items():
        series = [run[quantity] for run in runs if run[quantity]]
        if series:
            _draw_runs(axes, key, names[key], series)
            if quantity == "validation":
                _mark_epochs(axes, key, runs)
    axes.set_xlabel("epoch", color=INK)
    axes.set_ylabel(title, color=INK)
    # Whole epochs only: half an epoch on the axis would mean nothing.
    axes.xaxis.get_major_locator().set_params(integer=True)
    if axes.lines:
        axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return inline_svg(figure, f"learning-{quantity}", f"{title} by epoch for {', '.join(names[key] for key in curves)}")


def _draw_runs(axes: Any, key: str, name: str, series: list[list[float]]) -> None:
    # Runs may stop at different epochs; the mean goes on over those still running.
    length = max(len(values) for values in series)
    grid = np.full((len(series), length), np.nan)
    for row, values in zip(grid, series, strict=True):
        row[: len(values)] = values
    epochs = np.arange(1, length + 1)
    colour = SERIES.get(key, INK)
    style = "--" if key == "bce" else "-"
    axes.plot(epochs, np.nanmean(grid, axis=0), style, color=colour, linewidth=2, label=name)
    axes.fill_between(epochs, np.nanmin(grid, axis=0), np.nanmax(grid, axis=0), color=colour, alpha=0.2, linewidth=0)


def _mark_epochs(axes: Any, key: str, runs: Sequence[Mapping[str, Any]]) -> None:
    for run in runs:
        best = run["best_epoch"]
        if best is not None and best <= len(run["validation"]):
            marker = _MARKERS.get(key, "o")
            axes.plot(
                best,
                run["validation"][best - 1],
                marker=marker,
                markersize=10 if marker == "*" else 6,
                color=SERIES.get(key, INK),
                markeredgecolor=PAPER,
                linestyle="none",
            )


_PURPOSE = "writing the report"


def require_report() -> None:
    """Raise MissingDependencyError now, rather than after the work that the report is about."""
    require("jinja2", extra="plot", purpose=_PURPOSE)
    require("matplotlib.figure", extra="plot", purpose=_PURPOSE)


def render(summary: Mapping[str, Any]) -> str:
    """Return the page for a summary made by ``summarise``.

    Every value is escaped; the drawings are the only markup that is passed through. The page asks for no other file.
    """
    environment, safe = load_templates(_PURPOSE)
    names = {method["key"]: method["name"] for method in summary["methods"]}
    panels = {metric["key"]: safe(metric_panel(metric, summary["methods"])) for metric in summary["metrics"]}
    learning = {
        quantity: safe(learning_panel(summary["curves"], names, quantity)) for quantity in ("validation", "loss")
    }
    page: str = environment.get_template("report.html.j2").render(panels=panels, learning=learning, **summary)
    return page


def write_report(summary: Mapping[str, Any], path: Path) -> Path:
    """Write the page atomically: whoever opens ``path`` finds the old file or the whole new one.

    Parameters
    ----------
    summary : mapping
        From ``summarise``.
    path : Path
        The HTML file; its folder must exist.
    """
    return write_durably(path, render(summary).encode("utf-8"))
