"""Whether probabilities mean what they say: the share of true labels among those given about the same confidence."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from onepos._utils.validation import FloatArray
from onepos.label_sets.calibration import calibration_bins
from onepos.pages.style import INK, Look, add_legend, label_axes, looks, new_figure, use_log_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Bins of equal width from 0 to 1.
N_BINS = 10


def reliability(probabilities: Mapping[str, ArrayLike], truth: ArrayLike) -> "Figure":
    """Reliability of predicted probabilities: above, probability against truth; below, how many labels got it.

    Parameters
    ----------
    probabilities : mapping of name to array of shape (n_samples, n_labels)
        One line each, for instance before and after ``calibrate``.
    truth : array of shape (n_samples, n_labels)
        Complete labels of the rows.
    """
    present = (np.asarray(truth) > 0).astype(np.uint8)
    style = looks([f"line {number}" for number in range(len(probabilities))])
    lines = {}
    for look, (name, values) in zip(style.values(), probabilities.items(), strict=True):
        scores = np.asarray(values)
        if scores.shape != present.shape:
            raise ValueError(f"probabilities and truth must have one shape; got {scores.shape} and {present.shape}.")
        lines[name] = (look, pool_bins([calibration_bins(scores, present, np.zeros_like(present), N_BINS)]))
    return draw_reliability(lines, "probability of the label")


def draw_reliability(
    lines: Mapping[str, tuple[Look, tuple[FloatArray, FloatArray, FloatArray]]], meaning: str
) -> "Figure":
    """Draw each line's bins above and their counts below."""
    figure, (upper, lower) = new_figure(3.3, rows=(3.0, 1.1))
    upper.plot([0, 1], [0, 1], color=INK, linewidth=0.8, dashes=(1, 2), zorder=1)
    handles = []
    for look, (confidence, frequency, count) in lines.values():
        handles += upper.plot(confidence, frequency, zorder=3, **look.line())
        lower.plot(confidence, count, zorder=3, **look.line())
    upper.set(xlim=(0, 1), ylim=(0, 1))
    use_log_scale(lower)
    lower.margins(y=0.2)
    # Markers of a confidence or share of exactly 0 or 1 sit on the frame.
    for line in (*upper.lines, *lower.lines):
        line.set_clip_on(False)
    label_axes(upper, None, "share that is truly present\n(below the dotted line: too sure)")
    label_axes(lower, meaning, "labels\n(log scale)")
    figure.align_ylabels()
    add_legend(figure, handles, list(lines))
    return figure


def pool_bins(trials: Sequence[dict[str, Any]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return confidence, frequency and count of each bin that holds a label in any trial.

    A trial may leave its empty bins out, so bins are known by where their confidence lies, not by their number.
    """
    columns = ("confidence", "frequency", "count")
    points = np.concatenate([np.array([trial[name] for name in columns], dtype=float) for trial in trials], axis=1)
    confidence, frequency, count = points[:, points[2] > 0]
    place = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    total = np.bincount(place, count, N_BINS).astype(float)
    kept = total > 0
    means = [np.bincount(place, values * count, N_BINS)[kept] / total[kept] for values in (confidence, frequency)]
    return means[0], means[1], total[kept]
