"""From a study's results to one HTML page that needs nothing else."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from onepos._utils.files import write_durably
from onepos.metrics import METRIC_TITLES, METRICS, higher_is_better
from onepos.pages.style import embed_svg, render_page
from onepos_studies.study import ResultsFolder, load_results
from onepos_studies.study import figures as draw
from onepos_studies.study.figures import method_name, read_json
from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import MainTable, main_table, rank_table
from onepos_studies.study.tables.formats import arrow

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render_study_report(
    frame: pd.DataFrame,
    *,
    title: str,
    description: str = "",
    figures: Sequence[tuple[str, str]] = (),
    reproduce: str = "",
    study_file: str = "",
    environment: Mapping[str, Any] | None = None,
) -> str:
    """Return the page. All values are escaped; ``figures``, pairs of a caption and an SVG text, are only drawings."""
    drawings = [
        {"caption": caption, "svg": embed_svg(svg, f"figure-{number}", caption)}
        for number, (caption, svg) in enumerate(figures, start=1)
    ]
    return render_page(
        "study",
        "writing the study's report",
        "onepos_studies",
        title=title,
        paragraphs=[part.strip() for part in description.split("\n\n") if part.strip()],
        figures=drawings,
        reproduce=reproduce,
        study_file=study_file,
        **summarise_study(frame, study_tables(frame), environment or {}),
    )


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
        for name, part in rows.groupby("dataset", sort=False):
            if part["train_fraction"].nunique() > 1:
                caption = f"Average precision on {name} by number of training examples{chosen}."
                yield StudyFigure(f"sufficiency-{name}{by_rule}", caption, draw.sufficiency(part))
        yield from _by_dataset(whole, by_rule, chosen)
        yield from _ranks(whole, str(rule), by_rule, chosen)


def _by_dataset(rows: pd.DataFrame, by_rule: str, chosen: str) -> Iterator[StudyFigure]:
    for name, part in rows.groupby("dataset", sort=False):
        if len(traced := _recorded(part, "curve", "test")):
            caption = f"Test average precision on {name} by epoch{chosen}. Nothing was chosen by this curve."
            yield StudyFigure(f"epochs-{name}{by_rule}", caption, draw.epochs(traced))
        if len(settled := _recorded(part, "extra", "soft_label_change")):
            caption = f"How much the recovered soft labels D change from epoch to epoch on {name}{chosen}."
            yield StudyFigure(f"convergence-{name}{by_rule}", caption, draw.convergence(settled))
        if len(recovered := _recorded(part, "extra", "calibration")):
            caption = (
                f"Calibration of the recovered soft labels D on {name}: how often an unobserved label is there, by how "
                f"sure the method is of it{chosen}."
            )
            yield StudyFigure(f"calibration-{name}{by_rule}", caption, draw.calibration(recovered))


def _ranks(rows: pd.DataFrame, rule: str, by_rule: str, chosen: str) -> Iterator[StudyFigure]:
    for metric in METRICS:
        ranks = rank_table(rows, metrics=(metric,), selection=rule).ranks[metric]
        if ranks is None or len(ranks.average_ranks) < 3:
            continue
        caption = (
            f"Average ranks by {metric.replace('_', ' ')} over {ranks.friedman.datasets} data sets; joined methods "
            f"do not differ at .05 (Nemenyi){chosen}."
        )
        groups = [list(group) for group in ranks.cliques]
        figure = draw.critical_difference(ranks.average_ranks, ranks.critical_difference, groups)
        yield StudyFigure(f"ranks-{metric}{by_rule}", caption, figure)


def _recorded(rows: pd.DataFrame, column: str, name: str) -> pd.DataFrame:
    """The rows whose JSON column holds a measurement of this name."""
    return rows[[bool((read_json(text) or {}).get(name)) for text in rows[column]]]


#: Drawings on the page: what a reader wants first; of the ranks, those by average precision. All are made as files.
_ON_PAGE = 12


def report_study(results: str | Path, out: str | Path | None = None, figures: str | Path | None = None) -> Path:
    """Write the report of a folder or file of results to ``out`` (default: beside it), all figures to ``figures``."""
    results = Path(results)
    frame = load_results(results)
    if not len(frame) or not (frame["status"] == "ok").any():
        raise ValueError(f"{results} has no finished cell to report on; run the study first.")
    name, text, description = str(frame["study"].iloc[0]), "", ""
    if results.is_dir():
        description = ResultsFolder.open(results).study().description
        text = (results / "study.toml").read_text(encoding="utf-8")
    target = Path(out) if out else (results if results.is_dir() else results.parent) / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    drawn = list(study_figures(frame))
    if figures:
        Path(figures).mkdir(parents=True, exist_ok=True)
        for drawing in drawn:
            draw.save_figure(drawing.figure, Path(figures) / drawing.name)
    shown = [drawing for drawing in drawn if not drawing.name.startswith("ranks-") or "precision" in drawing.name]
    shown = sorted(shown, key=lambda drawing: drawing.name.startswith("calibration"))[:_ON_PAGE]
    page = render_study_report(
        frame,
        title=f"Study {name}",
        description=description,
        figures=[(drawing.caption, draw.figure_svg(drawing.figure)) for drawing in shown],
        reproduce=f"onepos bench run {name} --out results\nonepos bench report results",
        study_file=text,
        environment={"study hash": str(frame["study_hash"].iloc[0])},
    )
    return write_durably(target, page.encode("utf-8"))


# The values that the page shows.

#: Shown in a cell's details only where they differ from what most cells have.
_SURROUNDINGS = ("versions", "machine")


def setting_words(setting: Any) -> str:
    """Return a setting in one line: ``learning_rate 0.001 · weight_decay 0.01``."""
    if not isinstance(setting, Mapping):
        return "" if setting is None else str(setting)
    return " · ".join(f"{name} {value}" for name, value in setting.items())


def _cell(row: dict[Hashable, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with what the page shows in words; the rest stays as it is."""
    is_failed = row["status"] != "ok"
    error = str(row["error"] or "") if is_failed else ""
    return {str(name): value for name, value in row.items()} | {
        # A cell that failed before its rows were drawn has none.
        "n_train": row["n_train"] or None,
        "method": method_name(str(row["method"])),
        "failed": is_failed,
        "error": error,
        # The last line of a traceback names the error.
        "headline": next((line for line in reversed(error.splitlines()) if line.strip()), "no message recorded"),
        "setting": setting_words(read_json(row["setting"])),
        "tried": [one | {"setting": setting_words(one.get("setting"))} for one in read_json(row["tried"]) or []],
        "unusual": {
            column: setting_words(read_json(row[column]))
            for column in _SURROUNDINGS
            if isinstance(row[column], str) and row[column] != usual[column]
        },
    }


