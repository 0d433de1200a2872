"""How pages and figures look: templates, colours, line styles and markers by method, text that stays legible."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._utils.files import write_durably
from onepos._utils.machine import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One column of a two-column paper, in inches.
WIDTH = 3.3
#: Points; nothing is set smaller.
TEXT = 7.0

INK, FAINT, PAPER = "#1d2126", "#d9d6d0", "#ffffff"
_HUES = {
    "blue": "#0064b0",
    "sky": "#3d8fc4",
    "red": "#c4460d",
    "green": "#00805a",
    "amber": "#b07a00",
    "purple": "#7d3fa0",
    "pink": "#b8487e",
    "grey": "#767c84",
}
#: Each colour and the CSS variable by which a page may replace it, for instance in dark mode.
VARIABLES: dict[str, str] = {INK: "--figure-ink", FAINT: "--figure-faint", PAPER: "--figure-paper"} | {
    colour: f"--figure-{hue}" for hue, colour in _HUES.items()
}

_SOLID: tuple[float, ...] = ()
_DASHED, _LONG, _DOTTED, _DASHDOT = (4.0, 1.6), (8.0, 2.0), (1.0, 1.4), (6.0, 1.5, 1.0, 1.5)


@dataclass(frozen=True)
class Look:
    """A line: its colour, its dashes (empty: solid) and its marker, filled or open."""

    colour: str
    dashes: tuple[float, ...]
    marker: str
    filled: bool = True

    def line(self, **more: Any) -> dict[str, Any]:
        """Return the keyword arguments of ``Axes.plot``."""
        return {
            "color": self.colour,
            "dashes": self.dashes or (None, None),
            "marker": self.marker,
            "markerfacecolor": self.colour if self.filled else PAPER,
            "markersize": 5.5 if self.marker == "*" else 3.6,
            "markeredgewidth": 0.8,
            "linewidth": 1.2,
        } | more


# Relatives share a hue. Dashes and markers tell every two lines apart, so the hue may be lost in print.
_LOOKS = {
    "auto": Look(_HUES["blue"], _LONG, "P", filled=False),
    "smile": Look(_HUES["blue"], _SOLID, "o"),
    "smile-si": Look(_HUES["sky"], _DASHED, "o", filled=False),
    "smile-code": Look(_HUES["sky"], _DASHDOT, "h", filled=False),
    "an": Look(_HUES["red"], _DASHED, "^"),
    "an-ls": Look(_HUES["red"], _DOTTED, "v", filled=False),
    "wan": Look(_HUES["red"], _DASHDOT, "<", filled=False),
    "role": Look(_HUES["green"], _DASHDOT, "s"),
    "epr": Look(_HUES["green"], _DOTTED, "s", filled=False),
    "em": Look(_HUES["amber"], _DASHDOT, ">"),
    "em-apl": Look(_HUES["amber"], _DOTTED, ">", filled=False),
    "ll-r": Look(_HUES["pink"], _DASHED, "^", filled=False),
    "ll-ct": Look(_HUES["pink"], _DASHDOT, "v"),
    "ll-cp": Look(_HUES["pink"], _DOTTED, "<"),
    "hill": Look(_HUES["grey"], _LONG, "8"),
    "splc": Look(_HUES["grey"], _DASHED, "8", filled=False),
    "gr": Look(_HUES["green"], _LONG, "H"),
    "crisp": Look(_HUES["blue"], _DASHDOT, "D"),
    "glocal": Look(_HUES["purple"], _LONG, "P"),
    "mlml": Look(_HUES["purple"], _DOTTED, "X"),
    "d2ml": Look(_HUES["purple"], _DASHED, "D", filled=False),
    "softmax": Look(_HUES["pink"], _LONG, "p"),
    "capped": Look(_HUES["pink"], _SOLID, "*", filled=False),
    "logistic": Look(_HUES["amber"], _LONG, "x"),
    "forest": Look(_HUES["green"], _DASHED, "+"),
    "kernel": Look(_HUES["purple"], _SOLID, "1"),
    "frequency": Look(_HUES["grey"], _DOTTED, "|"),
    "bce": Look(INK, _LONG, "*"),
}
_SPARE = [
    Look(_HUES["red"], _SOLID, "d", filled=False),
    Look(_HUES["sky"], _DOTTED, "p", filled=False),
    Look(_HUES["green"], _SOLID, "o", filled=False),
    Look(_HUES["purple"], _SOLID, "h"),
    Look(_HUES["grey"], _SOLID, "X", filled=False),
    Look(_HUES["sky"], _SOLID, "H", filled=False),
]


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """Return the look of each method: known methods keep theirs in every figure, others take spare ones in order."""
    unknown = [method for method in methods if method not in _LOOKS]
    spare = {method: _SPARE[place % len(_SPARE)] for place, method in enumerate(unknown)}
    return {method: _LOOKS.get(method) or spare[method] for method in methods}


def new_figure(height: float, rows: Sequence[float] = (1.0,)) -> tuple["Figure", list[Any]]:
    """Return a figure one column wide and its axes, one below the other with these relative heights."""
    # Without pyplot: no global state, no display.
    module = require("matplotlib.figure", extra="plot", purpose="drawing figures")
    figure: Figure = module.Figure(figsize=(WIDTH, height), layout="constrained", facecolor=PAPER)
    panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": list(rows)})
    axes = [panel[0] for panel in panels]
    for panel in axes:
        panel.set_facecolor(PAPER)
        panel.tick_params(colors=INK, labelsize=TEXT, length=2, width=0.6, color=FAINT)
        panel.grid(color=FAINT, linewidth=0.5)
        panel.set_axisbelow(True)
        for side, spine in panel.spines.items():
            spine.set_color(FAINT)
            spine.set_visible(side in ("left", "bottom"))
    return figure, axes


def label_axes(axes: Any, x: str | None, y: str | None) -> None:
    """Name the axes in words."""
    axes.set_xlabel(x or "", fontsize=TEXT + 0.5, color=INK)
    axes.set_ylabel(y or "", fontsize=TEXT + 0.5, color=INK)


def use_log_scale(axes: Any) -> None:
    """Make the upright axis logarithmic; its numbers are written out, as the exponent of 10⁻³ would be too small."""
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:,g}")


def add_legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Put the legend above the axes, where it hides no line; three columns fit the longest method names."""
    figure.legend(
        handles,
        [plain(name) for name in names],
        loc="outside upper center",
        ncols=min(3, len(names)),
        fontsize=TEXT,
        labelcolor=INK,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.0,
        borderpad=0.2,
    )


