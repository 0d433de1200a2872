"""From a study's results to one HTML page that needs nothing else."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from onepos._templates import load_templates
from onepos.report.embed import embed_svg
from onepos.report.study_summary import StudyTable, study_tables, summarise_study

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StudyTable", "render_study_report", "study_tables"]

_PURPOSE = "writing the study's report"


def render_study_report(
    frame: "pd.DataFrame",
    *,
    title: str,
    description: str = "",
    tables: Sequence[StudyTable] | None = None,
    figures: Sequence[tuple[str, str]] = (),
    reproduce: str = "",
    study_file: str = "",
    environment: Mapping[str, Any] | None = None,
) -> str:
    """Return the page.

    Every value is escaped; the drawings are the only markup passed through, and only if they are nothing but drawings.
    The page's own policy lets the browser load nothing and run one script, the one it was written with.

    Parameters
    ----------
    frame : DataFrame
        The results, one row a finished cell.
    title, description : str
        Plain text; an empty line in the description starts a new paragraph.
    tables : sequence of StudyTable, optional
        Default: ``study_tables(frame)``.
    figures : sequence of (caption, SVG text)
        For instance ``(caption, onepos.figures.figure_svg(figure))``.
    reproduce : str
        The commands that make the results and this page.
    study_file : str
        The study file's text.
    environment : mapping, optional
        Facts to show beside the versions and machines that the results themselves record.
    """
    templates, safe = load_templates("onepos.report", _PURPOSE)
    summary = summarise_study(frame, study_tables(frame) if tables is None else tables, environment or {})
    drawings = [
        {"caption": caption, "svg": safe(embed_svg(svg, f"figure-{number}", caption))}
        for number, (caption, svg) in enumerate(figures, start=1)
    ]
    script = templates.get_template("study.js").render()
    page: str = templates.get_template("study.html.j2").render(
        title=title,
        paragraphs=[part.strip() for part in description.split("\n\n") if part.strip()],
        figures=drawings,
        reproduce=reproduce,
        study_file=study_file,
        script=safe(script),
        script_hash=b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii"),
        **summary,
    )
    return page
