"""The look of each method in figures, and pictures of figures as files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._utils.files import write_durably
from onepos.pages.figures import HUES, INK, PAPER, draw, figure_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Look:
    """A line: its colour, its dashes (empty: solid) and its marker, filled or open."""

    colour: str
    dashes: tuple[float, ...]
    marker: str
    filled: bool = True

    def line(self) -> dict[str, Any]:
        """Return the keyword arguments of ``Axes.plot``."""
        return {
            "color": self.colour,
            "dashes": self.dashes or (None, None),
            "marker": self.marker,
            "markerfacecolor": self.colour if self.filled else PAPER,
            "markersize": 5.5 if self.marker == "*" else 3.6,
            "markeredgewidth": 0.8,
            "linewidth": 1.2,
        }


_SOLID: tuple[float, ...] = ()
_DASHED, _LONG, _DOTTED, _DASHDOT = (4.0, 1.6), (8.0, 2.0), (1.0, 1.4), (6.0, 1.5, 1.0, 1.5)

# Relatives share a hue. Dashes and markers tell every two lines apart, so the hue may be lost in print.
_LOOKS = {
    "auto": Look(HUES["blue"], _LONG, "P", filled=False),
    "smile": Look(HUES["blue"], _SOLID, "o"),
    "smile-si": Look(HUES["sky"], _DASHED, "o", filled=False),
    "smile-code": Look(HUES["sky"], _DASHDOT, "h", filled=False),
    "an": Look(HUES["red"], _DASHED, "^"),
    "an-ls": Look(HUES["red"], _DOTTED, "v", filled=False),
    "wan": Look(HUES["red"], _DASHDOT, "<", filled=False),
    "role": Look(HUES["green"], _DASHDOT, "s"),
    "epr": Look(HUES["green"], _DOTTED, "s", filled=False),
    "em": Look(HUES["amber"], _DASHDOT, ">"),
    "em-apl": Look(HUES["amber"], _DOTTED, ">", filled=False),
    "ll-r": Look(HUES["pink"], _DASHED, "^", filled=False),
    "ll-ct": Look(HUES["pink"], _DASHDOT, "v"),
    "ll-cp": Look(HUES["pink"], _DOTTED, "<"),
    "hill": Look(HUES["grey"], _LONG, "8"),
    "splc": Look(HUES["grey"], _DASHED, "8", filled=False),
    "gr": Look(HUES["green"], _LONG, "H"),
    "crisp": Look(HUES["blue"], _DASHDOT, "D"),
    "glocal": Look(HUES["purple"], _LONG, "P"),
    "mlml": Look(HUES["purple"], _DOTTED, "X"),
    "d2ml": Look(HUES["purple"], _DASHED, "D", filled=False),
    "softmax": Look(HUES["pink"], _LONG, "p"),
    "capped": Look(HUES["pink"], _SOLID, "*", filled=False),
    "logistic": Look(HUES["amber"], _LONG, "x"),
    "forest": Look(HUES["green"], _DASHED, "+"),
    "kernel": Look(HUES["purple"], _SOLID, "1"),
    "linear": Look(HUES["amber"], _DASHED, "d"),
    "frequency": Look(HUES["grey"], _DOTTED, "|"),
    "bce": Look(INK, _LONG, "*"),
}
_SPARE = [
    Look(HUES["red"], _SOLID, "d", filled=False),
    Look(HUES["sky"], _DOTTED, "p", filled=False),
    Look(HUES["green"], _SOLID, "o", filled=False),
    Look(HUES["purple"], _SOLID, "h"),
    Look(HUES["grey"], _SOLID, "X", filled=False),
    Look(HUES["sky"], _SOLID, "H", filled=False),
]


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """Return the look of each method: known methods keep theirs in every figure, others take spare ones in order."""
    unknown = [method for method in methods if method not in _LOOKS]
    spare = {method: _SPARE[place % len(_SPARE)] for place, method in enumerate(unknown)}
    return {method: _LOOKS.get(method) or spare[method] for method in methods}


def save_figure(figure: "Figure", path: str | Path) -> tuple[Path, Path]:
    """Write ``path`` + ``.svg`` and ``path`` + ``.png``, each whole or not at all, and return the two paths.

    The folder must exist.
    """
    # Draw both before writing either, so that the two files match.
    svg, png = figure_svg(figure).encode("utf-8"), draw(figure, "png", {"Software": None})
    return write_durably(Path(f"{path}.svg"), svg), write_durably(Path(f"{path}.png"), png)
