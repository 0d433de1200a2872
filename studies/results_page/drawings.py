"""The figures of the pages."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from onepos.pages.figures import FAINT, INK, PAPER, TEXT, label_axes, new_figure
from onepos_studies.study import figures
from onepos_studies.study.figures import recorded
from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import ALPHA, metric_ranks
from results_page.label_blocks import SHARES, equal_labels
from results_page.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawing(NamedTuple):
    """A figure's name, the figure and its caption."""

    name: str
    figure: "Figure"
    caption: str

    def block(self, folder: str) -> str:
        """Return what stands on a page from which the figures are in ``folder``."""
        return f"![{self.name}]({folder}/{self.name}.svg)\n\n{self.caption}"


def draw(sources: Mapping[str, Source]) -> list[Drawing]:
    """Draw everything."""
    paper, ablation, sizes = sources["smile-paper"], sources["ablation"], sources["sufficiency"]
    band = "; bands are one standard deviation over trials"
    by_size = "Test average precision on tmc2007 by number of training rows, mean over trials"
    by_epoch = "Test average precision on scene by epoch, to the end of the shortest trial; nothing was chosen by it"
    change = f"Mean change of a soft label D from epoch to epoch on delicious{band}"
    reliable = (
        "Share of unobserved labels of yeast that are truly present, by the soft label D; below, how many there are"
    )
    traced, moved = recorded(paper.of("scene"), "curve", "test"), paper.of("delicious")
    pairs = [
        ("sufficiency-tmc2007", figures.sufficiency(sizes.of("tmc2007")), sizes, by_size),
        ("equal-labels", _equal_labels(sizes), sizes, _EQUAL_LABELS),
        ("epochs-scene", figures.epochs(traced), paper, by_epoch),
        ("epochs-scene-ablation", figures.epochs(ablation.of("scene")), ablation, by_epoch + band),
        ("convergence-delicious", figures.convergence(moved), paper, change),
        ("ranks-average-precision", *_ranks(paper)),
        ("calibration-yeast", figures.calibration(paper.of("yeast")), paper, reliable),
    ]
    return [
        Drawing(name, figure, f"{caption}. Study `{source.study.name}`, {source.study.trials} trials.")
        for name, figure, source, caption in pairs
    ]


_EQUAL_LABELS = (
    "The same number of labels, spent on all labels of n/m training rows or on one label of each of n rows; the best "
    "method of each kind"
)


def chosen_tags(root: Path) -> Drawing:
    """Draw of two tables each label's share of the tags against the share that even choice would give."""
    frame = pd.read_csv(root / SHARES)
    figure, (axes,) = new_figure(3.2)
    for name, what, fill in (("swi", "swi, trees of Switzerland", PAPER), ("nz", "nz, plants of New Zealand", INK)):
        rows = frame[frame["table"] == name]
        look = {"markersize": 4, "markerfacecolor": fill, "markeredgecolor": INK}
        axes.plot(100 * rows["even"], 100 * rows["tagged"], "o", label=what, **look)
    most = 105 * frame.loc[frame["table"].isin(("nz", "swi")), ["tagged", "even"]].to_numpy().max()
    axes.plot([0, most], [0, most], color=FAINT, linewidth=1.0, zorder=1)
    label_axes(axes, "share of the tags if drawn evenly (%)", "share of the tags (%)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=TEXT)
    caption = (
        "One dot per label. On the line a label is tagged as often as if each row's tag were drawn evenly from its "
        "labels. On nz the tags say next to nothing about which labels are frequent."
    )
    return Drawing("chosen-tags", figure, caption)


def _equal_labels(source: Source) -> "Figure":
    """Draw one line per data set: the best with all labels of few rows, and the best with one label of many rows."""
    pairs = equal_labels(source)
    figure, (axes,) = new_figure(0.7 + 0.32 * len(pairs))
    for place, (few, many) in enumerate(reversed(pairs.values())):
        ends = max(few.values()), max(many.values())
        axes.plot(ends, [place, place], color=FAINT, linewidth=1.5, zorder=1)
        axes.plot(ends[0], place, "o", markersize=6, markerfacecolor=PAPER, markeredgecolor=INK)
        axes.plot(ends[1], place, "o", markersize=6, color=INK)
    axes.plot([], [], "o", markerfacecolor=PAPER, markeredgecolor=INK, label="all labels, n/m rows")
    axes.plot([], [], "o", color=INK, label="one label per row, n rows")
    axes.set_yticks(range(len(pairs)), list(reversed(pairs)))
    axes.set_ylim(-0.6, len(pairs) - 0.4)
    label_axes(axes, "test average precision (higher is better)", "")
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, frameon=False, fontsize=TEXT)
    return figure


def _ranks(source: Source) -> "tuple[Figure, Source, str]":
    methods = [method for method in source.methods if not is_full_supervision(method)]
    ranks = metric_ranks(source.rows, "average_precision", methods=methods)
    assert ranks is not None
    figure = figures.critical_difference(ranks.average_ranks, ranks.critical_difference)
    caption = (
        f"Average ranks by average precision over {len(ranks.datasets)} data sets; methods whose bars overlap do not "
        f"differ at {ALPHA:g} (Nemenyi)"
    )
    return figure, source, caption
