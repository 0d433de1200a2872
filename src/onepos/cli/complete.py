"""``onepos complete``: train as ``onepos fit`` does, or open a model; then write the table with its tags completed."""

from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options as opt
from onepos.cli import output
from onepos.cli.fit import Trained, train
from onepos.cli.options import TrainingOptions, option, training_command
from onepos.cli.output import InputError
from onepos.cli.training_facts import as_json, show_training

if TYPE_CHECKING:
    import pandas as pd

    from onepos.table import Completion, TableModel

EXAMPLES = (
    "onepos complete photos.csv --label tag --text caption --id id --out completed.csv --review review.html",
    "onepos complete photos.csv --model photos.onepos --out completed.csv --top 3",
)
#: Options of ``fit`` that this command does not have: they are about data other than one table with a column of tags.
WITHOUT = ("labels",)
#: Bytes from which a file is completed piece by piece.
_IN_PIECES_FROM = 1 << 28
#: Options that have an effect with --model, too.
_WITH_MODEL = ("data", "image", "embed", "allow_empty", "decisions", "separator", "sheet", *WITHOUT)


class Tool(StrEnum):
    """A program in which teams annotate."""

    label_studio = "label-studio"
    argilla = "argilla"


@training_command(without=WITHOUT)
def complete(
    out: opt.Out,
    model: Annotated[Path | None, option("MODEL", "Use this model instead of training one.")] = None,
    threshold: opt.Threshold = None,
    top: opt.Top = None,
    review: Annotated[Path | None, option("HTML", "Also write a page on which a person checks the tags.")] = None,
    title: Annotated[str | None, option("COL", "Column to show as the heading of each row on that page.")] = None,
    only: Annotated[
        Path | None, option("CSV", "Show only these rows on that page, in this order: a file that holds their ids.")
    ] = None,
    format: Annotated[Tool | None, option("TOOL", "Write tasks for label-studio or argilla, not a table.")] = None,
    escape_formulas: opt.EscapeFormulas = True,
    verbose: opt.Verbose = False,
    json: output.JsonOption = False,
    **training: Any,
) -> None:
    """Complete the tags of a table: write it again, with a probability per label and a set of tags.

    Train on the table itself, or use a model. The set holds the observed tag, the labels that a reviewer accepted, and
    the labels above their threshold. A review page saves decisions that `onepos fit --decisions` learns from.
    """
    from onepos.table import read_as_trained
    from onepos.table.writing import check_output, check_place

    options = TrainingOptions(**training)
    opt.check_limits(threshold, top)
    read = {"the data": options.data, "--decisions": options.decisions, "--sample": options.sample, "--model": model}
    read["--only"] = only
    output.check_apart(read, {"--out": out, "--review": review})
    if options.data.is_dir():
        _check_plain(options, review, format)
    elif format is None:
        check_output(out)
    elif check_place(out).suffix.lower() != ".json":
        raise InputError(f"--format {format} writes tasks to a file that ends in .json; got {out.name!r}.")
    if review is not None:
        output.check_page("--review", review)
    elif format is None and (title or only):
        name = "--title" if title else "--only"
        raise InputError(f"{name} is for the review page: give --review too, or leave it out.")
    elif format is None and options.image and model is not None:
        raise InputError("the model knows its pictures, and --image shows them on the review page: give --review too.")
    shown = [("title", title), ("image", options.image), ("id", options.id)] if review or format else []
    with progress_shown(keep=False):
        if model is None:
            trained = train(options, lambda frame: _check_columns(frame, shown))
            table, used = trained.data, trained.model
            in_pieces = options.data.is_dir() or bool(table.notes)
        else:
            trained, used = None, _open(options, model)
            in_pieces = options.data.is_dir() or options.data.stat().st_size > _IN_PIECES_FROM
        if in_pieces:
            _check_plain(options, review, format)
            _complete_in_pieces(options, used, trained, out, threshold, top, escape_formulas, verbose, json)
            return
        if trained is None:
            table = read_as_trained(used, options.data, sheet=options.sheet)
        tell(0.95, "completing")
        with output.input_errors():
            from onepos.pages.decisions import read_decisions
            from onepos.table import complete_table

            completion = complete_table(
                used,
                table,
                decisions=None if options.decisions is None else read_decisions(options.decisions),
                threshold=threshold,
                top=top,
                separator=options.separator,
                at_least_one=False if options.allow_empty else None,
            )
            _check_columns(table.frame, shown)
            content: dict[str, Any] = {"image": options.image, "image_folder": options.data.parent, "title": title}
            content["only"] = None if only is None else _ids(only, used.id_)
            if format is None:
                completion.write(out, escape_formulas=escape_formulas)
            else:
                from onepos.pages.annotation_tools import write_tasks

                beside = write_tasks(completion, out, format.value, **content)[1]
            if review is not None:
                from onepos.pages.review import review_page

                review_page(completion, review, threshold=threshold, **content)
    if json:
        output.print_json(_as_json(completion, trained, out, review))
        return
    notes = completion.notes
    if trained is not None:
        show_training(trained, options.data.name, verbose=verbose)
    else:  # training already printed which values it filled in
        notes = [*notes, *completion.column_notes]
    for note in notes:
        output.print_note(note)
    output.print_line(
        f"{completion.added():,} tags suggested beside the given ones; {len(completion.suggested):,} rows in {out}"
    )
    if format is not None:
        output.print_line(f"Tasks for {format}: {out}; what it needs to show them: {beside}")
    if review is None:
        return
    saved = Path(f"{review.stem}-decisions.csv")  # as the page names it
    output.print_line(f"Review page: {review}")
    if trained is None:
        output.print_prose(f"Next: check the tags there, save {saved}, and fit again with --decisions.")
    else:
        output.print_line(f"Next: check the tags there, save {saved}, then:")
        output.print_line(options.command_line("fit", decisions=saved, out=out.with_suffix(".onepos")))


