"""``onepos evaluate``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options, output
from onepos.cli.output import InputError

if TYPE_CHECKING:
    from onepos.table import Evaluation, TableData, TableModel
    from onepos.table.evaluation import Truth

EXAMPLES = (
    'onepos evaluate photos.onepos checked.csv --label tags --separator ";"',
    "onepos evaluate photos.onepos checked.csv --labels beach,city,night",
    "onepos evaluate photos.onepos more.csv --label tag",
    'onepos evaluate photos.onepos checked.csv --label tags --separator ";" --report photos.html',
)


def evaluate(
    model: options.Model,
    data: options.Data,
    label: Annotated[str, options.option("COL", "Column of tags: one per row, or sets.")] = "",
    separator: Annotated[str, options.option("SIGN", "Sign between the tags of a cell, which are then complete.")] = "",
    labels: Annotated[str, options.option("COL,…", "Complete labels as 0/1 columns.")] = "",
    threshold: options.Threshold = None,
    embed: options.Embed = None,
    report: options.Report = None,
    json: output.JsonOption = False,
) -> None:
    """Measure a model on labelled rows, with 95 % bootstrap intervals.

    With complete labels: the five measures of the paper. With one tag per row, only how high that tag is ranked: such
    data cannot say whether another label that is ranked high is wrong or merely unobserved.
    """
    output.check_apart({"the model": model, "the data": data}, {"--report": report})
    if report is not None:
        check_report(report)
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "loading")
        from onepos.table import evaluate_table, read_table, reading_options
        from onepos.table.evaluation import Truth
        from onepos.table.kinds import shorten

        loaded = options.open_model(model, data, embed)
        named = options.names(labels)
        read_as = reading_options(loaded)
        content = read_table(data, **read_as | {"plain": [*read_as["plain"], label]})
        if content.labels is None and not label and not named:
            raise InputError(
                f"say where the labels are: --label COL (a column of tags) or --labels COL,… (0/1 columns). "
                f"{data.name} has: {shorten(content.frame.columns)}."
            )
        tell(0.3, "measuring")
        result = evaluate_table(
            loaded, content, label=label or None, separator=separator or None, labels=named, threshold=threshold
        )
        if report is not None:
            tell(0.6, "writing the report")
            write_table_report(loaded, content, Truth(label or None, separator or None, named), report)
    if json:
        output.print_json(asdict(result) | ({"report": str(report)} if report is not None else {}))
        return
    _show(result)
    if report is not None:
        output.print_line(f"Report: {report}")


def _show(result: "Evaluation") -> None:
    from onepos.metrics import METRIC_TITLES, higher_is_better
    from onepos.table.training import SINGLE_POSITIVE_TITLES

    for note in result.notes:
        output.print_note(note)
    titles = METRIC_TITLES if result.complete_labels else SINGLE_POSITIVE_TITLES
    rows: list[tuple[str, ...]] = []
    for name, found in result.measures.items():
        upwards = not result.complete_labels or higher_is_better(name)
        interval = f"{found['low']:.3f} to {found['high']:.3f}"
        rows.append((titles[name], f"{found['mean']:.3f}", interval, "higher" if upwards else "lower"))
    output.show_table(("measure", "value", "95 % interval", "better"), rows, ("value",))
    sets = result.sets
    if "micro_f1" in sets:  # labels are complete
        numbers = ("precision", "recall", "F1")
        rows = [
            (title, *(f"{sets[f'{average}_{name.lower()}']:.3f}" for name in numbers))
            for average, title in (("micro", "all entries (micro)"), ("macro", "mean of labels (macro)"))
        ]
        output.print_line()
        output.show_table(("label sets", *numbers), rows, numbers)
    true = f"; {sets['true_mean_size']:.2f} are true" if "true_mean_size" in sets else ""
    output.print_line(f"{sets['mean_size']:.2f} labels per row suggested{true}.")
    without = result.rows - result.rows_with_label
    empty = f", {without:,} of them without a known label" if without else ""
    output.print_line(f"{result.rows:,} rows{empty}; intervals from 1,000 resamples of the rows.")
    if not result.complete_labels:
        output.print_prose(
            "One tag per row tells how high that tag is ranked and nothing about the others: a label ranked above it "
            "may be right too. Complete labels (--labels, or --separator for sets of tags) give all five measures."
        )


def check_report(path: Path) -> None:
    """Raise before the work if the page cannot be written."""
    from onepos.pages import require_report

    output.check_page("--report", path)
    require_report()


def write_table_report(
    model: "TableModel",
    data: "TableData",
    where: "Truth",
    path: Path,
    *,
    complete: bool | None = None,
    measured: Any = None,
) -> None:
    """Write the page of a model and a labelled table; ``complete`` None: as the labels look."""
    import pandas as pd

    from onepos.doctor import diagnose
    from onepos.pages import model_report
    from onepos.table.evaluation import find_truth
    from onepos.table.kinds import as_words, named

    found = find_truth(model, data, where)
    complete = found.complete if complete is None else complete
    frame, text = named(data.frame), model.encoder_.text[:1]
    ids = as_words(frame[model.id_]) if model.id_ in frame.columns else [None] * len(frame)
    model_report(
        model,
        frame,
        found.truth,
        path,
        complete=complete,
        measured=measured,
        ids=[number if name is None else name for number, name in enumerate(ids, start=1)],
        texts=frame[text[0]].fillna("").tolist() if text else None,
        # The doctor expects single observed labels. It would report complete ones as too many.
        diagnosis=None
        if complete
        else diagnose(
            frame if data.labels is not None else frame[list(model.encoder_.kinds_)],
            pd.DataFrame(found.truth, columns=model.labels_),
            text=[name for name in model.encoder_.text if name in frame.columns],
            interface="command line",
        ),
    )
