"""From a study's results to one HTML page that needs nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onepos._utils.files import write_durably
from onepos.metrics import METRICS
from onepos.pages.style import embed_svg, render_page
from onepos.study import ResultsFolder, load_results
from onepos.study.figures import (
    calibration,
    convergence,
    critical_difference,
    epochs,
    figure_svg,
    read_json,
    save_figure,
    sufficiency,
)
from onepos.study.report_summary import study_tables, summarise_study
from onepos.study.tables import rank_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_PURPOSE = "writing the study's report"


def render_study_report(
    frame: "pd.DataFrame",
    *,
    title: str,
    description: str = "",
    figures: Sequence[tuple[str, str]] = (),
    reproduce: str = "",
    study_file: str = "",
    environment: Mapping[str, Any] | None = None,
) -> str:
    """Return the page.

    Every value is escaped; the drawings are the only markup passed through, and only if they are nothing but drawings.
    The page's own policy lets the browser load nothing and run one script, the one it was written with.

    ``figures`` are pairs of a caption and an SVG text. An empty line in the description starts a new paragraph.
    ``reproduce`` has the commands that make the results, ``study_file`` is the study's text, ``environment`` are facts
    to show beside the versions and machines that the results themselves record.
    """
    summary = summarise_study(frame, study_tables(frame), environment or {})
    drawings = [
        {"caption": caption, "svg": embed_svg(svg, f"figure-{number}", caption)}
        for number, (caption, svg) in enumerate(figures, start=1)
    ]
    return render_page(
        "study",
        _PURPOSE,
        title=title,
        paragraphs=[part.strip() for part in description.split("\n\n") if part.strip()],
        figures=drawings,
        reproduce=reproduce,
        study_file=study_file,
        **summary,
    )


class StudyFigure(NamedTuple):
    """A drawing, a name for its files, and what it shows in a sentence."""

    name: str
    caption: str
    figure: "Figure"


def study_figures(frame: "pd.DataFrame") -> Iterator[StudyFigure]:
    """Yield every figure that results from ``onepos.study.load_results`` have data for."""
    ok = frame[frame["status"] == "ok"]
    for rule in ok["selection"].unique():
        rows = ok[ok["selection"] == rule]
        by_rule = "" if rule == "clean" else f"-{rule}"
        chosen = f"; settings chosen on {rule} validation labels"
        whole = rows[rows["train_fraction"] == 1.0]
        for name, part in rows.groupby("dataset", sort=False):
            if part["train_fraction"].nunique() > 1:
                caption = f"Average precision on {name} by number of training examples{chosen}."
                yield StudyFigure(f"sufficiency-{name}{by_rule}", caption, sufficiency(part))
        yield from _by_dataset(whole, by_rule, chosen)
        yield from _ranks(whole, str(rule), by_rule, chosen)


def _by_dataset(rows: "pd.DataFrame", by_rule: str, chosen: str) -> Iterator[StudyFigure]:
    for name, part in rows.groupby("dataset", sort=False):
        if len(traced := _recorded(part, "curve", "test")):
            caption = f"Test average precision on {name} by epoch{chosen}. Nothing was chosen by this curve."
            yield StudyFigure(f"epochs-{name}{by_rule}", caption, epochs(traced))
        if len(settled := _recorded(part, "extra", "soft_label_change")):
            caption = f"How much the recovered soft labels D change from epoch to epoch on {name}{chosen}."
            yield StudyFigure(f"convergence-{name}{by_rule}", caption, convergence(settled))
        if len(recovered := _recorded(part, "extra", "calibration")):
            caption = (
                f"Calibration of the recovered soft labels D on {name}: how often an unobserved label is there, by how "
                f"sure the method is of it{chosen}."
            )
            yield StudyFigure(f"calibration-{name}{by_rule}", caption, calibration(recovered))


def _ranks(rows: "pd.DataFrame", rule: str, by_rule: str, chosen: str) -> Iterator[StudyFigure]:
    for metric in METRICS:
        ranks = rank_table(rows, metrics=(metric,), selection=rule).ranks[metric]
        if ranks is None or len(ranks.average_ranks) < 3:
            continue
        caption = (
            f"Average ranks by {metric.replace('_', ' ')} over {ranks.friedman.datasets} data sets; joined methods "
            f"do not differ at .05 (Nemenyi){chosen}."
        )
        groups = [list(group) for group in ranks.cliques]
        figure = critical_difference(ranks.average_ranks, ranks.critical_difference, groups)
        yield StudyFigure(f"ranks-{metric}{by_rule}", caption, figure)


def _recorded(rows: "pd.DataFrame", column: str, name: str) -> "pd.DataFrame":
    """The rows whose JSON column holds a measurement of this name."""
    return rows[[bool((read_json(text) or {}).get(name)) for text in rows[column]]]


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
