"""From the summary to one HTML file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onepos._files import write_durably
from onepos._optional import require
from onepos._templates import load_templates
from onepos.report.figures import learning_panel, metric_panel

_PURPOSE = "writing the report"


def require_report() -> None:
    """Raise MissingDependencyError now, rather than after the work that the report is about."""
    require("jinja2", extra="plot", purpose=_PURPOSE)
    require("matplotlib.figure", extra="plot", purpose=_PURPOSE)


def render(summary: Mapping[str, Any]) -> str:
    """Return the page for a summary made by ``summarise``.

    Every value is escaped; the drawings are the only markup that is passed through. The page asks for no other file.
    """
    environment, safe = load_templates("onepos.report", _PURPOSE)
    names = {method["key"]: method["name"] for method in summary["methods"]}
    panels = {metric["key"]: safe(metric_panel(metric, summary["methods"])) for metric in summary["metrics"]}
    learning = {
        quantity: safe(learning_panel(summary["curves"], names, quantity)) for quantity in ("validation", "loss")
    }
    page: str = environment.get_template("report.html.j2").render(panels=panels, learning=learning, **summary)
    return page


def write_report(summary: Mapping[str, Any], path: Path) -> Path:
    """Write the page atomically: whoever opens ``path`` finds the old file or the whole new one.

    Parameters
    ----------
    summary : mapping
        From ``summarise``.
    path : Path
        The HTML file; its folder must exist.
    """
    return write_durably(path, render(summary).encode("utf-8"))
