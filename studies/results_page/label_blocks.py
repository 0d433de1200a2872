"""What labels cost: the same number of labels on few or many rows, labels that are not random, and thresholds."""

from pathlib import Path

import pandas as pd

from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import Cell
from onepos_studies.study.tables.grid import short
from results_page.layout import write
from results_page.source import Source

THRESHOLDS, NATURAL = "studies/thresholds/results.csv", "studies/natural/results.csv"
SHARES = "studies/natural/shares.csv"
RULES = ["½", "m true", "m estimated", "rates", "sample"]


def equal_labels(source: Source) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """Return, by data set, average precision with all labels on 1/m of the rows, and with one label on all rows.

    Of the fractions of a data set, the largest below 1 and at most one half is 1/m.
    """
    made = {}
    for group in source.study.data:
        share = max(value for value in group.train_fractions if value <= 0.5)
        for dataset in group.names:
            rows = source.of(dataset)
            few = rows[rows["train_fraction"] == share].groupby("method")["average_precision"].mean()
            many = rows[rows["train_fraction"] == 1.0].groupby("method")["average_precision"].mean()
            made[dataset] = (
                {str(name): float(value) for name, value in few.items() if is_full_supervision(str(name))},
                {str(name): float(value) for name, value in many.items() if not is_full_supervision(str(name))},
            )
    return made


def bias_block(source: Source) -> str:
    """Mean average precision by rule of drawing the observed label, methods down."""
    rows = source.rows
    names = rows["dataset"].str.partition(":")
    rows = rows.assign(set=names[0], rule=names[2])
    means = rows.groupby(["method", "rule", "set"])["average_precision"].mean().groupby(["method", "rule"]).mean()
    rules = list(dict.fromkeys(name.partition(":")[2] for name in source.study.datasets))
    lines: list[tuple[str | Cell, ...]] = []
    for method in source.methods:
        first, *others = (means[method, rule] for rule in rules)
        lines.append((method, short(first), *(f"{short(one)} ({short(one - first, sign=True)})" for one in others)))
    note = (
        f"Mean average precision over {', '.join(sorted(names[0].unique(), key=str.lower))} and three trials; in "
        "parentheses the difference to uniform. The observed label is drawn uniformly, in proportion to its frequency, "
        "or as the most evident one."
    )
    return write(("method", *(rule if rule == "uniform" else f"by {rule}" for rule in rules)), lines, note)


def threshold_block(root: Path) -> str:
    """Return one table per method: Hamming loss and F1 by data set and rule, the best of each row in bold."""
    frame = pd.read_csv(root / THRESHOLDS)
    tables = [f"`{method}`\n\n{_thresholds(rows)}" for method, rows in frame.groupby("method", sort=False)]
    trials = frame["trial"].nunique()
    note = f"Means over {trials} trials; Hamming loss (lower is better) / F1 of a row's set (higher is better)."
    return "\n\n".join([*tables, note])


def _thresholds(rows: pd.DataFrame) -> str:
    means = rows.groupby(["dataset", "rule"], sort=False)[["hamming_loss", "f1", "m", "m_estimated"]].mean().round(3)
    lines = [f"| data set | m | estimate | {' | '.join(RULES)} |", f"| --- |{' ---: |' * (2 + len(RULES))}"]
    for dataset in rows["dataset"].unique():
        part = means.loc[dataset].loc[RULES]
        low, high = part["hamming_loss"].min(), part["f1"].max()
        cells = [
            f"{_bold(loss, loss == low)} / {_bold(score, score == high)}"
            for loss, score in zip(part["hamming_loss"], part["f1"], strict=True)
        ]
        lines.append(
            f"| {dataset} | {part['m'].iloc[0]:.2f} | {part['m_estimated'].iloc[0]:.2f} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def _bold(value: float, best: bool) -> str:
    return f"**{short(value)}**" if best else short(value)


def natural_block(root: Path) -> str:
    """Average precision of each method on each table, before and after a correction by fifty complete rows."""
    frame = pd.read_csv(root / NATURAL)
    frame = frame[~frame["group"] & (frame["tags"] == 1.0)]
    near = frame["rows"].sub(50).abs()
    frame = frame[near == near.groupby(frame["table"]).transform("min")]
    means = frame.groupby(["method", "table"])[["average_precision_before", "average_precision"]].mean()
    tables, lines = list(dict.fromkeys(frame["table"])), []
    for method in dict.fromkeys(frame["method"]):
        pairs = [means.loc[(method, name)] if (method, name) in means.index else None for name in tables]
        cells = ["" if pair is None else f"{short(pair.iloc[0])} → {short(pair.iloc[1])}" for pair in pairs]
        lines.append((method, *cells))
    note = (
        "Mean over draws of the complete rows, on sites with a species that are not among them. Where a third of the "
        "sites is fewer than fifty rows, that third is used."
    )
    return write(("method", *tables), lines, note)


def planner_block(root: Path) -> str:
    """Average precision of `logistic` by tags, without complete rows, and by complete rows with all tags."""
    frame = pd.read_csv(root / NATURAL)
    frame = frame[~frame["group"] & (frame["method"] == "logistic")]
    sizes, parts, lines = (20, 50, 100, 200), (0.25, 0.5, 1.0), []
    for name, rows in frame.groupby("table", sort=False):
        whole = rows[rows["tags"] == 1.0]
        by_size = whole.groupby("rows")["average_precision"].mean()
        before = rows.groupby("tags")["average_precision_before"].mean()
        cells = [short(before[part]) if part in before.index else "" for part in parts]
        cells += [short(by_size[size]) if size in by_size.index else "" for size in sizes]
        lines.append((str(name), f"{whole['records'].iloc[0]:,}", *cells))
    header = ("table", "tags", "a quarter of the tags", "half", "all", *(f"all + {size} rows" for size in sizes))
    return write(header, lines)
