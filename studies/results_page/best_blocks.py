"""Blocks over all studies together: the best method of each data set, average ranks with seconds, who is level."""

from collections.abc import Mapping
from statistics import fmean

import pandas as pd

from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import Cell
from onepos_studies.study.tables.grid import NOTHING, short
from results_page.layout import write
from results_page.source import Source

#: Which rows of a study count here. ``auto`` and the real table are chosen by single positives, all others on complete
#: validation labels.
RULES = {
    "smile-paper": "clean",
    "ablation": "clean",
    "modern": "clean",
    "tables": "single-positive",
    "auto": "single-positive",
}
#: Average precisions that are nearer to the best than this are level with it.
LEVEL = 0.005
#: Data sets whose seconds per fit are shown.
TIMED = ("yeast", "corel5k", "tmc2007", "delicious")


def rows_of(sources: Mapping[str, Source]) -> pd.DataFrame:
    """Rows of all studies that count here; each method of a data set once."""
    parts = [rows[rows["selection"] == rule] for name, rule in RULES.items() for rows in [sources[name].rows]]
    return pd.concat(parts).drop_duplicates(["dataset", "method", "trial"])


def means(sources: Mapping[str, Source], trials: int | None = None) -> dict[str, dict[str, float]]:
    """Mean average precision by data set and method, over the first ``trials`` or all."""
    rows = rows_of(sources)
    rows = rows if trials is None else rows[rows["trial"] < trials]
    values = rows.groupby(["dataset", "method"], sort=False)["average_precision"].mean()
    datasets = dict.fromkeys(name for rule in ("smile-paper", "tables", "auto") for name in sources[rule].datasets)
    return {
        name: {str(method): float(one) for method, one in values[name].items()} for name in datasets if name in values
    }


def best(values: Mapping[str, float], *, full: bool = False) -> tuple[str, float]:
    """Return the best single method, or the best full supervision, and its value."""
    kinds = {name: value for name, value in values.items() if name != "auto" and is_full_supervision(name) == full}
    return max(kinds.items(), key=lambda pair: pair[1])


def best_block(sources: Mapping[str, Source]) -> str:
    """The best single method and ``auto`` beside the best full supervision, on each data set."""
    lines: list[tuple[str | Cell, ...]] = []
    shares: list[tuple[float, float]] = []
    for dataset, values in means(sources).items():
        (single, ours), (ceiling, most), auto = best(values), best(values, full=True), values.get("auto", float("nan"))
        shares.append((ours / most, auto / most))
        shown = Cell(short(auto), bold=auto >= ours - LEVEL)
        texts = (f"{ceiling} {short(most)}", *(f"{share:.1%}" for share in shares[-1]))
        lines.append((dataset, f"{single} {short(ours)}", shown, *texts))
    header = (
        "data set",
        "best single method",
        "auto, 60 s",
        "best full supervision",
        "kept by the best",
        "by auto, 60 s",
    )
    notes = [
        "Mean average precision over five trials. Kept: share of the best full supervision. Bold: auto is at most "
        f"{short(LEVEL)} behind the best single method. auto sees single positives only. So do all methods on netflix; "
        "on the other sets single methods are chosen on complete validation labels."
    ]
    kept = [f"{fmean(part):.1%}" for part in zip(*shares, strict=True)]
    notes.append(f"In the mean over data sets the best single method keeps {kept[0]}, auto, 60 s {kept[1]}.")
    return write(header, lines, *notes)


def overview_block(sources: Mapping[str, Source]) -> str:
    """Average rank of every method by average precision over the paper's sets, and seconds of a fit."""
    rows = rows_of(sources)
    datasets = sources["smile-paper"].datasets
    rows = rows[rows["dataset"].isin(datasets)]
    wide = rows.pivot_table(index="dataset", columns="method", values="average_precision").dropna(axis=1)
    ranked = [method for method in wide.columns if not is_full_supervision(method)]
    ranks = wide[ranked].rank(axis=1, ascending=False).mean().sort_values()
    # The first trial tries the whole grid; on larger sets the others train the setting that it chose.
    fits = rows[rows["trial"] > 0].groupby(["method", "dataset"])["seconds"].median()
    lines: list[tuple[str | Cell, ...]] = []
    for method in [*ranks.index, *(name for name in wide.columns if name not in ranks)]:
        seconds = [fits.get((method, dataset), float("nan")) for dataset in TIMED]
        shown = [NOTHING if value != value else f"{value:.1f}" if value < 10 else f"{value:.0f}" for value in seconds]
        rank = f"{ranks[method]:.2f}" if method in ranks else NOTHING
        lines.append((method, rank, short(wide[method].mean()), *shown))
    note = (
        f"Average rank by average precision over the {len(datasets)} data sets with the paper's features, among "
        f"{len(ranked)} methods, 1 is best; mean average precision over them; median seconds of a cell after the first "
        "trial (load, fit, score; on yeast also the choice of a setting). Full supervision is outside the ranking."
    )
    return write(("method", "average rank", "mean", *(f"{name}, s" for name in TIMED)), lines, note)


def level_block(sources: Mapping[str, Source]) -> str:
    """The methods that are level with the best on each data set, best first, and those that are far behind."""
    lines: list[tuple[str | Cell, ...]] = []
    for dataset, values in means(sources).items():
        rivals = {method: value for method, value in values.items() if not is_full_supervision(method)}
        order = sorted(rivals, key=lambda method: (-rivals[method], method))
        top = rivals[order[0]]
        level = [method for method in order if rivals[method] >= top - LEVEL]
        behind = [method for method in order if rivals[method] < top - 0.05]
        lines.append((dataset, short(top), ", ".join(level), ", ".join(behind)))
    return write(("data set", "best", "within .005 of it", "more than .05 behind"), lines, text_columns=4)
