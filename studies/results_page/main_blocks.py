"""Blocks with means by data set: the main tables, the list of methods, ours beside the paper, both selection rules."""

from dataclasses import replace
from statistics import fmean

from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import PAPER_METHODS, Cell, Grid, compare, main_table, published_value, selection_table
from onepos_studies.study.tables.formats import NOTHING, mean_std, short
from results_page.layout import turned, write, write_bare
from results_page.source import Source


def metric_block(source: Source, metric: str) -> str:
    """Methods down, data sets across, mean±std under clean selection; the last column is the average rank."""
    return write(turned(_main(source, metric)))


def narrow_block(source: Source, metric: str) -> str:
    """Data sets down, methods across: the form for a study of few methods."""
    return write(_main(source, metric))


def methods_table(source: Source) -> str:
    """Average precision, with the paper's SMILE as the last line."""
    grid = turned(_main(source, "average_precision"))
    theirs = [published_value("average_precision", dataset, "smile") for dataset in source.datasets]
    shown = [Cell(mean_std(*value) if value else NOTHING) for value in theirs]
    # The average rank is over other methods than the paper's line is about: it is on the page of results.
    rows = tuple(row[:-1] for row in grid.rows)
    return write_bare(replace(grid, header=grid.header[:-1], rows=(*rows, (Cell("paper: SMILE"), *shown))))


def published_block(source: Source) -> str:
    """Differences of average precision, ours minus the paper's."""
    trials = source.study.trials
    made = compare(
        source.rows,
        metrics=("average_precision",),
        datasets=source.datasets,
        methods=source.methods,
        expected_trials=trials,
    )
    pairs = {(pair.method, pair.dataset): pair for pair in made.pairs}
    rows = []
    for method in source.methods:
        if method not in PAPER_METHODS.values():
            continue
        line = [pairs.get((method, dataset)) for dataset in source.datasets]
        cells = [
            Cell(NOTHING)
            if pair is None
            else Cell(
                short(pair.difference, sign=True),
                mark=f"†{pair.count}" if pair.count < trials else "",
            )
            for pair in line
        ]
        counted = [pair.difference for pair in line if pair and pair.count >= trials]
        mean = Cell(short(fmean(counted), sign=True) if counted else NOTHING)
        rows.append((Cell(method), *cells, mean))
    notes = [
        f"Mean over {trials} trials here minus the paper's mean over five, on other splits; above zero: higher here. "
        f"{NOTHING}: no trial yet.",
        "Mean: over the data sets with all trials.",
    ]
    if any(pair.count < trials for pair in made.pairs):
        notes.append(f"†n: only n of {trials} trials are finished.")
    grid = Grid("Ours minus the paper's", ("method", *source.datasets, "mean"), tuple(rows), notes=tuple(notes))
    return write(grid)


def selection_block(source: Source) -> str:
    """Average precision by what selects the setting: means over data sets, then the difference on each."""
    made = selection_table(
        source.rows, datasets=source.datasets, methods=source.methods, expected_trials=source.study.trials
    )
    lines = {(line.method, line.dataset): line for line in made.lines}
    means, differences, all_kept = [], [], []
    for method in source.methods:
        row = [lines.get((method, dataset)) for dataset in source.datasets]
        both = [line for line in row if line and line.complete]
        clean, single = ([getattr(line, rule).mean for line in both] for rule in ("clean", "single_positive"))
        numbers = [fmean(clean), fmean(single), made.mean_differences[method]] if both else [float("nan")] * 3
        kept = [after / before for before, after in zip(clean, single, strict=True)]
        all_kept += kept if not is_full_supervision(method) else []
        share = f"{fmean(kept):.1%}" if kept else NOTHING
        texts = [short(numbers[0]), short(numbers[1]), short(numbers[2], sign=True), share]
        means.append((Cell(method), Cell(str(len(both))), *map(Cell, texts)))
        shown = [short(line.difference, sign=True) if line and line.complete else NOTHING for line in row]
        differences.append((Cell(method), *map(Cell, shown)))
    header = ("method", "data sets", "clean", "single-positive", "difference", "kept")
    notes = [f"Over the data sets on which both rules have all {source.study.trials} trials."]
    if all_kept:
        notes.append(
            f"Single-positive selection keeps {fmean(all_kept):.1%} of clean selection's average precision in the mean "
            "over all pairs of method and data set, full supervision apart."
        )
    notes.append("Below: the difference, single-positive minus clean, on each data set.")
    upper = Grid("Both rules", header, tuple(means), notes=(" ".join(notes),))
    lower = Grid("Difference", ("method", *source.datasets), tuple(differences))
    return f"{write(upper)}\n\n{write(lower)}"


def _main(source: Source, metric: str) -> Grid:
    trials, datasets = source.study.trials, source.datasets
    return main_table(source.rows, metric, datasets=datasets, methods=source.methods, expected_trials=trials).grid()
