"""Blocks about what labels cost: the same number of labels on few or many rows, and labels that are not random."""

from collections.abc import Mapping

from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.tables import Cell, Grid
from onepos_studies.study.tables.formats import NOTHING, short
from results_page.layout import write
from results_page.source import Source


def equal_labels(source: Source) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """Return, by data set, average precision with all labels on 1/m of the rows, and with one label on all rows.

    Of the fractions of a data set, the largest below 1 and at most one half is 1/m.
    """
    found = {}
    for group in source.study.data:
        share = max(value for value in group.train_fractions if value <= 0.5)
        for dataset in group.names:
            rows = source.whole(dataset)
            few = rows[rows["train_fraction"] == share].groupby("method")["average_precision"].mean()
            many = rows[rows["train_fraction"] == 1.0].groupby("method")["average_precision"].mean()
            found[dataset] = (
                {str(name): float(value) for name, value in few.items() if is_full_supervision(str(name))},
                {str(name): float(value) for name, value in many.items() if not is_full_supervision(str(name))},
            )
    return found


def equal_labels_block(source: Source) -> str:
    """One line per data set: the two ways to spend the same number of labels."""
    rows = []
    for dataset, (few, many) in equal_labels(source).items():
        names = [method for method in source.methods if method in few or method in many]
        best = (max(few.values(), default=0.0), max(many.values(), default=0.0))
        cells = [
            Cell(short(part[name]), bold=part[name] == max(best))
            for name in names
            for part in (few, many)
            if name in part
        ]
        rows.append((Cell(dataset), *(cells or [Cell(NOTHING)] * len(source.methods)), _difference(few, many)))
    full = [name for name in source.methods if is_full_supervision(name)]
    single = [name for name in source.methods if not is_full_supervision(name)]
    header = ("data set", *(f"{name}, n/m rows" for name in full), *(f"{name}, n rows" for name in single), "gain")
    notes = (
        "Mean average precision over three trials. The left columns see all labels of n/m training rows, the others "
        "one label of each of n rows: the same number of labels. Gain: the best on n rows minus the best on n/m rows.",
    )
    return write(Grid("Equal labels", header, tuple(rows), notes=notes))


def _difference(few: Mapping[str, float], many: Mapping[str, float]) -> Cell:
    return Cell(short(max(many.values()) - max(few.values()), sign=True) if few and many else NOTHING)


def bias_block(source: Source) -> str:
    """Mean average precision by rule of drawing the observed label, methods down."""
    sets = sorted({name.partition(":")[0] for name in source.study.datasets}, key=str.lower)
    rules = list(dict.fromkeys(name.partition(":")[2] for name in source.study.datasets))
    lines = []
    for method in source.methods:
        values = []
        for rule in rules:
            parts = [source.whole(f"{name}:{rule}", "single-positive") for name in sets]
            own = [rows.loc[rows["method"] == method, "average_precision"].mean() for rows in parts]
            values.append(sum(own) / len(own))
        cells = [short(values[0]), *(f"{short(value)} ({short(value - values[0], sign=True)})" for value in values[1:])]
        lines.append((Cell(method), *map(Cell, cells)))
    notes = (
        f"Mean average precision over {', '.join(sets)} and three trials; in parentheses the difference to uniform. "
        "The observed label is drawn uniformly, in proportion to its frequency, or as the most evident one.",
    )
    return write(
        Grid(
            "Bias",
            ("method", *(f"by {rule}" if rule != "uniform" else rule for rule in rules)),
            tuple(lines),
            notes=notes,
        )
    )
