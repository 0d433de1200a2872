"""How pages are made: templates, policies of what a browser may run, and drawings inside a page."""

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Any

from onepos._utils.machine import require
from onepos.pages.figures import VARIABLES


def load_templates(purpose: str, package: str = "onepos.pages") -> Any:
    """Open the templates of a package and those here, which escape every text not marked as safe.

    ``purpose`` is for the message without jinja2.
    """
    jinja2 = require("jinja2", extra="plot", purpose=purpose)
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in dict.fromkeys((package, "onepos.pages"))]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(name: str, purpose: str, package: str = "onepos.pages", **values: Any) -> str:
    """Return the page of a template; its policy lets the browser load nothing and run only the script of that name."""
    templates = load_templates(purpose, package)
    script = templates.get_template(f"{name}.js").render()
    page = templates.get_template(f"{name}.html.j2")
    return str(page.render(script=script, script_hash=content_hash(script), **values))


def require_report() -> None:
    """Raise MissingDependencyError now, rather than after the work that the report is about."""
    for module in ("jinja2", "matplotlib.figure"):
        require(module, extra="plot", purpose="writing the report")


def content_hash(text: str) -> str:
    """Return the hash by which a page's policy allows a script or style."""
    return b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


_UNWANTED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_NAMESPACES = re.compile(r'\s+xmlns(:\w+)?="[^"]*"')
_FORBIDDEN = re.compile(
    r"<\s*(script|foreignObject|iframe)|<[^>]*\son\w+\s*=|href\s*=\s*[\"'](?!#|data:image/)", re.IGNORECASE
)


def embed_svg(svg: str, name: str, description: str) -> str:
    """Return the ``<svg>`` element of a drawing, its ids prefixed by ``name``; screen readers read the description.

    Colours become CSS variables, so that one drawing serves light and dark pages. ValueError: the text is no SVG, or
    has a part that runs or loads something.
    """
    element = _NAMESPACES.sub("", _UNWANTED.sub("", svg)).strip()
    if not element.startswith("<svg"):
        raise ValueError(f"expected the text of an SVG file; got {svg[:40]!r}")
    if forbidden := _FORBIDDEN.search(element):
        raise ValueError(f"expected a drawing only; got {forbidden.group().strip()!r} in the SVG: take it out")
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", element)
    for colour, variable in VARIABLES.items():
        element = element.replace(colour, f"var({variable}, {colour})")
    return element.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)
