"""Figures of a study, drawn from its results alone: one column wide, readable in grey and in small.

Each function takes the results (one row per finished cell) and returns a matplotlib figure; ``save_figure`` writes it
as SVG and PNG.
"""

from onepos.pages.reliability import reliability
from onepos.pages.style import figure_svg, save_figure
from onepos.study.figures.curves import calibration, convergence, epochs, sufficiency
from onepos.study.figures.ranks import critical_difference

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
