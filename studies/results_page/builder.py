"""Everything that is made from the committed results files: made in memory, then written or compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onepos.metrics import METRICS
from onepos_studies.study.figures import figure_svg, save_figure
from results_page.best_blocks import best_block, level_block, longer_block, overview_block
from results_page.cost_block import cost_block, provenance_block
from results_page.drawings import Drawing, draw
from results_page.label_blocks import bias_block, equal_labels_block
from results_page.main_blocks import methods_table, metric_block, narrow_block, published_block, selection_block
from results_page.markers import replace_between, replace_blocks
from results_page.rank_blocks import rank_block, significance_block
from results_page.source import Source, load_sources
from results_page.threshold_block import threshold_block

METHODS, FIGURES = "docs/methods/README.md", "docs/figures"
RESULTS, THRESHOLDS, CHOOSING = "docs/results.md", "docs/thresholds.md", "docs/choosing.md"
PAPER, ABLATION, MODERN = (f"docs/results/{name}.md" for name in ("smile-paper", "ablation", "newer-methods"))
#: The pages with generated blocks.
PAGES = (RESULTS, PAPER, ABLATION, MODERN, THRESHOLDS, CHOOSING)
#: Where a figure stands; all others are on the page of the paper's evaluation.
FIGURE_PAGES = {
    "sufficiency-tmc2007": RESULTS,
    "equal-labels": RESULTS,
    "ranks-average-precision": RESULTS,
    "epochs-scene-ablation": ABLATION,
}
MARKERS = ("<!-- table: average precision -->", "<!-- end of table -->")


@dataclass(frozen=True)
class Change:
    """A file that is out of step, and in what."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(frozen=True, eq=False)
class Made:
    """What the results files give.

    Attributes
    ----------
    texts : mapping of file to its whole new text
    drawings : tuple of Drawing
    changes : tuple of Change
        What differs from what is there.
    notes : tuple of str
        What was left out, and why.
    """

    texts: Mapping[str, str]
    drawings: tuple[Drawing, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]


def page_blocks(root: Path, sources: Mapping[str, Source], drawings: tuple[Drawing, ...]) -> dict[str, dict[str, str]]:
    """Return the blocks of each page by name."""
    paper, ablation = sources["smile-paper"], sources["ablation"]
    average_precision = partial(metric_block, metric="average_precision")
    makers: dict[str, dict[str, tuple[Source, Callable[[Source], str]]]] = {
        RESULTS: {
            "enhancement average-precision": (sources["enhancement"], average_precision),
            "equal labels": (sources["sufficiency"], equal_labels_block),
            "bias": (sources["bias"], bias_block),
        },
        PAPER: {
            **{f"smile-paper {_dashed(metric)}": (paper, partial(metric_block, metric=metric)) for metric in METRICS},
            "smile-paper ranks": (paper, rank_block),
            "smile-paper published": (paper, published_block),
            "smile-paper significance": (paper, significance_block),
            "smile-paper selection": (paper, selection_block),
            "smile-paper cost": (paper, cost_block),
        },
        ABLATION: {
            **{f"ablation {_dashed(metric)}": (ablation, partial(narrow_block, metric=metric)) for metric in METRICS},
            "ablation significance": (ablation, significance_block),
        },
        MODERN: {"modern average-precision": (sources["modern"], average_precision)},
    }
    blocks = {
        page: {name: source.absent or maker(source) for name, (source, maker) in own.items()}
        for page, own in makers.items()
    }
    for drawing in drawings:
        page = FIGURE_PAGES.get(drawing.name, PAPER)
        blocks[page][f"figure {drawing.name}"] = drawing.block("figures" if page == RESULTS else "../figures")
    blocks[RESULTS]["provenance"] = provenance_block(sources)
    blocks[RESULTS]["best"] = paper.absent or best_block(sources)
    blocks[RESULTS]["longer"] = sources["auto-300"].absent or longer_block(sources)
    blocks[RESULTS]["overview"] = paper.absent or overview_block(sources)
    blocks[CHOOSING] = {"level": paper.absent or level_block(sources)}
    blocks[THRESHOLDS] = {"thresholds": threshold_block(root)}
    return blocks


def make(root: Path) -> Made:
    """Make every text and figure from the results files below ``root``, and compare them with what is there."""
    sources = load_sources(root)
    drawings = tuple(draw(sources))
    texts, changes = {}, []
    for page, blocks in page_blocks(root, sources, drawings).items():
        texts[page], changed = replace_blocks(_read(root, page), blocks, page)
        changes += [Change(page, f"block {name!r}") for name in changed]
    texts[METHODS], unready = _methods(root, sources["smile-paper"])
    if texts[METHODS] != _read(root, METHODS):
        changes.append(Change(METHODS, "the table of average precision"))
    changes += [change for drawing in drawings for change in _changes_of(root, drawing)]
    notes = [f"{name}: {source.absent}" for name, source in sources.items() if source.absent]
    notes += [f"figure {drawing.name}: {drawing.text}" for drawing in drawings if drawing.figure is None]
    return Made(texts, drawings, tuple(changes), (*notes, *unready))


def write(made: Made, root: Path) -> None:
    """Write what is out of step, and take away the figures that the results no longer give."""
    out_of_step = {change.file for change in made.changes}
    for file, text in made.texts.items():
        if file in out_of_step:
            (root / file).write_text(text, encoding="utf-8")
    for drawing in made.drawings:
        if not out_of_step & set(_files_of(drawing)):
            continue
        if drawing.figure is not None:
            (root / FIGURES).mkdir(parents=True, exist_ok=True)
            save_figure(drawing.figure, root / FIGURES / drawing.name)
        else:
            for file in _files_of(drawing):
                (root / file).unlink(missing_ok=True)


def _changes_of(root: Path, drawing: Drawing) -> list[Change]:
    """Compare the SVG byte by byte; the PNG, whose bytes depend on the compressor, must be there."""
    svg, png = _files_of(drawing)
    if drawing.figure is None:
        return [
            Change(file, "is there, but the results do not give it") for file in (svg, png) if (root / file).exists()
        ]
    changes = []
    if not (root / svg).is_file():
        changes.append(Change(svg, "is not there"))
    elif (root / svg).read_bytes() != figure_svg(drawing.figure).encode("utf-8"):
        changes.append(Change(svg, "is another picture"))
    if not (root / png).is_file():
        changes.append(Change(png, "is not there"))
    return changes


def _files_of(drawing: Drawing) -> tuple[str, str]:
    return f"{FIGURES}/{drawing.name}.svg", f"{FIGURES}/{drawing.name}.png"


def _methods(root: Path, source: Source) -> tuple[str, list[str]]:
    """Return the list of methods with its new table, or as it is with the reason."""
    text = _read(root, METHODS)
    missing, planned = (int((cells["rule"] == "clean").sum()) for cells in (source.missing, source.planned))
    if missing:
        return text, [
            f"{METHODS}: the table is left alone, as {missing:,} of the {planned:,} cells under clean selection are "
            f"missing in {source.file}"
        ]
    return replace_between(text, *MARKERS, methods_table(source), METHODS), []


def _read(root: Path, file: str) -> str:
    return (root / file).read_text(encoding="utf-8")


def _dashed(metric: str) -> str:
    return metric.replace("_", "-")
