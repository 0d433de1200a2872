"""Lines with bands: average precision by number of examples and by epoch, and how the soft labels settle."""

from collections.abc import Mapping, Sequence
from math import ceil, log
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos.figures.records import Run, as_run, choose_rows, common_grid, method_name, order_methods, read_json
from onepos.figures.style import TEXT, add_legend, label_axes, looks, new_figure, use_log_scale

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: With more lines than this, bands would cover each other and say nothing.
_MOST_BANDS = 4
#: Beyond this ratio of largest to smallest, a linear axis crowds most points into one end.
_WIDE = 20


def sufficiency(
    frame: "pd.DataFrame",
    *,
    dataset: str | None = None,
    selection: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Figure":
    """Test average precision by number of training examples: the mean over trials, a band of one standard deviation.

    Parameters
    ----------
    frame : DataFrame
        The results; ``n_train`` tells the sizes apart.
    dataset, selection : str, optional
        Needed where the results have several.
    methods : sequence of str, optional
        Default: all, in the registry's order.
    """
    rows = choose_rows(frame, dataset=dataset, selection=selection, methods=methods)
    runs: dict[str, list[Run]] = {}
    for (method, _), part in rows.sort_values("n_train").groupby(["method", "trial"]):
        runs.setdefault(str(method), []).append(as_run(list(part["n_train"]), list(part["average_precision"])))
    figure, (axes,) = new_figure(2.5)
    _draw(figure, axes, runs)
    sizes = sorted({int(size) for size in rows["n_train"]})
    if sizes[-1] > _WIDE * sizes[0]:
        axes.set_xscale("log")
        _name_sizes(axes, sizes)
    else:
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    label_axes(axes, "number of training examples", "test average precision\n(higher is better)")
    return figure


def epochs(
    frame: "pd.DataFrame",
    dataset: str | None = None,
    *,
    selection: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Figure":
    """Average precision by epoch on one data set: the mean over trials, with a band where lines are few.

    On test rows where every drawn cell recorded them, otherwise on validation rows; the axis says which. Lines end
    with the shortest trial. Methods without epochs are left out. Parameters as in :func:`sufficiency`.
    """
    rows = choose_rows(frame, dataset=dataset, selection=selection, methods=methods)
    curves = [(str(method), read_json(text) or {}) for method, text in zip(rows["method"], rows["curve"], strict=True)]
    curves = [(method, curve) for method, curve in curves if curve.get("test") or curve.get("validation")]
    if not curves:
        raise ValueError("no cell recorded average precision by epoch: the column 'curve' is empty for these methods")
    measured_on = "test" if all(curve.get("test") for _, curve in curves) else "validation"
    runs: dict[str, list[Run]] = {}
    for method, curve in curves:
        if curve.get(measured_on):
            runs.setdefault(method, []).append(as_run(curve["epoch"], curve[measured_on]))
    # The legend takes a row for every three names, and many lines need height to part.
    figure, (axes,) = new_figure(2.1 + 0.13 * ceil(len(runs) / 3) + (0.6 if len(runs) > _MOST_BANDS else 0.0))
    _draw(figure, axes, runs)
    axes.xaxis.get_major_locator().set_params(integer=True)
    label_axes(axes, "epoch", f"{measured_on} average precision\n(higher is better)")
    return figure


def convergence(
    frame: "pd.DataFrame",
    dataset: str | None = None,
    *,
    selection: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Figure":
    """Mean absolute change of the soft labels D from epoch to epoch, for the methods that have soft labels.

    Mean over trials and a band of one standard deviation; lines end with the shortest trial. Parameters as in
    :func:`sufficiency`.
    """
    rows = choose_rows(frame, dataset=dataset, selection=selection, methods=methods)
    runs: dict[str, list[Run]] = {}
    for method, text in zip(rows["method"], rows["extra"], strict=True):
        change = (read_json(text) or {}).get("soft_label_change")
        if change:
            # The first change is that from the first epoch to the second.
            runs.setdefault(str(method), []).append(as_run(range(2, len(change) + 2), change))
    if not runs:
        raise ValueError("no cell recorded 'soft_label_change' in the column 'extra' for these methods")
    figure, (axes,) = new_figure(2.3)
    means = _draw(figure, axes, runs)
    drawn = np.concatenate(list(means.values()))
    note = ""
    if drawn.min() > 0 and drawn.max() > _WIDE * drawn.min():
        use_log_scale(axes)
        note = ", log scale"
    else:
        axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    label_axes(axes, "epoch", f"mean change of a soft label\n(lower is steadier{note})")
    return figure


def _draw(figure: Any, axes: Any, runs: Mapping[str, list[Run]]) -> dict[str, Any]:
    """Draw a line a method, with a band where there is room, and the legend; return the means."""
    methods = order_methods(runs)
    style = looks(methods)
    means: dict[str, Any] = {}
    handles = []
    for place, method in enumerate(methods):
        x, values = common_grid(runs[method])
        if not x.size:
            raise ValueError(f"the trials of {method!r} have no point in common")
        mean = values.mean(axis=0)
        # Markers at other places for each line, so that lines that coincide still show theirs.
        step = max(1, round(x.size / 6))
        shift = (place * step) // len(methods) if step > 1 else 0
        handles += axes.plot(x, mean, markevery=(shift, step), zorder=3, **style[method].line())
        if len(runs[method]) > 1 and len(methods) <= _MOST_BANDS:
            spread = values.std(axis=0, ddof=1)
            axes.fill_between(
                x, mean - spread, mean + spread, color=style[method].colour, alpha=0.18, linewidth=0, zorder=2
            )
        means[method] = mean
    add_legend(figure, handles, [method_name(method) for method in methods])
    return means


def _name_sizes(axes: Any, sizes: Sequence[int]) -> None:
    """Name the sizes themselves on a logarithmic axis, leaving out those too near the next larger one."""
    span = log(sizes[-1] / sizes[0])
    shown: list[int] = []
    for size in reversed(sizes):
        if not shown or log(shown[-1] / size) / span > 0.16:
            shown.append(size)
    axes.minorticks_off()
    axes.set_xticks(shown, [f"{size:,}" for size in shown], fontsize=TEXT)
