"""Blocks over all studies together: the best method of each data set, average ranks with seconds, who is level."""

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

import pandas as pd

from onepos import AutoClassifier
from onepos_studies.study.spec import MethodEntry, is_full_supervision
from onepos_studies.study.tables import Cell, Grid
from onepos_studies.study.tables.formats import NOTHING, short
from results_page.layout import write
from results_page.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

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
#: A time budget of more seconds than this is none.
LONGEST = 1e6
#: Data sets whose seconds per fit are shown.
TIMED = ("yeast", "corel5k", "tmc2007", "delicious")


def rows_of(sources: Mapping[str, Source]) -> pd.DataFrame:
    """Good rows of all studies, of the methods that have all trials on a data set; each method of a data set once."""
    parts = [
        source.whole(dataset, rule).assign(study=name)
        for name, rule in RULES.items()
        if not (source := sources[name]).absent
        for dataset in source.study.datasets
    ]
    if not parts:
        return pd.DataFrame(columns=["dataset", "method", "trial", "average_precision", "seconds", "study"])
    return pd.concat(parts).drop_duplicates(["dataset", "method", "trial"])


def means(sources: Mapping[str, Source]) -> dict[str, dict[str, float]]:
    """Mean average precision by data set and method."""
    tables, auto = sources["tables"].study.datasets, sources["auto"].study.datasets
    datasets = dict.fromkeys([*sources["smile-paper"].datasets, *tables, *auto])
    rows = rows_of(sources)
    found = rows.groupby(["dataset", "method"])["average_precision"].mean()
    return {
        name: {str(method): float(value) for method, value in found[name].items()} if name in found else {}
        for name in datasets
    }


def best_block(sources: Mapping[str, Source]) -> str:
    """The best single method and ``auto`` beside the best full supervision, on each data set."""
    autos = {method.name: _label(method) for method in sources["auto"].study.methods}
    rows = []
    kept: dict[str, list[float]] = {name: [] for name in ("best", *autos)}
    for dataset, values in means(sources).items():
        ceiling = _best({method: value for method, value in values.items() if is_full_supervision(method)})
        single = _best({method: value for method, value in values.items() if _is_single(method)})
        if ceiling is None or single is None:
            rows.append((Cell(dataset), *[Cell(NOTHING)] * (3 + 2 * len(autos))))
            continue
        found = {name: values.get(name, float("nan")) for name in autos}
        shares = {name: value / ceiling[1] for name, value in {"best": single[1], **found}.items()}
        for name, share in shares.items():
            kept[name] += [share] if share == share else []
        rows.append(
            (
                Cell(dataset),
                Cell(f"{single[0]} {short(single[1])}"),
                *(Cell(short(value), bold=value >= single[1] - LEVEL) for value in found.values()),
                Cell(f"{ceiling[0]} {short(ceiling[1])}"),
                *(Cell(_percent(share)) for share in shares.values()),
            )
        )
    header = ("data set", "best single method", *autos.values(), "best full supervision", "kept by the best")
    header += tuple(f"by {label}" for label in autos.values())
    notes = [
        "Mean average precision over five trials. Kept: share of the best full supervision. Bold: auto is at most "
        f"{short(LEVEL)} behind the best single method. auto sees single positives only. So do all methods on netflix; "
        "on the other sets single methods are chosen on complete validation labels."
    ]
    if kept["best"]:
        said = [f"the best single method keeps {_percent(fmean(kept['best']))}"]
        said += [f"{label} {_percent(fmean(kept[name]))}" for name, label in autos.items() if kept[name]]
        notes.append(f"In the mean over data sets {', '.join(said)}.")
    return write(Grid("Best", header, tuple(rows), notes=tuple(notes)))


def _label(method: MethodEntry) -> str:
    """Return what an entry of ``auto`` is called, with its seconds."""
    seconds = method.fixed.get("time_budget", AutoClassifier().time_budget)
    return "auto, no limit" if seconds > LONGEST else f"auto, {seconds:g} s"


