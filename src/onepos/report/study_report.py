"""A study's results in, a report out: the page, and its figures as files if they are wanted."""

from pathlib import Path

from onepos._files import write_durably
from onepos.figures import figure_svg, save_figure
from onepos.report.study_figures import study_figures
from onepos.report.study_page import render_study_report
from onepos.study import ResultsFolder, load_results

#: Drawings on the page: what a reader wants first; of the ranks, those by average precision. All are made as files.
_ON_PAGE = 12


def report_study(results: str | Path, out: str | Path | None = None, figures: str | Path | None = None) -> Path:
    """Write the report of a results folder or file.

    Parameters
    ----------
    results : path
        A results folder, or a parquet file of results.
    out : path, optional
        The HTML file; default ``report.html`` in the folder, or beside the file.
    figures : path, optional
        A folder that gets every figure as SVG and PNG.
    """
    results = Path(results)
    frame = load_results(results)
    if not len(frame) or not (frame["status"] == "ok").any():
        raise ValueError(f"{results} has no finished cell to report on; run the study first.")
    name, text, description = str(frame["study"].iloc[0]), "", ""
    if results.is_dir():
        study = ResultsFolder.open(results).study()
        text, description = (results / "study.toml").read_text(encoding="utf-8"), study.description
    target = Path(out) if out else (results if results.is_dir() else results.parent) / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    drawn = list(study_figures(frame))
    if figures:
        Path(figures).mkdir(parents=True, exist_ok=True)
        for drawing in drawn:
            save_figure(drawing.figure, Path(figures) / drawing.name)
    shown = [drawing for drawing in drawn if not drawing.name.startswith("ranks-") or "precision" in drawing.name]
    shown = sorted(shown, key=lambda drawing: drawing.name.startswith("calibration"))[:_ON_PAGE]
    page = render_study_report(
        frame,
        title=f"Study {name}",
        description=description,
        figures=[(drawing.caption, figure_svg(drawing.figure)) for drawing in shown],
        reproduce=f"onepos bench run {name} --out results\nonepos bench report results",
        study_file=text,
        environment={"study hash": str(frame["study_hash"].iloc[0])},
    )
    return write_durably(target, page.encode("utf-8"))
