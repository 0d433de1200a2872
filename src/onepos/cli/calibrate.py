"""``onepos ask``, ``check-tags`` and ``calibrate``: which rows to complete, what they say of the tags, and do."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options, output

if TYPE_CHECKING:
    from onepos.table.sample import SampleCheck

EXAMPLES = (
    "onepos calibrate photos.onepos checked.csv --label tags",
    "onepos calibrate photos.onepos checked.csv --labels beach,city,night --out better.onepos",
    "onepos calibrate photos.onepos checked.csv --label tags --precision 0.9 --out sure.onepos",
    "onepos calibrate photos.onepos photos.csv --prevalence shares.csv",
)
CHECK_EXAMPLES = (
    "onepos check-tags photos.onepos checked.csv --label tags",
    'onepos check-tags films.onepos checked.csv --label genres --separator ", " --json',
)
ASK_EXAMPLES = ("onepos ask photos.onepos photos.csv --n 50 --out to-complete.csv",)
#: Sign between the tags of a cell without --separator, and labels shown.
_BETWEEN_TAGS, _SHOWN = ";", 12
#: The column that `ask` leaves to be filled in.
ALL_TAGS = "all_tags"
_CONDITIONS = "in the mean over samples like this one, for rows that are drawn as these were."
_TITLES = {"average_precision": "average precision", "precision": "precision", "recall": "recall", "f1": "F1"}

Sample = Annotated[Path, typer.Argument(help="CSV, TSV or parquet: rows with all their tags.", show_default=False)]
AllTags = Annotated[str | None, options.option("COL", "Column that holds all tags of a row.")]
Separator = Annotated[str | None, options.option("SIGN", "Sign between the tags of a cell (default: ;).")]
Columns = Annotated[str | None, options.option("COL,…", "Complete labels as 0/1 columns.")]


class Cut(StrEnum):
    """Where sets are cut."""

    sample = "sample"
    half = "half"


def calibrate(
    model: options.Model,
    sample: Sample,
    label: AllTags = None,
    separator: Separator = None,
    labels: Columns = None,
    cut: Annotated[
        Cut, typer.Option(help="Make sets as large as in the sample, or cut at probability ½.")
    ] = Cut.sample,
    precision: options.Precision = None,
    recall: options.Recall = None,
    prevalence: Annotated[
        Path | None, options.option("CSV", "Instead of all tags: share of rows with each label (label,share).")
    ] = None,
    out: Annotated[Path | None, options.option("MODEL", "The corrected model (default: replace the model).")] = None,
    embed: options.Embed = None,
    json: output.JsonOption = False,
) -> None:
    """Correct a model by rows with all their tags, without training again.

    People do not choose evenly which tag they write down. Twenty complete rows show much of it; fifty are better. They
    must not be rows of the training table. A correction that the model has is replaced.

    --precision and --recall promise how good the sets are, in the mean over samples and for rows like these. The
    command refuses if the rows are too few for it.

    If you know how often each label is true, --prevalence does without complete rows.
    """
    from onepos.table.writing import check_place

    place = out or model
    output.check_apart({"the sample": sample, "--prevalence": prevalence}, {"--out": place})
    check_place(place)
    if prevalence is not None and (label or separator or labels or precision is not None or recall is not None):
        raise output.InputError(
            "--prevalence stands in for rows with all their tags: leave out --label, --separator, --labels, "
            "--precision and --recall."
        )
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "loading")
        from onepos.table import known_labels, read_as_trained

        trained = options.open_model(model, sample, embed)
        content = read_as_trained(trained, sample, label)
        if prevalence is not None:
            notes: list[str] = []
            trained.calibrate(content.frame, rates=_shares(prevalence), sets=cut.value)
        else:
            known = known_labels(trained, content, **_where(label, separator, labels))
            known.check_complete()
            notes = known.notes
            trained.calibrate(content.frame, known.table, sets=cut.value, precision=precision, recall=recall)
        tell(0.9, "writing")
        trained.save(place)
    facts = trained.facts_["calibration"]
    if json:
        output.print_json({"model": place, "notes": notes, **facts})
        return
    for note in notes:
        output.print_note(note)
    output.print_prose(
        f"Corrected on {facts['rows']:,} rows with {facts['labels_per_row']:.2f} labels each; the model expected "
        f"{facts['expected_before']:.2f} and now {facts['expected_after']:.2f}; sets have {facts['set_size']:.2f}."
    )
    if precision is not None:
        output.print_prose(f"Promise: at least {precision:.0%} of the suggested tags are right, {_CONDITIONS}")
    if recall is not None:
        output.print_prose(f"Promise: at least {recall:.0%} of the true tags are suggested, {_CONDITIONS}")
    output.print_line(f"Model:  {place}")


def _shares(path: Path) -> dict[str, float]:
    """Return the share of rows with each label from a file with columns label and share."""
    from onepos.table.files import read_table
    from onepos.table.kinds import require_columns

    frame = read_table(path, plain=["label"]).frame
    require_columns(frame, ["label", "share"], "shares")
    return {str(name): float(share) for name, share in zip(frame["label"], frame["share"], strict=True)}


def ask(
    model: options.Model,
    data: options.Data,
    out: options.Out,
    n: Annotated[int, options.option("N", "How many rows.", min=1)] = 50,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Equal seeds draw equal rows.")] = 0,
    json: output.JsonOption = False,
) -> None:
    """Draw the rows to complete next: write them to a table with an empty column for all their tags.

    The draw is random. So the completed rows say without bias how often each label is true, and how good the model is.
    Draw from rows that training did not see.
    """
    from onepos.table.writing import TableWriter, check_output

    output.check_apart({"the model": model, "the data": data}, {"--out": out})
    check_output(out)
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "loading")
        import numpy as np

        from onepos.table import TableModel, read_as_trained
        from onepos.table.tags import row_ids

        trained = TableModel.load(model)
        frame = read_as_trained(trained, data).frame
        if n > len(frame):
            raise output.InputError(f"{data.name} has {len(frame):,} rows, fewer than --n {n}: draw fewer.")
        drawn = np.sort(np.random.default_rng(seed).choice(len(frame), n, replace=False))
        rows = frame.iloc[drawn].copy()
        if trained.id_ is None:
            rows.insert(0, "row", row_ids(frame, None)[drawn])
        if ALL_TAGS in rows.columns:
            raise output.InputError(f"{data.name} has a column {ALL_TAGS!r}, to be filled in: rename it.")
        rows[ALL_TAGS] = ""
        with TableWriter(out) as writer:
            writer.write(rows)
    if json:
        output.print_json({"out": out, "rows": n, "of": len(frame)})
        return
    output.print_line(f"{n:,} of {len(frame):,} rows in {out}")
    output.print_prose(f"Next: write all tags of each row into column {ALL_TAGS!r}, with ; between them, then:")
    output.print_line(f"onepos check-tags {model} {out} --label {ALL_TAGS}")


def check_tags(
    model: options.Model,
    sample: Sample,
    label: AllTags = None,
    separator: Separator = None,
    labels: Columns = None,
    embed: options.Embed = None,
    json: output.JsonOption = False,
) -> None:
    """Say what a model's tags are worth: compare them with rows of which all tags are known.

    How often is each label true, and how often is it the tag? Do people choose evenly among the true ones? How good is
    the model, and how good would `onepos calibrate` make it? Give rows that training did not see, best a random choice.
    """
    where = _where(label, separator, labels)
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "loading")
        from onepos.table import known_labels, read_as_trained
        from onepos.table.sample import check_sample

        trained = options.open_model(model, sample, embed)
        content = read_as_trained(trained, sample, label)
        tell(0.3, "measuring")
        found = check_sample(trained, content, known_labels(trained, content, **where))
    if json:
        output.print_json(asdict(found))
        return
    for note in found.notes:
        output.print_note(note)
    _show(found)
    sign = f" --separator {separator!r}" if separator else ""
    columns = f" --labels {labels}" if labels else f" --label {label}{sign}"
    if found.difference["average_precision"]["low"] > 0:
        output.print_line(f"Next: onepos calibrate {model} {sample}{columns}")


def _where(label: str | None, separator: str | None, labels: str | None) -> dict[str, Any]:
    """Return the arguments of ``known_labels``."""
    sign = (separator or _BETWEEN_TAGS) if label else separator
    return {"label": label, "separator": sign, "labels": options.names(labels)}


def _show(found: "SampleCheck") -> None:
    ranked = sorted(found.labels, key=lambda one: -abs(one["even"] - one["tagged"]))
    rows: list[tuple[str, ...]] = [
        (
            one["label"],
            f"{one['true']:.0%}",
            f"{one['low']:.0%} to {one['high']:.0%}",
            f"{one['even']:.1%}",
            f"{one['tagged']:.1%}",
        )
        for one in ranked[:_SHOWN]
    ]
    title = ("label", "true in rows", "95 % interval", "tags if even", "tags")
    output.show_table(title, rows, ("true in rows", "tags if even", "tags"))
    if len(ranked) > _SHOWN:
        output.print_line(f"… and {len(ranked) - _SHOWN:,} more, which differ less; --json has them all.")
    size = found.labels_per_row
    output.print_line()
    output.print_prose(
        f"{found.rows:,} rows have {size['mean']:.2f} labels each (95 % interval {size['low']:.2f} to "
        f"{size['high']:.2f}). `tags if even` is the share of the tags that a label would have if one of each row's "
        "labels were drawn evenly."
    )
    p = f"p = {found.p_value:.3f}" if found.p_value >= 0.001 else "p < 0.001"
    if found.biased:
        output.print_prose(
            f"Tags are chosen ({p}): so large a difference comes by chance in fewer than 1 of 100 samples. Some labels "
            "are true more often than they are tagged. Or these rows are of another kind than the tagged ones."
        )
    else:
        output.print_prose(f"No sign of chosen tags ({p}): chance may explain the differences.")
    output.print_line()
    measures = [
        (title, *(_interval(group[name]) for group in (found.before, found.after, found.difference)))
        for name, title in _TITLES.items()
    ]
    output.show_table(("measure", "now", "corrected", "difference"), measures)
    output.print_prose(
        "Corrected: each row by a correction that the other rows taught. In parentheses 95 % intervals from 2,000 "
        "resamples of the rows. Precision, recall and F1 are those of the label sets, over all entries."
    )


def _interval(measure: dict[str, float]) -> str:
    return f"{measure['mean']:.2f} ({measure['low']:.2f} to {measure['high']:.2f})"