def longer(sources: Mapping[str, Source]) -> pd.DataFrame:
    """Mean average precision by data set over the trials of ``auto-300``, and its seconds.

    ``method`` is the best single method on these trials, ``single`` what it has.
    """
    source, others = sources["auto-300"], rows_of(sources)
    others = others[others["trial"] < source.study.trials]
    found = {}
    for dataset in source.datasets:
        own, rivals = source.whole(dataset, "single-positive"), others[others["dataset"] == dataset]
        values = {str(name): float(ap) for name, ap in rivals.groupby("method")["average_precision"].mean().items()}
        single = _best({method: value for method, value in values.items() if _is_single(method)})
        if len(own) and single is not None and "auto" in values:
            method, value = single
            longest = {"auto-300": own["average_precision"].mean(), "seconds": own["seconds"].mean()}
            found[dataset] = {"method": method, "single": value, "auto": values["auto"], **longest}
    return pd.DataFrame.from_dict(found, orient="index")


def longer_block(sources: Mapping[str, Source]) -> str:
    """One line per data set: what five times the default time gives."""
    lines = [
        (
            Cell(str(dataset)),
            Cell(f"{row['method']} {short(row['single'])}"),
            Cell(short(row["auto"])),
            Cell(short(row["auto-300"]), bold=row["auto-300"] >= max(row["single"], row["auto"])),
            Cell(short(row["auto-300"] - row["auto"], sign=True)),
            Cell(f"{row['seconds']:.0f}"),
        )
        for dataset, row in longer(sources).iterrows()
    ]
    header = ("data set", "best single method", "auto, 60 s", "auto, 300 s", "gain", "seconds")
    notes = (
        f"Mean average precision over the first {sources['auto-300'].study.trials} trials; seconds that the cells with "
        "300 s took (load, fit, score). Bold: the best of the line.",
    )
    return write(Grid("Longer", header, tuple(lines), notes=notes))


def overview_block(sources: Mapping[str, Source]) -> str:
    """Average rank of every method by average precision over the paper's sets, and seconds of a fit."""
    rows = rows_of(sources)
    datasets = sources["smile-paper"].datasets
    wide = rows[rows["dataset"].isin(datasets)].pivot_table(
        index="dataset", columns="method", values="average_precision", observed=True
    )
    ranked = [method for method in wide.columns if not is_full_supervision(method) and wide[method].notna().all()]
    if len(wide) < len(datasets) or not ranked:
        return "Not made yet: some data sets have no method with all trials."
    ranks = wide[ranked].rank(axis=1, ascending=False).mean().sort_values()
    full = [method for method in wide.columns if is_full_supervision(method) and wide[method].notna().all()]
    # The first trial tries the whole grid; on larger sets the others train the setting that it chose.
    fits = rows[rows["trial"] > 0].groupby(["method", "dataset"])["seconds"].median()
    lines = [_overview_line(method, ranks.get(method), wide[method].mean(), fits) for method in (*ranks.index, *full)]
    header = ("method", "average rank", "mean", *(f"{name}, s" for name in TIMED))
    notes = [
        f"Average rank by average precision over the {len(datasets)} data sets with the paper's features, among "
        f"{len(ranked)} methods, 1 is best; mean average precision over them; median seconds of a cell after the first "
        "trial (load, fit, score; on yeast also the choice of a setting). Full supervision is outside the ranking."
    ]
    return write(Grid("Overview", header, tuple(lines), notes=tuple(notes)))


def _overview_line(
    method: str, rank: float | None, mean: float, fits: "pd.Series[float]"
) -> "tuple[Cell, ...] | Sequence[Cell]":
    seconds = [fits.get((method, dataset), float("nan")) for dataset in TIMED]
    shown = [NOTHING if value != value else f"{value:.1f}" if value < 10 else f"{value:.0f}" for value in seconds]
    return (Cell(method), Cell(NOTHING if rank is None else f"{rank:.2f}"), Cell(short(mean)), *map(Cell, shown))


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


def _is_single(method: str) -> bool:
    return not is_full_supervision(method) and not method.startswith("auto")


def _percent(share: float) -> str:
    return NOTHING if share != share else f"{share:.1%}"


def _best(values: Mapping[str, float]) -> tuple[str, float] | None:
    return max(values.items(), key=lambda pair: pair[1]) if values else None
