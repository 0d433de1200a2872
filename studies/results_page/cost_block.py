"""The blocks that say how old the rows are, what they cost, and with what they were made."""

import json
from collections.abc import Mapping
from math import fsum

from onepos_studies.study.provenance import is_current
from onepos_studies.study.tables import Cell
from results_page.layout import write
from results_page.source import Source


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