def plain(text: str) -> str:
    """Return a text that matplotlib sets as it stands: a dollar sign would start a formula."""
    return text.replace("$", r"\$")


#: A column of 3.3 inches becomes 990 points of a picture.
RESOLUTION = 300


def figure_svg(figure: "Figure") -> str:
    """Return the figure as the text of an SVG file; equal figures give equal texts, and text in it stays text.

    Drawing fixes the layout of the figure: it is the same in every file that is made of it.
    """
    return _draw(figure, "svg", {"Date": None, "Creator": None}).decode("utf-8")


def save_figure(figure: "Figure", path: str | Path) -> tuple[Path, Path]:
    """Write ``path`` + ``.svg`` and ``path`` + ``.png``, each whole or not at all, and return the two paths.

    The folder must exist.
    """
    # Draw both before writing either, so that the two files match.
    svg, png = figure_svg(figure).encode("utf-8"), _draw(figure, "png", {"Software": None})
    return write_durably(Path(f"{path}.svg"), svg), write_durably(Path(f"{path}.png"), png)


def _draw(figure: Any, kind: str, metadata: dict[str, None]) -> bytes:
    matplotlib = require("matplotlib", extra="plot", purpose="drawing figures")
    stream = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "onepos"}):
        figure.savefig(stream, format=kind, dpi=RESOLUTION, metadata=metadata)
    # The layout would move a little each time that it is computed.
    figure.set_layout_engine("none")
    return stream.getvalue()


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
