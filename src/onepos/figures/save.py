"""A figure as files: SVG for pages and papers, PNG for everything else."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._files import write_durably
from onepos._optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A column of 3.3 inches becomes 990 points of a picture.
RESOLUTION = 300


def figure_svg(figure: "Figure") -> str:
    """Return the figure as the text of an SVG file; equal figures give equal texts, and text in it stays text."""
    return _draw(figure, "svg", {"Date": None, "Creator": None}).decode("utf-8")


def save_figure(figure: "Figure", path: str | Path) -> tuple[Path, Path]:
    """Write ``path`` + ``.svg`` and ``path`` + ``.png``, each whole or not at all.

    Parameters
    ----------
    figure : Figure
    path : str or Path
        Without suffix; its folder must exist.

    Returns
    -------
    tuple of Path
        The SVG and the PNG.
    """
    base = Path(path)
    # Both are drawn before either is written: one picture never stands beside an older other.
    drawn = ((".svg", figure_svg(figure).encode("utf-8")), (".png", _draw(figure, "png", {"Software": None})))
    svg, png = (write_durably(base.with_name(base.name + suffix), content) for suffix, content in drawn)
    return svg, png


def _draw(figure: Any, kind: str, metadata: dict[str, None]) -> bytes:
    matplotlib = require("matplotlib", extra="plot", purpose="drawing figures")
    stream = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "onepos"}):
        figure.savefig(stream, format=kind, dpi=RESOLUTION, metadata=metadata)
    return stream.getvalue()
