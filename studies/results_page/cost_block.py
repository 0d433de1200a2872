"""The blocks that say how old the rows are, how much of a study is done, what it cost, and with what it was run."""

import json
from collections import Counter
from collections.abc import Mapping
from math import fsum
from typing import TYPE_CHECKING

from onepos_studies.study.provenance import is_current
from onepos_studies.study.tables import Cell, Grid
from results_page.layout import write
from results_page.source import Source

if TYPE_CHECKING:
    import pandas as pd


def provenance_block(sources: Mapping[str, Source]) -> str:
    """Days and versions of onepos of all rows, and whether they belong to earlier revisions of their methods."""
    frames = [source.rows for source in sources.values() if len(source.rows)]
    if not frames:
        return "No results yet."
    days = sorted(str(day)[:10] for frame in frames for day in frame["finished"])
    versions = sorted({json.loads(text)["onepos"] for frame in frames for text in frame["versions"]})
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    text = f"The {len(days):,} rows behind this page were computed {when} with onepos "
    text += f"{' and '.join(versions)}"
    stale = sum(int((~is_current(frame)).sum()) for frame in frames)
    return f"{text}: **{stale:,} of them belong to earlier revisions of their methods.**" if stale else f"{text}."


def cost_block(source: Source) -> str:
    """Cells done and missing, hours by method, versions and kinds of machine."""
    rows = source.rows
    ok = rows[rows["status"] == "ok"]
    planned, missing = len(source.planned), len(source.missing)
    failed = len(rows) - len(ok)
    lines = [
        f"{planned - missing:,} of {planned:,} cells are done, {missing:,} are missing"
        + (f", {failed:,} of these failed" if failed else "")
        + f". They took {_hours(ok['seconds'])} hours of computing, one thread per cell; the largest peak of memory "
        f"was {ok['peak_megabytes'].max() / 1000:.1f} GB."
    ]
    table = []
    for method in source.methods:
        own = ok[ok["method"] == method]
        todo = int((source.missing["method"] == method).sum())
        table.append((Cell(method), Cell(f"{len(own):,}"), Cell(f"{todo:,}"), Cell(_hours(own["seconds"]))))
    grid = Grid("Cost", ("method", "cells", "missing", "hours"), tuple(table))
    lines += [write(grid), *_recorded(source, "versions", "Versions"), *_recorded(source, "machine", "Machine")]
    return "\n\n".join(lines)


def _hours(seconds: "pd.Series[float]") -> str:
    return f"{fsum(seconds) / 3600:,.2f}"


def _recorded(source: Source, column: str, title: str) -> list[str]:
    """One sentence for each different record, the most frequent first."""
    counts = Counter(map(str, source.rows[column].dropna()))
    found = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [f"{title} ({count:,} cells): {_words(json.loads(text))}." for text, count in found]


def _words(record: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in record.items())
