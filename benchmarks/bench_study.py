"""Section study: what the committed study cost, by method."""

import pandas as pd
from harness import left_out, record, spread
from machine import HERE

TITLE = "Cost of the committed study"
ABOUT = """
Sum of the column `seconds` of `studies/rows/smile_paper.parquet` by method. The seconds were measured when each
cell was run, while the machine also did other work.
"""
PATH = HERE.parent / "studies" / "rows" / "smile_paper.parquet"


def measure(options):
    if options.datasets is not None:
        return  # the study is counted as a whole
    if not PATH.exists():
        yield left_out("smile_paper", "its rows are not there")
        return
    frame = pd.read_parquet(PATH, columns=["method", "seconds"])
    groups = frame.groupby("method")["seconds"]
    for method, seconds in groups.sum().sort_values().items():
        case = f"{method}, {groups.count()[method]} cells"
        yield record(case, "seconds in all", spread([seconds]), unit="s")
    total = frame["seconds"].sum()
    yield record(f"all methods, {len(frame)} cells", "seconds in all", spread([total]), unit="s")
