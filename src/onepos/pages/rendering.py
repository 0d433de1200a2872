"""Templates of the self-contained pages, set up in one way: what is not said to be safe is escaped."""

import re
from contextlib import AbstractContextManager
from html import escape
from io import StringIO
from typing import Any, NamedTuple

from onepos._utils.optional import require
from onepos.pages.style import VARIABLES


class Templates(NamedTuple):
    """The templates, and the type that marks text as markup."""

    environment: Any
    safe: Any


def load_templates(purpose: str) -> Templates:
    """Open the templates of the pages; ``purpose`` begins the message if jinja2 is not installed."""
    jinja2 = require("jinja2", extra="plot", purpose=purpose)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onepos.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return Templates(environment, require("markupsafe", extra="plot", purpose=purpose).Markup)


# An SVG file as an element of a page: nothing it could load or run, ids of its own, colours that follow the page.


_UNWANTED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_NAMESPACES = re.compile(r'\s+xmlns(:\w+)?="[^"]*"')
_FORBIDDEN = re.compile(
    r"<\s*(script|foreignObject|iframe)|<[^>]*\son\w+\s*=|href\s*=\s*[\"'](?!#|data:image/)", re.IGNORECASE
)


def embed_svg(svg: str, name: str, description: str) -> str:
    """Return the ``<svg>`` element of a drawing.

    Parameters
    ----------
    svg : str
        The text of an SVG file, for instance from ``figure_svg``. The colours of ``onepos.study.figures``
        become CSS variables with the colour itself as the value where the page sets none.
    name : str
        Prefix of the element's ids: several drawings share one page.
    description : str
        Read out by screen readers.

    Raises
    ------
    ValueError
        If the text is no SVG, or has a part that runs or loads something.
    """
    element = _NAMESPACES.sub("", _UNWANTED.sub("", svg)).strip()
    if not element.startswith("<svg"):
        raise ValueError(f"expected the text of an SVG file; got {svg[:40]!r}")
    forbidden = _FORBIDDEN.search(element)
    if forbidden:
        raise ValueError(f"expected a drawing only; got {forbidden.group().strip()!r} in the SVG: take it out")
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", element)
    for colour, variable in VARIABLES.items():
        element = element.replace(colour, f"var({variable}, {colour})")
    return element.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


# A matplotlib figure as an SVG element for the page: its colours are the page's, its text is text.


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
