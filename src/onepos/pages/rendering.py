"""The templates of the self-contained pages, and drawings as elements of a page."""

import re
from html import escape
from typing import Any, NamedTuple

from onepos._utils.machine import require
from onepos.pages.style import VARIABLES


class Templates(NamedTuple):
    """The templates, and the type that marks text as markup."""

    environment: Any
    safe: Any


def load_templates(purpose: str) -> Templates:
    """Open the templates, which escape every text not marked as safe; ``purpose`` is for the message without jinja2."""
    jinja2 = require("jinja2", extra="plot", purpose=purpose)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onepos.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return Templates(environment, require("markupsafe", extra="plot", purpose=purpose).Markup)


def require_report() -> None:
    """Raise MissingDependencyError now, rather than after the work that the report is about."""
    for module in ("jinja2", "matplotlib.figure"):
        require(module, extra="plot", purpose="writing the report")


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
        The text of an SVG file, for instance from ``figure_svg``. The colours of ``onepos.pages.style`` become CSS
        variables, so that one drawing serves light and dark pages.
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
