"""Blocks of the paper's evaluation: main tables, ranks, tests, ours beside the paper, both selection rules, costs."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import fsum
from statistics import fmean
from typing import Any

from onepos_studies.study.provenance import is_current
from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import (
    PAPER_METHODS,
    Cell,
    Grid,
    compare,
    main_table,
    published_value,
    rank_table,
    selection_table,
    significance,
)
from onepos_studies.study.tables.grid import NOTHING, mean_std, short
from results_page.layout import turned, write, write_grid
from results_page.source import Source


def metric_block(source: Source, metric: str = "average_precision") -> str:
    """Methods down, data sets across, mean±std under clean selection; the last column is the average rank."""
    return write_grid(turned(_main(source, metric)))


def narrow_block(source: Source, metric: str) -> str:
    """Data sets down, methods across: the form for a study of few methods."""
    return write_grid(_main(source, metric))


def methods_table(source: Source) -> str:
    """Average precision, with the paper's SMILE as the last line."""
    grid = turned(_main(source, "average_precision"))
    theirs = [published_value("average_precision", dataset, "smile") for dataset in source.datasets]
    last = (Cell("paper: SMILE"), *(Cell(mean_std(*value) if value else NOTHING) for value in theirs))
    # The average rank is over other methods than the paper's line is about: it is on the page of results.
    rows = tuple(row[:-1] for row in grid.rows)
    return write_grid(replace(grid, header=grid.header[:-1], rows=(*rows, last), notes=()))


def rank_block(source: Source) -> str:
    """Average ranks by each metric, with Friedman's test and the critical difference in the last lines."""
    methods = [method for method in source.methods if not is_full_supervision(method)]
    return write_grid(turned(rank_table(source.rows, **_which(source) | {"methods": methods})))


def significance_block(source: Source, method: str = "smile") -> str:
    """One method against each other one, metric by metric."""
    rivals = [key for key in source.methods if key != method and not is_full_supervision(key)]
    made = significance(source.rows, method=method, rivals=rivals, **_which(source))
    return write_grid(turned(made, "against"))


def published_block(source: Source) -> str:
    """Differences of average precision, ours minus the paper's."""
    data = compare(source.rows, metrics=("average_precision",), **_which(source)).data
    wide = data.pivot(index="method", columns="dataset", values="difference").reindex(columns=list(source.datasets))
    lines: list[tuple[str | Cell, ...]] = []
    for method in source.methods:
        if method in PAPER_METHODS.values() and method in wide.index:
            values = [*wide.loc[method], wide.loc[method].mean()]
            lines.append((method, *map(partial(short, sign=True), values)))
    note = (
        f"Mean over {source.study.trials} trials here minus the paper's mean over five, on other splits; above zero: "
    )
    return write(("method", *source.datasets, "mean"), lines, f"{note}higher here.")


def selection_block(source: Source) -> str:
    """Average precision by what selects the setting, means over data sets."""
    data = selection_table(source.rows, **_which(source)).data
    data = data[data["complete"]].assign(kept=data["single_positive_mean"] / data["clean_mean"])
    lines: list[tuple[str | Cell, ...]] = []
    for method in source.methods:
        own = data[data["method"] == method]
        clean, single, gain, kept = own[["clean_mean", "single_positive_mean", "difference", "kept"]].mean()
        share = f"{kept:.1%}" if kept == kept else NOTHING
        lines.append((method, str(len(own)), short(clean), short(single), short(gain, sign=True), share))
    notes = f"Over the data sets on which both rules have all {source.study.trials} trials."
    blind = data.loc[[not is_full_supervision(name) for name in data["method"]], "kept"]
    if len(blind):
        notes += (
            f" Single-positive selection keeps {fmean(blind):.1%} of clean selection's average precision in the mean "
            "over all pairs of method and data set, full supervision apart."
        )
    return write(("method", "data sets", "clean", "single-positive", "difference", "kept"), lines, notes)


def provenance_block(sources: Mapping[str, Source]) -> str:
    """Days and versions of onepos of all rows, and whether they belong to earlier revisions of their methods."""
    frames = [source.rows for source in sources.values()]
    days = sorted(str(day)[:10] for frame in frames for day in frame["finished"])
    versions = sorted({json.loads(text)["onepos"] for frame in frames for text in frame["versions"]})
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    text = f"The {len(days):,} rows behind this page were computed {when} with onepos {' and '.join(versions)}"
    stale = sum(int((~is_current(frame)).sum()) for frame in frames)
    return f"{text}: **{stale:,} of them belong to earlier revisions of their methods.**" if stale else f"{text}."


def cost_block(source: Source) -> str:
    """Hours by method, versions and kinds of machine."""
    rows = source.rows
    head = (
        f"The {len(rows):,} cells took {fsum(rows['seconds']) / 3600:,.2f} hours of "
        f"computing, one thread per cell; the largest peak of memory was {rows['peak_megabytes'].max() / 1000:.1f} GB."
    )
    costs = rows.groupby("method")["seconds"].agg(["size", "sum"])
    lines: list[tuple[str | Cell, ...]] = [
        (str(method), f"{costs['size'][method]:,}", f"{costs['sum'][method] / 3600:,.2f}") for method in source.methods
    ]
    words = [
        f"{title} ({count:,} cells): {', '.join(f'{name} {value}' for name, value in json.loads(str(text)).items())}."
        for column, title in (("versions", "Versions"), ("machine", "Machine"))
        for text, count in rows[column].value_counts().items()
    ]
    return "\n\n".join([head, write(("method", "cells", "hours"), lines), *words])


def _which(source: Source) -> Any:
    return {"datasets": source.datasets, "methods": source.methods, "expected_trials": source.study.trials}


def _main(source: Source, metric: str) -> Grid:
    return main_table(source.rows, metric, **_which(source)).grid()
