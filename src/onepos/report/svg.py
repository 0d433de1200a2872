"""A matplotlib figure as an SVG element for the page: its colours are the page's, its text is text."""

import re
from contextlib import AbstractContextManager
from io import StringIO
from typing import Any

from onepos._optional import require

#: Stand-ins drawn by matplotlib and replaced by the page's variables, so that one drawing serves light and dark.
INK, FAINT, PAPER = "#010203", "#010204", "#010205"
SERIES = {
    "frequency": "#020301",
    "linear": "#020302",
    "an": "#020303",
    "smile": "#020304",
    "bce": "#020305",
}
_VARIABLES = {INK: "--ink", FAINT: "--faint", PAPER: "--paper"} | {
    colour: f"--series-{key}" for key, colour in SERIES.items()
}
_UNWANTED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_NAMESPACES = re.compile(r'\s+xmlns(:\w+)?="[^"]*"')


def new_axes(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure of this size in inches and its axes, drawn with the stand-in colours.

    The figure is made without pyplot: no global state, no display.
    """
    figure = require("matplotlib.figure", extra="plot", purpose="drawing plots").Figure(
        figsize=(width, height), layout="constrained"
    )
    figure.patch.set_alpha(0.0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0.0)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    for side, spine in axes.spines.items():
        spine.set_color(FAINT)
        spine.set_visible(side in ("left", "bottom"))
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def inline_svg(figure: Any, name: str, description: str) -> str:
    """Return the figure as an ``<svg>`` element.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    name : str
        Prefix of the element's ids: several drawings share one page.
    description : str
        Read out by screen readers.
    """
    stream = StringIO()
    with _settings(name):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = _NAMESPACES.sub("", _UNWANTED.sub("", stream.getvalue())).strip()
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    # Escaped by hand: the description is the one text that does not come from matplotlib.
    label = description.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _settings(name: str) -> AbstractContextManager[Any]:
    """Text stays text, and ids depend on the drawing alone so that equal results give equal files."""
    matplotlib = require("matplotlib", extra="plot", purpose="drawing plots")
    settings: AbstractContextManager[Any] = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name})
    return settings