def _ids(path: Path, name: str | None) -> list[str]:
    """Return the cells of the id column of a file; of its first column if it has none of that name."""
    from onepos.table.files import column_names, read_table
    from onepos.table.tags import row_ids

    columns = column_names(path)
    column = name if name in columns else columns[0]
    return list(row_ids(read_table(path, plain=[column]).frame, column))


def _check_columns(frame: "pd.DataFrame", shown: Sequence[tuple[str, str | None]]) -> None:
    """Raise if the table lacks a column that the review page shows, or if ids are repeated."""
    from onepos.table.kinds import require_columns
    from onepos.table.tags import row_ids

    for what, name in shown:
        require_columns(frame, [name] if name else [], what)
        if what == "id":
            row_ids(frame, name)


def _open(options: TrainingOptions, path: Path) -> "TableModel":
    """Return a model; raise for options that only training would use."""
    for field in fields(TrainingOptions):
        if field.name not in _WITH_MODEL and getattr(options, field.name) != field.default:
            written = field.name.replace("_", "-")
            raise InputError(f"--{written} is for training, and --model trains nothing: leave one of them out.")
    return opt.open_model(path, options.data, options.embed)


def _check_plain(options: TrainingOptions, review: Path | None, format: Tool | None) -> None:
    """Raise for options that need all rows in memory."""
    for name, value in (("review", review), ("format", format), ("decisions", options.decisions)):
        if value is not None:
            raise InputError(
                f"--{name} needs a table that fits into memory; {options.data} is larger, or a folder: leave it out."
            )


def _complete_in_pieces(
    options: TrainingOptions,
    model: "TableModel",
    trained: Trained | None,
    out: Path,
    threshold: float | None,
    top: int | None,
    escape_formulas: bool,
    verbose: bool,
    json: bool,
) -> None:
    """Complete the files of a folder, or a file that does not fit into memory."""
    from onepos.table import complete_file

    with output.input_errors(), opt.workers(options.data):
        done = complete_file(
            model,
            options.data,
            out,
            sheet=options.sheet,
            escape_formulas=escape_formulas,
            threshold=threshold,
            top=top,
            separator=options.separator,
            at_least_one=False if options.allow_empty else None,
        )
    if json:
        facts = {"rows": done.rows, "suggested": done.added, "out": out, "notes": done.notes}
        output.print_json(facts | ({} if trained is None else {"training": as_json(trained)}))
        return
    if trained is not None:
        show_training(trained, options.data.name, verbose=verbose)
    for note in done.notes:
        output.print_note(note)
    output.print_line(f"{done.added:,} tags suggested beside the given ones; {done.rows:,} rows in {out}")


def _as_json(completion: "Completion", trained: Trained | None, out: Path, review: Path | None) -> dict[str, Any]:
    """Return what ``--json`` says about a completed table."""
    facts = {"rows": len(completion.suggested), "suggested": completion.added(), "out": out, "review": review}
    facts["notes"] = [*completion.notes, *completion.column_notes]
    facts["training"] = trained and as_json(trained)
    return {name: value for name, value in facts.items() if value is not None}
