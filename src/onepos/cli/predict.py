"""``onepos predict``."""

from dataclasses import asdict
from typing import Annotated

import typer

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options, output
from onepos.cli.output import InputError

EXAMPLES = (
    "onepos predict photos.onepos new.csv --out predictions.csv",
    "onepos predict photos.onepos new.parquet --out predictions.parquet --probabilities",
    "onepos predict photos.onepos new.csv --out best.csv --sets --top 3",
)


def predict(
    model: options.Model,
    data: options.Data,
    out: options.Out,
    sets: Annotated[bool, typer.Option("--sets", help="Write only the set of tags.")] = False,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Write only the probabilities.")] = False,
    threshold: options.Threshold = None,
    top: options.Top = None,
    embed: options.Embed = None,
    sheet: options.Sheet = None,
    separator: Annotated[str | None, options.option("SIGN", "Sign between the tags of a set (default: ;).")] = None,
    allow_empty: options.AllowEmpty = False,
    escape_formulas: options.EscapeFormulas = True,
    json: output.JsonOption = False,
) -> None:
    """Predict the tags of a table's rows: a probability per label, and a set of tags.

    Large files are read and written piece by piece, in constant memory. The output appears when it is whole; its rows
    are those of the input, in the same order, with the id column if the model has one. Of a folder each file is
    written to a file of the same name in the output folder, several at a time.
    """
    from onepos.table.writing import check_output

    if sets and probabilities:
        raise InputError("--sets and --probabilities each ask for one thing alone: leave both out to get both.")
    options.check_limits(threshold, top)
    output.check_apart({"the model": model, "the data": data}, {"--out": out})
    if not data.is_dir():
        check_output(out)
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "loading")
        from onepos.table import Output, predict_file

        with_sets = sets or not probabilities
        wanted = Output(with_sets, probabilities or not sets, threshold, top, separator, allow_empty, escape_formulas)
        with options.workers(data):
            done = predict_file(options.open_model(model, data, embed), data, out, wanted, sheet=sheet)
    if json:
        output.print_json({"out": str(out)} | asdict(done))
        return
    for note in done.notes:
        output.print_note(note)
    if with_sets and done.rows_without_suggestion:
        output.print_note(
            f"{done.rows_without_suggestion:,} rows have no label above the threshold: lower --threshold or use --top 1"
        )
    output.print_line(f"{done.rows:,} rows in {out}")
