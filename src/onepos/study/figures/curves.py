"""Lines with bands: average precision by number of examples and by epoch, and how the soft labels settle."""

import json
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, log
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos._utils.validation import FloatArray
from onepos.methods.registry import METHODS
from onepos.pages.reliability import draw_reliability, pool_bins
from onepos.pages.style import TEXT, add_legend, label_axes, looks, new_figure, use_log_scale

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


#: A run: where it was looked at, and the values there.
Run = tuple[FloatArray, FloatArray]


def read_json(value: Any) -> Any:
    """Return what a JSON column holds, or None where it holds nothing (None, NaN or an empty text)."""
    return json.loads(value) if isinstance(value, str) and value.strip() else None


def method_name(key: str) -> str:
    """Return a method's name from the registry; a method unknown there is called by its key."""
    return METHODS[key].name if key in METHODS else key


def order_methods(keys: Iterable[str]) -> list[str]:
    """Return each key once: registered methods in the registry's order, then the others by name.

    Rows are written as cells finish, so their own order would differ from run to run.
    """
    place = {key: number for number, key in enumerate(METHODS)}
    return sorted(set(keys), key=lambda key: (place.get(key, len(place)), key))


def choose_rows(
    frame: "pd.DataFrame", *, dataset: str | None, selection: str | None, methods: Sequence[str] | None
) -> "pd.DataFrame":
    """Return the finished cells of one data set and one selection rule.

    Parameters
    ----------
    frame : DataFrame
        The results.
    dataset, selection : str or None
        None takes the only one there is.
    methods : sequence of str or None
        None takes all.

    Raises
    ------
    ValueError
        If None leaves a choice open, or if no finished cell is left.
    """
    rows = frame[frame["status"] == "ok"]
    if methods is not None:
        rows = rows[rows["method"].isin(list(methods))]
    for column, wanted in (("dataset", dataset), ("selection", selection)):
        present = sorted({str(value) for value in rows[column]})
        if wanted is None and len(present) > 1:
            raise ValueError(f"expected results of one {column}; got {', '.join(present)}: name one with {column}=")
        if wanted is not None:
            rows = rows[rows[column] == wanted]
            if rows.empty:
                raise ValueError(
                    f"no finished cell with {column} {wanted!r}; there are: {', '.join(present) or 'none'}"
                )
    if rows.empty:
        raise ValueError("no finished cell to draw: run the study first, or name other methods")
    return rows


def as_run(x: Sequence[Any], y: Sequence[Any]) -> Run:
    """Return a run's points as arrays, without those that have no finite value."""
    places, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if places.shape != values.shape:
        raise ValueError(f"expected as many values as places; got {values.size} values at {places.size} places")
    finite = np.isfinite(values)
    return places[finite], values[finite]


def common_grid(runs: Sequence[Run]) -> Run:
    """Return the places that every run has, and the values there, one row per run.

    A mean over whichever runs are left would jump where one of them stops.
    """
    places = sorted(set.intersection(*(set(x.tolist()) for x, _ in runs)))
    return np.asarray(places), np.array([y[np.isin(x, places)] for x, y in runs])


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
    """Draw a line per method, with a band where there is room, and the legend; return the means."""
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


def calibration(
    frame: "pd.DataFrame",
    dataset: str | None = None,
    *,
    selection: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Figure":
    """Reliability of the soft labels D: above, confidence against truth; below, how many labels got that confidence.

    Trials are pooled: each of ten equal bins of confidence holds the labels of all of them.

    Parameters
    ----------
    frame : DataFrame
        The results; cells with ``calibration`` in ``extra`` are drawn.
    dataset, selection : str, optional
        Needed where the results have several.
    methods : sequence of str, optional
        Default: all that recorded their calibration.
    """
    rows = choose_rows(frame, dataset=dataset, selection=selection, methods=methods)
    bins: dict[str, list[dict[str, Any]]] = {}
    for method, text in zip(rows["method"], rows["extra"], strict=True):
        found = (read_json(text) or {}).get("calibration")
        if found:
            bins.setdefault(str(method), []).append(found)
    if not bins:
        raise ValueError("no cell recorded 'calibration' in the column 'extra' for these methods")
    order = order_methods(bins)
    style = looks(order)
    lines = {method_name(method): (style[method], pool_bins(bins[method])) for method in order}
    return draw_reliability(lines, "confidence in the label, D")
