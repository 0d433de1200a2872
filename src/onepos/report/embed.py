"""An SVG file as an element of a page: nothing it could load or run, ids of its own, colours that follow the page."""

import re
from html import escape

from onepos.figures.style import VARIABLES

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
        The text of an SVG file, for instance from ``onepos.figures.figure_svg``. The colours of ``onepos.figures``
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
