"""Blocks over all studies together: the best method of each data set, and which methods are next to it."""

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

from onepos.study.spec import is_full_supervision
from onepos.study.tables import Cell, Grid
from onepos.study.tables.formats import NOTHING, short
from results_page.layout import write
from results_page.source import Source

if TYPE_CHECKING:
    import pandas as pd

#: What "something new" has to beat: the paper's method and the networks that need no idea.
PLAIN = ("an", "wan", "softmax", "smile")
#: Chosen and combined by single positives; all others have chosen on complete validation labels.
BY_SINGLES = ("auto",)
#: Average precisions that are nearer to the best than this are level with it.
LEVEL = 0.005


def means(sources: Mapping[str, Source]) -> "dict[str, dict[str, float]]":
    """Mean average precision by data set and method, where all trials are done.

    Methods are selected on complete validation labels, ``auto`` by single positives.
    """
    found: dict[str, dict[str, float]] = {dataset: {} for dataset in sources["smile-paper"].exact}
    for source in sources.values():
        if source.absent or source.study.name not in ("smile-paper", "ablation", "modern", "auto"):
            continue
        for dataset in found:
            for rule in ("clean", "single-positive"):
                rows = source.whole(dataset, rule)
                rows = rows[rows["method"].isin(BY_SINGLES) == (rule == "single-positive")]
                found[dataset] |= _by_method(rows)
    return found


def best_block(sources: Mapping[str, Source]) -> str:
    """The best of the plain networks, of all methods and ``auto`` beside full supervision, on each data set."""
    rows, kept, closed = [], {"best": [], "auto": []}, []
    for dataset, values in means(sources).items():
        ceiling = max((value for method, value in values.items() if is_full_supervision(method)), default=float("nan"))
        rivals = {method: value for method, value in values.items() if not is_full_supervision(method)}
        plain = _best({method: rivals[method] for method in PLAIN if method in rivals})
        best = _best(rivals)
        auto = rivals.get("auto", float("nan"))
        if plain is None or best is None or not ceiling > 0:
            rows.append((Cell(dataset), *[Cell(NOTHING)] * 6))
            continue
        share = (best[1] - plain[1]) / (ceiling - plain[1])
        closed.append(share)
        kept["best"].append(best[1] / ceiling)
        if auto == auto:
            kept["auto"].append(auto / ceiling)
        rows.append(
            (
                Cell(dataset),
                Cell(f"{plain[0]} {short(plain[1])}"),
                Cell(f"{best[0]} {short(best[1])}"),
                Cell(short(auto), bold=auto >= best[1] - LEVEL),
                Cell(short(ceiling)),
                Cell(f"{best[1] / ceiling:.1%}"),
                Cell(f"{share:.0%}" if ceiling > plain[1] else NOTHING),
            )
        )
    header = ("data set", "best of an, wan, softmax, smile", "best of all", "auto", "bce", "kept", "closed")
    notes = [
        "Means over five trials. Kept: the best method's share of full supervision's average precision. Closed: how "
        f"much of the distance from the second column to bce it closes. Bold: auto is within {short(LEVEL)} of the "
        "best. auto is chosen by single positives, all others on complete validation labels."
    ]
    if kept["best"]:
        text = f"In the mean over data sets the best method keeps {fmean(kept['best']):.1%}"
        notes.append(text + (f", auto {fmean(kept['auto']):.1%}." if kept["auto"] else "."))
    return write(Grid("Best", header, tuple(rows), notes=tuple(notes)))


def level_block(sources: Mapping[str, Source]) -> str:
    """The methods that are level with the best on each data set, best first, and those that are far behind."""
    rows = []
    for dataset, values in means(sources).items():
        rivals = {method: value for method, value in values.items() if not is_full_supervision(method)}
        order = sorted(rivals, key=lambda method: (-rivals[method], method))
        top = rivals[order[0]] if order else float("nan")
        level = [method for method in order if rivals[method] >= top - LEVEL]
        behind = [method for method in order if rivals[method] < top - 0.05]
        rows.append((Cell(dataset), Cell(short(top)), Cell(", ".join(level)), Cell(", ".join(behind))))
    header = ("data set", "best", "within .005 of it", "more than .05 behind")
    return write(Grid("Level", header, tuple(rows), text_columns=4))


def _by_method(rows: "pd.DataFrame") -> dict[str, float]:
    if not len(rows):
        return {}
    return {str(method): float(value) for method, value in rows.groupby("method")["average_precision"].mean().items()}


def _best(values: Mapping[str, float]) -> tuple[str, float] | None:
    return max(values.items(), key=lambda pair: pair[1]) if values else None
