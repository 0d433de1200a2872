"""The figures that a study's results can fill, with their captions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from onepos.figures import calibration, convergence, critical_difference, epochs, sufficiency
from onepos.figures.records import read_json
from onepos.metrics import METRICS
from onepos.tables import rank_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class StudyFigure(NamedTuple):
    """A drawing, a name for its files, and what it shows in a sentence."""

    name: str
    caption: str
    figure: "Figure"


def study_figures(frame: "pd.DataFrame") -> Iterator[StudyFigure]:
    """Yield every figure that the results have data for.

    Parameters
    ----------
    frame : DataFrame
        From ``onepos.study.load_results``.
    """
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
        if _has(part["curve"], "test"):
            caption = f"Test average precision on {name} by epoch{chosen}. Nothing was chosen by this curve."
            yield StudyFigure(f"epochs-{name}{by_rule}", caption, epochs(part[part["curve"].map(_traced)]))
        settled = part[part["extra"].map(lambda text: bool((read_json(text) or {}).get("soft_label_change")))]
        if len(settled):
            caption = f"How much the recovered soft labels D change from epoch to epoch on {name}{chosen}."
            yield StudyFigure(f"convergence-{name}{by_rule}", caption, convergence(settled))
        recovered = part[part["extra"].map(lambda text: bool((read_json(text) or {}).get("calibration")))]
        if len(recovered):
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


def _traced(text: str) -> bool:
    return "test" in (read_json(text) or {})


def _has(column: "pd.Series", name: str) -> bool:
    return any(name in (read_json(text) or {}) for text in column)
