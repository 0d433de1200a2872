"""From a study's results to one HTML page that needs nothing else."""

from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from onepos._utils.files import write_durably
from onepos.metrics import METRICS
from onepos.pages.figures import figure_svg
from onepos.pages.style import embed_svg, load_templates
from onepos_studies.study import ResultsFolder, load_results
from onepos_studies.study import figures as draw
from onepos_studies.study.figures import method_name, read_json, recorded
from onepos_studies.study.tables import ALPHA, SELECTIONS, Grid, main_table, metric_ranks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class StudyFigure(NamedTuple):
    """A drawing, a name for its files, and what it shows in a sentence."""

    name: str
    caption: str
    figure: "Figure"


def study_figures(frame: pd.DataFrame) -> Iterator[StudyFigure]:
    """Yield every figure that results from ``onepos_studies.study.load_results`` have data for."""
    ok = frame[frame["status"] == "ok"]
    for rule in ok["selection"].unique():
        rows = ok[ok["selection"] == rule]
        by_rule = "" if rule == "clean" else f"-{rule}"
        chosen = f"; settings chosen on {rule} validation labels"
        whole = rows[rows["train_fraction"] == 1.0]
        for metric in METRICS:
            ranks = metric_ranks(whole, metric, selection=rule)
            if ranks is not None and len(ranks.average_ranks) > 2:
                caption = (
                    f"Average ranks by {metric.replace('_', ' ')} over {len(ranks.datasets)} data sets; methods whose "
                    f"bars overlap do not differ at {ALPHA:g} (Nemenyi){chosen}."
                )
                figure = draw.critical_difference(ranks.average_ranks, ranks.critical_difference)
                yield StudyFigure(f"ranks-{metric}{by_rule}", caption, figure)
        for name, part in rows.groupby("dataset", sort=False):
            if part["train_fraction"].nunique() > 1:
                caption = f"Average precision on {name} by number of training examples{chosen}."
                yield StudyFigure(f"sufficiency-{name}{by_rule}", caption, draw.sufficiency(part))
        for name, part in whole.groupby("dataset", sort=False):
            if len(traced := recorded(part, "curve", "test")):
                caption = f"Test average precision on {name} by epoch{chosen}. Nothing was chosen by this curve."
                yield StudyFigure(f"epochs-{name}{by_rule}", caption, draw.epochs(traced))
            if len(settled := recorded(part, "extra", "soft_label_change")):
                caption = f"How much the recovered soft labels D change from epoch to epoch on {name}{chosen}."
                yield StudyFigure(f"convergence-{name}{by_rule}", caption, draw.convergence(settled))
            if len(recovered := recorded(part, "extra", "calibration")):
                caption = (
                    f"Calibration of the recovered soft labels D on {name}: how often an unobserved label is there, by "
                    f"how sure the method is of it{chosen}."
                )
                yield StudyFigure(f"calibration-{name}{by_rule}", caption, draw.calibration(recovered))


def report_study(results: str | Path, out: str | Path | None = None, figures: str | Path | None = None) -> Path:
    """Write the report of a folder or file of results to ``out`` (default: beside it), all figures to ``figures``."""
    results = Path(results)
    frame = load_results(results)
    if not len(frame) or not (frame["status"] == "ok").any():
        raise ValueError(f"{results} has no finished cell to report on; run the study first.")
    text, description = "", ""
    if results.is_dir():
        description = ResultsFolder.open(results).planned()["description"]
        text = (results / "study.toml").read_text(encoding="utf-8")
    target = Path(out) if out else (results if results.is_dir() else results.parent) / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    drawn = list(study_figures(frame))
    if figures:
        Path(figures).mkdir(parents=True, exist_ok=True)
        for drawing in drawn:
            draw.save_figure(drawing.figure, Path(figures) / drawing.name)
    page = render_study_report(frame, drawn, description=description, study_file=text)
    return write_durably(target, page.encode("utf-8"))


#: Drawings on the page; all are made as files.
_ON_PAGE = 12


def render_study_report(
    frame: pd.DataFrame, figures: "list[StudyFigure]", *, description: str = "", study_file: str = ""
) -> str:
    """Return the page: what is done, the main tables by average precision, failed cells and figures."""
    ok = frame[frame["status"] == "ok"]
    name = str(frame["study"].iloc[0])
    failed = frame[frame["status"] != "ok"]
    shown = [one for one in figures if not one.name.startswith("ranks-") or "average_precision" in one.name]
    page = load_templates("writing the study's report", "onepos_studies").get_template("study.html.j2")
    text: str = page.render(
        title=f"Study {name}",
        description=description,
        facts={
            "cells done": f"{len(ok):,}",
            "cells failed": f"{len(failed):,}",
            "data sets": frame["dataset"].nunique(),
            "methods": frame["method"].nunique(),
            "trials": frame["trial"].nunique(),
            "hours, summed over cells": f"{fsum(ok['seconds'].dropna()) / 3600:.2f}",
        },
        tables=study_tables(frame),
        failed=[_failure(row) for row in failed.to_dict("records")],
        figures=[
            {"caption": one.caption, "svg": embed_svg(figure_svg(one.figure), f"figure-{number}", one.caption)}
            for number, one in enumerate(shown[:_ON_PAGE], start=1)
        ],
        reproduce=f"onepos bench run {name} --out results\nonepos bench report results",
        study_file=study_file,
        study_hash=str(frame["study_hash"].iloc[0]),
        versions=[
            ", ".join(f"{key} {value}" for key, value in read_json(text).items())
            for text in sorted(set(ok["versions"]))
        ],
    )
    return text


def study_tables(frame: pd.DataFrame) -> list[Grid]:
    """Return the main table by average precision for each selection rule; each training size is a data set."""
    share = frame["train_fraction"].map(lambda value: "" if value == 1.0 else f" ({value:g} of the rows)")
    # In a fixed order, so that equal results give equal means to the last bit however they were gathered.
    ordered = frame.assign(dataset=frame["dataset"] + share).sort_values(["trial"], kind="stable")
    rules = [rule for rule in SELECTIONS if rule in set(ordered["selection"])]
    names = {key: method_name(key) for key in frame["method"].unique()}
    order: Any = {"datasets": list(dict.fromkeys(frame["dataset"] + share)), "methods": list(names)}
    return [main_table(ordered, "average_precision", selection=rule, **order).grid().named(names) for rule in rules]


def _failure(row: dict[Any, Any]) -> str:
    return f"{row['dataset']} · {row['method']} · trial {row['trial']} · {row['selection']}: {row['error']}"
