"""The demo's page: its drawings, and the HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onepos._utils.files import write_durably
from onepos.pages.rendering import embed_svg, load_templates
from onepos.pages.style import VARIABLES, add_legend, figure_svg, label_axes, looks, new_figure, plain


def metric_panel(metric: Mapping[str, Any], methods: Sequence[Mapping[str, Any]]) -> str:
    """Draw one measure for all methods: a dot per method, a bar over the spread of its runs."""
    figure, (axes,) = new_figure(2.1)
    style = looks([method["key"] for method in methods])
    rows = list(range(len(methods)))[::-1]
    for row, method in zip(rows, methods, strict=True):
        cell, look = method["cells"][metric["key"]], style[method["key"]]
        axes.errorbar(cell["mean"], row, xerr=cell["spread"], color=look.colour, linewidth=1.5, capsize=2.5)
        axes.plot(cell["mean"], row, **look.line(markersize=9 if look.marker == "*" else 6))
    axes.set_yticks(rows, [plain(method["name"]) for method in methods])
    axes.set_ylim(-0.6, len(methods) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.tick_params(labelsize=9)  # the page shows this panel small
    axes.margins(x=0.12)
    values = ", ".join(f"{method['name']} {method['cells'][metric['key']]['mean']:.3f}" for method in methods)
    description = f"{metric['name']}, {metric['direction']}: {values}"
    return embed_svg(figure_svg(figure), f"metric-{metric['key']}", description)


def learning_panel(curves: Mapping[str, Sequence[Mapping[str, Any]]], names: Mapping[str, str], quantity: str) -> str:
    """Draw one quantity by epoch: the mean of a method's runs, and a band from the lowest to the highest.

    Parameters
    ----------
    curves : mapping of method key to the records of its runs
    names : mapping of method key to name
    quantity : {"validation", "loss"}
    """
    figure, (axes,) = new_figure(2.1)
    title = {"validation": "validation average precision", "loss": "training loss"}[quantity]
    style = looks(list(curves))
    handles = {}
    for key, runs in curves.items():
        series = [run[quantity] for run in runs if run[quantity]]
        if not series:
            continue
        # Runs may stop at different epochs; the mean goes on over those still running.
        grid = np.full((len(series), max(map(len, series))), np.nan)
        for row, values in zip(grid, series, strict=True):
            row[: len(values)] = values
        epochs, look = np.arange(1, grid.shape[1] + 1), style[key]
        handles[key] = axes.plot(epochs, np.nanmean(grid, axis=0), **look.line(marker=""))[0]
        band = np.nanmin(grid, axis=0), np.nanmax(grid, axis=0)
        axes.fill_between(epochs, *band, color=look.colour, alpha=0.18, linewidth=0)
        if quantity == "validation":
            # The epoch that was kept.
            kept = [(best, run[quantity][best - 1]) for run in runs if (best := run["best_epoch"] or 0) in epochs]
            if kept:
                axes.plot(*zip(*kept, strict=True), **look.line(linestyle="none", dashes=(None, None), zorder=3))
    # Whole epochs only: half an epoch on the axis would mean nothing.
    axes.xaxis.get_major_locator().set_params(integer=True)
    label_axes(axes, "epoch", title)
    if handles:
        add_legend(figure, list(handles.values()), [names[key] for key in handles])
    description = f"{title} by epoch for {', '.join(names[key] for key in curves)}"
    return embed_svg(figure_svg(figure), f"learning-{quantity}", description)


def render(summary: Mapping[str, Any]) -> str:
    """Return the page for a summary made by ``summarise``.

    Every value is escaped; the drawings are the only markup that is passed through. The page asks for no other file.
    """
    environment, safe = load_templates("writing the report")
    names = {method["key"]: method["name"] for method in summary["methods"]}
    page: str = environment.get_template("report.html.j2").render(
        panels={metric["key"]: safe(metric_panel(metric, summary["methods"])) for metric in summary["metrics"]},
        learning={name: safe(learning_panel(summary["curves"], names, name)) for name in ("validation", "loss")},
        colours={key: VARIABLES[look.colour] for key, look in looks(list(names)).items()},
        **summary,
    )
    return page


def write_report(summary: Mapping[str, Any], path: Path) -> Path:
    """Write the page for a summary from ``summarise``; ``path`` holds the old file or the whole new one."""
    return write_durably(path, render(summary).encode("utf-8"))