def study_tables(frame: pd.DataFrame) -> list[MainTable]:
    """Return the main table of each measure and selection rule; a data set has a row for each training size."""
    # In a fixed order, so that equal results give equal means to the last bit however they were gathered.
    ordered = frame.sort_values(["n_train", "trial"], kind="stable")
    ok = ordered[ordered["status"] == "ok"]
    several = {name for name, sizes in ok.groupby("dataset")["n_train"] if sizes.nunique() > 1}
    # A failed cell may not know its size.
    ordered = ordered[(ordered["status"] == "ok") | ~ordered["dataset"].isin(several)]
    names = [
        f"{name} ({size:,} training rows)" if name in several else str(name)
        for name, size in zip(ordered["dataset"], ordered["n_train"], strict=True)
    ]
    by_dataset = dict.fromkeys(zip(ordered["dataset"], names, strict=True))
    rows = [name for dataset in frame["dataset"].unique() for known_as, name in by_dataset if known_as == dataset]
    ordered = ordered.assign(dataset=names)
    return [
        main_table(
            ordered,
            metric,
            selection=rule,
            datasets=rows,
            methods=list(frame["method"].unique()),
            expected_trials=int(frame.loc[frame["selection"] == rule, "trial"].nunique()),
        )
        for rule in sorted(set(ordered["selection"]))
        for metric in METRICS
    ]


