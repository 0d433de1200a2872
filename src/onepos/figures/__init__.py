"""Figures of a study, drawn from its results alone: one column wide, readable in grey and in small.

Each function takes the results (one row a finished cell) and returns a matplotlib figure; ``save_figure`` writes it as
SVG and PNG.
"""

from onepos.figures.curves import convergence, epochs, sufficiency
from onepos.figures.ranks import critical_difference
from onepos.figures.reliability import calibration, reliability
from onepos.figures.save import figure_svg, save_figure

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
