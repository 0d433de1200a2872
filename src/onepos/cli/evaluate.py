"""``onepos evaluate``."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options, output

if TYPE_CHECKING:
    from onepos.table import Evaluation

EXAMPLES = (
    'onepos evaluate photos.onepos checked.csv --label tags --separator ";"',
    "onepos evaluate photos.onepos checked.csv --labels beach,city,night",
    "onepos evaluate photos.onepos more.csv --label tag",
    'onepos evaluate photos.onepos checked.csv --label tags --separator ";" --report photos.html',
)


def evaluate(
    model: options.Model,
    data: options.Data,
    label: Annotated[str | None, options.option("COL", "Column of tags: one per row, or sets.")] = None,
    separator: Annotated[
        str | None, options.option("SIGN", "Sign between the tags of a cell, which are then complete.")
    ] = None,
    labels: Annotated[str | None, options.option("COL,…", "Complete labels as 0/1 columns.")] = None,
    threshold: options.Threshold = None,
    embed: options.Embed = None,
    sheet: options.Sheet = None,
    report: options.Report = None,
    json: output.JsonOption = False,
) -> None:
    """Measure a model on labelled rows, with 95 % bootstrap intervals.

    With complete labels: the five measures of the paper, and how well rows are ranked by a label (mAP, AUC). With one
    tag per row, only how high that tag is ranked: such data cannot say whether another label that is ranked high is
    wrong or merely unobserved.
    """
    output.check_apart({"the model": model, "the data": data}, {"--report": report})
    if report is not None:
        output.check_page("--report", report)
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "loading")
        from onepos.table import evaluate_table, known_labels, read_as_trained

        trained = options.open_model(model, data, embed)
        content = read_as_trained(trained, data, label, sheet=sheet)
        known = known_labels(trained, content, label=label, separator=separator, labels=options.names(labels))
        tell(0.3, "measuring")
        result = evaluate_table(trained, content, known, threshold=threshold)
        if report is not None:
            tell(0.6, "writing the report")
            from onepos.pages.model_page import table_report

            table_report(trained, content, known, report)
    if json:
        output.print_json(asdict(result) | ({"report": report} if report is not None else {}))
        return
    _show(result)
    if report is not None:
        output.print_line(f"Report: {report}")


def _show(result: "Evaluation") -> None:
    from onepos.metrics import METRIC_TITLES, higher_is_better
    from onepos.table.facts import SINGLE_POSITIVE_TITLES

    for note in result.notes:
        output.print_note(note)
    titles = METRIC_TITLES if result.complete_labels else SINGLE_POSITIVE_TITLES
    rows: list[tuple[str, ...]] = []
    for name, measure in result.measures.items():
        upwards = not result.complete_labels or higher_is_better(name)
        interval = f"{measure['low']:.3f} to {measure['high']:.3f}"
        rows.append((titles[name], f"{measure['mean']:.3f}", interval, "higher" if upwards else "lower"))
    output.show_table(("measure", "value", "95 % interval", "better"), rows, ("value",))
    sets = result.sets
    if "micro_f1" in sets:  # labels are complete
        numbers, averages = ("precision", "recall", "F1"), {"micro": "all entries", "macro": "mean of labels"}
        rows = [
            (f"{title} ({average})", *(f"{sets[f'{average}_{name.lower()}']:.3f}" for name in numbers))
            for average, title in averages.items()
        ]
        for name, value in result.over_labels.items():
            output.print_line(f"{METRIC_TITLES[name]}: {value:.3f}")
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
