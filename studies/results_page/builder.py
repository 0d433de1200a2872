"""Everything that is made from the committed results files: made in memory, then written or compared."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onepos.metrics import METRICS
from onepos.pages.figures import figure_svg
from onepos_studies.study.figures import save_figure
from results_page import best_blocks, label_blocks, main_blocks
from results_page.drawings import Drawing, chosen_tags, draw
from results_page.source import Source, load_sources

METHODS, FIGURES = "docs/methods/README.md", "docs/figures"
RESULTS, THRESHOLDS, CHOOSING = "docs/results.md", "docs/thresholds.md", "docs/choosing.md"
CHOSEN = "docs/chosen-tags.md"
PAPER, ABLATION, MODERN = (f"docs/results/{name}.md" for name in ("smile-paper", "ablation", "newer-methods"))
#: The pages with generated blocks.
PAGES = (METHODS, RESULTS, PAPER, ABLATION, MODERN, THRESHOLDS, CHOOSING, CHOSEN)
#: Where a figure stands; all others are on the page of the paper's evaluation.
FIGURE_PAGES = {
    "sufficiency-tmc2007": RESULTS,
    "equal-labels": RESULTS,
    "ranks-average-precision": RESULTS,
    "epochs-scene-ablation": ABLATION,
    "chosen-tags": CHOSEN,
}
_BLOCK = re.compile(r"<!-- begin (.+?) -->\n(.*?)\n?<!-- end (.+?) -->", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Made:
    """What the results files give: the text of each file, pictures in SVG among them, and the drawings."""

    texts: Mapping[str, str]
    drawings: list[Drawing]


def page_blocks(root: Path, sources: Mapping[str, Source], drawings: list[Drawing]) -> dict[str, dict[str, str]]:
    """Return the blocks of each page by name."""
    paper, ablation = sources["smile-paper"], sources["ablation"]
    dashed = {metric: metric.replace("_", "-") for metric in METRICS}
    blocks = {
        METHODS: {"average-precision": main_blocks.methods_table(paper)},
        RESULTS: {
            "provenance": main_blocks.provenance_block(sources),
            "overview": best_blocks.overview_block(sources),
            "best": best_blocks.best_block(sources),
            "bias": label_blocks.bias_block(sources["bias"]),
            "enhancement average-precision": main_blocks.metric_block(sources["enhancement"]),
        },
        PAPER: {
            **{f"smile-paper {name}": main_blocks.metric_block(paper, metric) for metric, name in dashed.items()},
            "smile-paper ranks": main_blocks.rank_block(paper),
            "smile-paper published": main_blocks.published_block(paper),
            "smile-paper significance": main_blocks.significance_block(paper),
            "smile-paper selection": main_blocks.selection_block(paper),
            "smile-paper cost": main_blocks.cost_block(paper),
        },
        ABLATION: {
            **{f"ablation {name}": main_blocks.narrow_block(ablation, metric) for metric, name in dashed.items()},
            "ablation significance": main_blocks.significance_block(ablation),
        },
        MODERN: {"modern average-precision": main_blocks.metric_block(sources["modern"])},
        CHOOSING: {"level": best_blocks.level_block(sources)},
        THRESHOLDS: {"thresholds": label_blocks.threshold_block(root)},
        CHOSEN: {"natural": label_blocks.natural_block(root), "planner": label_blocks.planner_block(root)},
    }
    for drawing in drawings:
        page = FIGURE_PAGES.get(drawing.name, PAPER)
        blocks[page][f"figure {drawing.name}"] = drawing.block("figures" if page in (RESULTS, CHOSEN) else "../figures")
    return blocks


def make(root: Path) -> Made:
    """Make every text and figure from the results files below ``root``."""
    sources = load_sources(root)
    drawings = [*draw(sources), chosen_tags(root)]
    texts = {
        page: replace_blocks((root / page).read_text(encoding="utf-8"), blocks, page)
        for page, blocks in page_blocks(root, sources, drawings).items()
    }
    pictures = {f"{FIGURES}/{drawing.name}.svg": figure_svg(drawing.figure) for drawing in drawings}
    return Made(texts | pictures, drawings)


def out_of_step(made: Made, root: Path) -> list[str]:
    """Name the files that differ from what was made; of PNG pictures, those missing."""
    wrong = [
        file
        for file, text in made.texts.items()
        if not (root / file).is_file() or (root / file).read_text(encoding="utf-8") != text
    ]
    pictures = [f"{FIGURES}/{drawing.name}.png" for drawing in made.drawings]
    return wrong + [file for file in pictures if not (root / file).is_file()]


def write(made: Made, root: Path) -> None:
    """Write what is out of step."""
    wrong = {Path(file).with_suffix("").as_posix() for file in out_of_step(made, root)}
    for page in PAGES:
        if Path(page).with_suffix("").as_posix() in wrong:
            (root / page).write_text(made.texts[page], encoding="utf-8")
    for drawing in made.drawings:
        if f"{FIGURES}/{drawing.name}" in wrong:
            (root / FIGURES).mkdir(parents=True, exist_ok=True)
            save_figure(drawing.figure, root / FIGURES / drawing.name)


def replace_blocks(text: str, blocks: Mapping[str, str], where: str) -> str:
    """Put each block between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; all else is kept.

    The text must have each of them once, in any order, and no other.
    """
    places = _BLOCK.findall(text)
    names = [begin for begin, _, end in places if begin == end]
    markers = len(re.findall(r"<!-- (?:begin|end) ", text))
    if sorted(names) != sorted(blocks) or markers != 2 * len(blocks):
        raise ValueError(
            f"{where}: expected a begin and an end marker for each of {', '.join(sorted(blocks))}; found "
            f"{', '.join(sorted(names)) or 'none'} and {markers} markers"
        )
    return _BLOCK.sub(
        lambda place: f"<!-- begin {place[1]} -->\n{blocks[place[1]].strip()}\n<!-- end {place[1]} -->", text
    )