#: Which validation labels chose setting and epoch, as the page says it: short, and in full.
SELECTION_TEXT = {
    "clean": {"name": "all validation labels", "text": "chosen with every validation label known, as in the paper"},
    "single-positive": {
        "name": "one validation label each",
        "text": "chosen with one label per validation example, as in real use",
    },
}


def summarise_study(frame: pd.DataFrame, tables: Sequence[MainTable], environment: Mapping[str, Any]) -> dict[str, Any]:
    """Gather what the page shows; ``environment`` are facts to show as they are, a mapping inside becomes one line."""
    # The distinct texts of these columns, and in how many cells each stands, most frequent first.
    counts = {column: frame[column].dropna().astype(str).value_counts().to_dict() for column in _SURROUNDINGS}
    usual = {column: next(iter(found), None) for column, found in counts.items()}
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    cells = sorted((_cell(record, usual) for record in records), key=lambda cell: not cell["failed"])
    methods = dict.fromkeys([*(key for table in tables for key in table.methods), *frame["method"].astype(str)])
    return {
        "facts": _facts(frame),
        "verdict": [_verdict(table) for table in tables if table.metric == "average_precision"],
        "tables": [(table, _shown(table)) for table in tables],
        "metrics": {
            key: {
                "name": METRIC_TITLES[key],
                "arrow": arrow(key),
                "direction": "higher is better" if higher_is_better(key) else "lower is better",
            }
            for key in dict.fromkeys(table.metric for table in tables)
        },
        "selections": {key: SELECTION_TEXT[key] for key in dict.fromkeys(table.selection for table in tables)},
        "methods": {key: method_name(key) for key in methods},
        "full_supervision": [key for key in methods if is_full_supervision(key)],
        "measures": list(METRICS),
        "cells": cells,
        "failed": [cell for cell in cells if cell["failed"]],
        "environment": {str(name): setting_words(value) for name, value in environment.items()},
        "recorded": {
            column: {setting_words(read_json(text)): count for text, count in found.items()}
            for column, found in counts.items()
        },
    }


def _facts(frame: pd.DataFrame) -> dict[str, Any]:
    finished = frame["status"] == "ok"
    return {
        "done": int(finished.sum()),
        "failed": int((~finished).sum()),
        "datasets": int(frame["dataset"].nunique()),
        "methods": int(frame["method"].nunique()),
        "trials": int(frame["trial"].nunique()),
        "time": duration(fsum(frame["seconds"].dropna())),
        "megabytes": float(frame["peak_megabytes"].max()),
        "studies": sorted({f"{name} {code}" for name, code in zip(frame["study"], frame["study_hash"], strict=True)}),
    }


def duration(seconds: float) -> str:
    """Return a time in the two units that matter: ``3 h 12 min``, ``4 min 10 s``, ``12.5 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _verdict(table: MainTable) -> str:
    """Name the method with the best average rank."""
    # By rank alone: methods that share one stay in the table's order.
    ranked = sorted(table.average_ranks.items(), key=lambda pair: pair[1])
    rule = SELECTION_TEXT[table.selection]["text"]
    if len(ranked) < 2:
        return f"Settings {rule}: no data set has all trials of every method yet, so methods are not ranked."
    complete, rows = len(table.ranked_datasets), _shown(table)
    share = f"all {complete}" if complete == len(rows) else f"the {complete} complete of {len(rows)}"
    score = f"{ranked[0][1]:.2f}"
    best = [method_name(key) for key, rank in ranked if f"{rank:.2f}" == score]
    start = f"Settings {rule}: on {share} data sets, {' and '.join(best)}"
    if len(best) > 1:
        return f"{start} share the best average rank by average precision, {score} of {len(ranked)}."
    return (
        f"{start} has the best average rank by average precision, {score} of {len(ranked)}; "
        f"next is {method_name(ranked[1][0])} with {ranked[1][1]:.2f}."
    )


def _shown(table: MainTable) -> list[str]:
    return [name for name in table.datasets if any(table.cells[name, key].count for key in table.methods)]
