"""The figures of the pages: each is drawn when every trial that it needs is there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from onepos.pages.figures import FAINT, INK, PAPER, TEXT, label_axes, new_figure
from onepos_studies.study.figures import calibration, convergence, critical_difference, epochs, read_json, sufficiency
from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import rank_table
from onepos_studies.study.tables.significance import ALPHA
from results_page.label_blocks import equal_labels
from results_page.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[pd.DataFrame], "Figure"]


@dataclass(frozen=True)
class Drawing:
    """A figure's name, the figure (None: not drawn) and its caption, or a sentence that says why it is not drawn."""

    name: str
    figure: "Figure | None"
    text: str

    def block(self, folder: str) -> str:
        """Return what stands on a page from which the figures are in ``folder``."""
        if self.figure is None:
            return self.text
        return f"![{self.name}]({folder}/{self.name}.svg)\n\n{self.text}"


def draw(sources: Mapping[str, Source]) -> list[Drawing]:
    """Draw what can be drawn."""
    paper, ablation, sizes = sources["smile-paper"], sources["ablation"], sources["sufficiency"]
    band = "; bands are one standard deviation over trials"
    by_size = "Test average precision on tmc2007 by number of training rows, mean over trials"
    by_epoch = "Test average precision on scene by epoch, to the end of the shortest trial; nothing was chosen by it"
    change = f"Mean change of a soft label D from epoch to epoch on delicious{band}"
    reliable = (
        "Share of unobserved labels of yeast that are truly present, by the soft label D; below, how many there are"
    )
    return [
        _of_dataset("sufficiency-tmc2007", sizes, "tmc2007", sufficiency, None, by_size),
        _equal_labels("equal-labels", sizes),
        _of_dataset("epochs-scene", paper, "scene", epochs, ("curve", "test"), by_epoch),
        _of_dataset("epochs-scene-ablation", ablation, "scene", epochs, ("curve", "test"), by_epoch + band),
        _of_dataset("convergence-delicious", paper, "delicious", convergence, ("extra", "soft_label_change"), change),
        _ranks("ranks-average-precision", paper),
        _of_dataset("calibration-yeast", paper, "yeast", calibration, ("extra", "calibration"), reliable),
    ]


def _of_dataset(
    name: str, source: Source, dataset: str, drawn: Draw, record: tuple[str, str] | None, caption: str
) -> Drawing:
    """Draw the methods that have all trials on a data set and recorded what the figure shows."""
    if source.absent:
        return Drawing(name, None, source.absent)
    rows = source.whole(dataset)
    if record is not None:
        column, key = record
        rows = rows[[bool((read_json(text) or {}).get(key)) for text in rows[column]]]
    if rows.empty:
        return Drawing(name, None, f"Not drawn yet: no method that records it has all trials on {dataset}.")
    missing = source.incomplete(dataset)
    left_out = f" Trials are missing of: {', '.join(f'`{method}`' for method in missing)}." if missing else ""
    study = source.study
    return Drawing(name, drawn(rows), f"{caption}. Study `{study.name}`, {study.trials} trials.{left_out}")


def _equal_labels(name: str, source: Source) -> Drawing:
    """Draw one line per data set: the best with all labels of few rows, and the best with one label of many rows."""
    if source.absent:
        return Drawing(name, None, source.absent)
    found = {dataset: pair for dataset, pair in equal_labels(source).items() if all(pair)}
    if not found:
        return Drawing(name, None, "Not drawn yet: no data set has all trials of methods that see all labels.")
    figure, (axes,) = new_figure(0.7 + 0.32 * len(found))
    for place, (few, many) in enumerate(reversed(found.values())):
        ends = max(few.values()), max(many.values())
        axes.plot(ends, [place, place], color=FAINT, linewidth=1.5, zorder=1)
        axes.plot(ends[0], place, "o", markersize=6, markerfacecolor=PAPER, markeredgecolor=INK)
        axes.plot(ends[1], place, "o", markersize=6, color=INK)
    axes.plot([], [], "o", markerfacecolor=PAPER, markeredgecolor=INK, label="all labels, n/m rows")
    axes.plot([], [], "o", color=INK, label="one label per row, n rows")
    axes.set_yticks(range(len(found)), list(reversed(found)))
    axes.set_ylim(-0.6, len(found) - 0.4)
    label_axes(axes, "test average precision (higher is better)", "")
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, frameon=False, fontsize=TEXT)
    caption = (
        "The same number of labels, spent on all labels of n/m training rows or on one label of each of n rows; the "
        f"best method of each kind. Study `{source.study.name}`, {source.study.trials} trials."
    )
    return Drawing(name, figure, caption)


def _ranks(name: str, source: Source) -> Drawing:
    if source.absent:
        return Drawing(name, None, source.absent)
    methods = [method for method in source.methods if not is_full_supervision(method)]
    made = rank_table(
        source.rows,
        metrics=("average_precision",),
        datasets=source.datasets,
        methods=methods,
        expected_trials=source.study.trials,
    )
    ranks = made.ranks["average_precision"]
    if ranks is None:
        return Drawing(name, None, "Not drawn yet: fewer than two data sets have all trials of every method.")
    groups = [list(group) for group in ranks.cliques]
    figure = critical_difference(ranks.average_ranks, ranks.critical_difference, groups)
    caption = (
        f"Average ranks by average precision over {len(ranks.datasets)} data sets; methods joined by a bar do not "
        f"differ at {ALPHA:g} (Nemenyi)."
    )
    return Drawing(name, figure, caption)
