"""``onepos predict``."""

from dataclasses import asdict
from typing import Annotated

import typer

from onepos.cli import options
from onepos.cli.output import (
    InputError,
    JsonOption,
    check_apart,
    input_errors,
    print_json,
    print_line,
    print_note,
    progress_steps,
)

EXAMPLES = """\
[bold]Examples[/bold]

  onepos predict photos.onepos new.csv --out predictions.csv

  onepos predict photos.onepos new.parquet --out predictions.parquet --probabilities

  onepos predict photos.onepos new.csv --out best.csv --sets --top 3
"""


def predict(
    model: options.Model,
    data: options.Data,
    out: options.Out,
    sets: Annotated[bool, typer.Option("--sets", help="Write only the set of tags.")] = False,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Only a probability for every label.")] = False,
    threshold: options.Threshold = None,
    top: options.Top = None,
    embed: options.Embed = None,
    image: options.Image = "",
    separator: Annotated[str, typer.Option("--separator", metavar="SIGN", help="Between the tags of a set.")] = ";",
    allow_empty: options.AllowEmpty = False,
    escape_formulas: options.EscapeFormulas = True,
    json: JsonOption = False,
) -> None:
    """Predict the tags of a table's rows: a probability per label, and a set of tags.

    Large files are read and written piece by piece, in constant memory. The output appears when it is whole; its rows
    are those of the input, in the same order, with the id column if the model has one.
    """
    from onepos.table.files import check_output

    if sets and probabilities:
        raise InputError("--sets and --probabilities each ask for one thing alone: leave both out to get both.")
    options.check_limits(threshold, top)
    check_apart({"the model": model, "the data": data}, {"--out": out})
    check_output(out)
    with progress_steps() as progress, input_errors():
        progress("loading", 0.0)
        from onepos.table import Output, predict_file

        output = Output(
            sets or not probabilities,
            probabilities or not sets,
            threshold,
            top,
            separator,
            allow_empty,
            escape_formulas,
        )
        loaded = options.open_model(model, data, embed, image)
        done = predict_file(loaded, data, out, output, progress=progress)
    if json:
        print_json({"out": str(out)} | asdict(done))
        return
    for note in done.notes:
        print_note(note)
    if output.sets and done.rows_without_suggestion:
        print_note(
            f"{done.rows_without_suggestion:,} rows have no label above the threshold: lower --threshold or use --top 1"
        )
    print_line(f"{done.rows:,} rows in {out}")
