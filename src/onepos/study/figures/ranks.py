"""Demšar's critical-difference diagram: average ranks on a line, methods that cannot be told apart joined by bars."""

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from onepos._utils.optional import require
from onepos.pages.style import INK, PAPER, TEXT, WIDTH, plain
from onepos.study.figures.curves import method_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# All in inches, so that text keeps its distance whatever the number of methods.
_TITLE, _RULER, _AXIS = 0.10, 0.30, 0.62
_BAR_STEP, _LABEL_STEP, _GAP = 0.08, 0.155, 0.05


def critical_difference(
    average_ranks: Mapping[str, float], critical_difference: float, cliques: Sequence[Sequence[str]]
) -> "Figure":
    """Draw average ranks, best at the left; a bar joins methods that the test cannot tell apart.

    Parameters
    ----------
    average_ranks : mapping of method key to its average rank (1 is best)
    critical_difference : float
        Drawn to scale as a ruler.
    cliques : sequence of sequences of method keys
        Groups without a significant difference inside; a group of one is not drawn.

    References
    ----------
    Demšar (2006), Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, Figure 1.
    """
    _check(average_ranks, critical_difference, cliques)
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
    figure, axes = _canvas(height)
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
            axes.text(edge, y, texts[key], ha=direction, va="center", fontsize=TEXT, color=INK)
    return figure


def _check(ranks: Mapping[str, float], difference: float, cliques: Sequence[Sequence[str]]) -> None:
    if len(ranks) < 2:
        raise ValueError(f"expected the ranks of at least two methods; got {len(ranks)}")
    if not difference > 0:
        raise ValueError(f"expected a critical difference above 0; got {difference}")
    strangers = sorted({key for clique in cliques for key in clique} - set(ranks))
    if strangers:
        raise ValueError(f"these methods of a clique have no rank: {', '.join(strangers)}")


def _fit(
    left: Sequence[tuple[float, float]], right: Sequence[tuple[float, float]], low: int, high: int
) -> tuple[float, float]:
    """Return where the axis starts and how long a rank is, in inches: as long as the labels leave room for.

    A label, given by its width and its rank, must end before that rank; the lines of later rows lie further in.
    """
    start, end = 0.15, 0.15
    scale = (WIDTH - start - end) / (high - low)
    # Each pass gives the labels the room that they lack at the present scale; margins only grow, so it settles.
    for _ in range(50):
        start = max([start, *(width - (rank - low) * scale for width, rank in left)])
        end = max([end, *(width - (high - rank) * scale for width, rank in right)])
        scale = (WIDTH - start - end) / (high - low)
    return start, scale


def _canvas(height: float) -> tuple["Figure", Any]:
    """Return a figure and axes measured in inches from the upper left corner."""
    module = require("matplotlib.figure", extra="plot", purpose="drawing figures")
    figure: Figure = module.Figure(figsize=(WIDTH, height), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def _draw_axis(axes: Any, low: int, high: int, left: float, scale: float) -> None:
    axes.plot([left, left + (high - low) * scale], [_AXIS, _AXIS], color=INK, linewidth=1)
    # Two digits need about a fifth of an inch.
    step = max(1, ceil(0.2 / scale))
    for rank in range(low, high + 1):
        x = left + (rank - low) * scale
        named = (rank - low) % step == 0
        axes.plot([x, x], [_AXIS - (0.06 if named else 0.03), _AXIS], color=INK, linewidth=0.8)
        if named:
            axes.text(x, _AXIS - 0.075, str(rank), ha="center", va="bottom", fontsize=TEXT, color=INK)
    axes.text(WIDTH / 2, _TITLE, "average rank (lower is better)", ha="center", va="center", fontsize=TEXT, color=INK)


def _draw_ruler(axes: Any, difference: float, left: float, scale: float) -> None:
    end = left + difference * scale
    axes.plot([left, end], [_RULER, _RULER], color=INK, linewidth=1)
    for x in (left, end):
        axes.plot([x, x], [_RULER - 0.035, _RULER + 0.035], color=INK, linewidth=1)
    text = f"critical difference {difference:.2f}"
    if end + _GAP + _text_width(text) < WIDTH:
        axes.text(end + _GAP, _RULER, text, ha="left", va="center", fontsize=TEXT, color=INK)
    else:
        # A ruler that leaves no room beside it is long enough to be interrupted.
        gap = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        axes.text((left + end) / 2, _RULER, text, ha="center", va="center", fontsize=TEXT, color=INK, bbox=gap)


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
    path = require("matplotlib.textpath", extra="plot", purpose="drawing figures").TextPath((0, 0), text, size=TEXT)
    return float(path.get_extents().width) / 72
