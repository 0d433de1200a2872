"""``onepos fit``: from the options to a trained model, shared with ``complete``."""

import math
import shlex
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onepos._utils.context import deadline, seconds_not_counted, tell
from onepos._utils.machine import launched_rank
from onepos._utils.progress import progress_shown
from onepos.cli import output
from onepos.cli.options import Report, TrainingOptions, Verbose, names, option, training_command
from onepos.cli.output import InputError
from onepos.cli.training_facts import as_json, show_training

if TYPE_CHECKING:
    import pandas as pd

    from onepos.table import TableData, TableModel

EXAMPLES = (
    "onepos fit photos.csv --label tag --text caption --id id --out photos.onepos",
    'onepos fit films.csv --label genres --separator ", " --text plot --out films.onepos',
    "onepos fit photos.csv --label tag --method an --set max_epochs=10 --out photos.onepos",
    "onepos fit photos.csv --label tag --id id --decisions decisions.csv --out better.onepos",
    "onepos fit photos.csv --label tag --budget 600 --out photos.onepos",
    "onepos fit photos.csv --label tag --sample checked.csv --sample-label tags --out photos.onepos --report page.html",
    "torchrun --nproc-per-node 2 -m onepos fit shards/ --label tag --method smile --checkpoint run --out photos.onepos",
)
#: Sign between the tags of a cell of --sample without --separator.
_BETWEEN_TAGS = ";"


@training_command()
def fit(
    out: Annotated[Path, option("MODEL", "The model file.")],
    report: Report = None,
    verbose: Verbose = False,
    json: output.JsonOption = False,
    **training: Any,
) -> None:
    """Train a model on a table in which every row has one tag, and write it to a file.

    Each column becomes features by its kind: numbers, categories, dates, lists of names, free text. The
    command reports imputed values and unused columns. The model file holds numbers and names, no code.

    One tag per row does not tell how many are true. Give --n-positives or, better, --sample: rows with all their tags.

    A file, or a folder of files with the same columns, may be larger than memory: of its rows a random sample is used.
    Under torchrun several processes train one model.
    """
    from onepos.table.writing import check_place

    options = TrainingOptions(**training)
    read = {"the data": options.data, "--decisions": options.decisions, "--sample": options.sample}
    output.check_apart(read, {"--out": out, "--report": report})
    check_place(out)
    if report is not None:
        output.check_page("--report", report)
    with progress_shown(keep=False):
        trained = train(options, is_stored=True)
        if launched_rank():
            return  # the model is the same in every process; the first one writes it
        tell(0.99, "writing")
        trained.model.save(out)
        if report is not None:
            from onepos.pages.model_page import table_report
            from onepos.table import known_labels

            known = known_labels(trained.model, trained.data, label=options.label, labels=names(options.labels))
            known = known._replace(complete=False)  # one tag per row, also in 0/1 columns
            table_report(trained.model, trained.data, known, report, measured=trained.model.held_out_)
    if json:
        output.print_json(as_json(trained) | {"model": out, "report": report})
        return
    show_training(trained, options.data.name, verbose=verbose)
    if report is not None:
        output.print_line(f"Report: {report}")
    output.print_line(f"Model:  {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if options.data.is_file():
        completed = options.data.with_name(f"{options.data.stem}-completed.csv")
        page = completed.with_suffix(".html")
        words = ["onepos", "complete", options.data, "--model", out, "--out", completed, "--review", page]
        output.print_line(f"Next: {shlex.join(map(str, words))}")


@dataclass(frozen=True)
class Trained:
    """A model, the table it comes from, notes for the user, and what took how long."""

    model: "TableModel"
    data: "TableData"
    notes: list[str]
    seconds: float
    embedding_seconds: float


def train(
    options: TrainingOptions,
    check_table: "Callable[[pd.DataFrame], None] | None" = None,
    *,
    is_stored: bool = False,
) -> Trained:
    """Train a model as the options say; a ValueError on the way is bad input. ``check_table`` looks at the table."""
    started, before = time.monotonic(), seconds_not_counted()
    tell(0.0, "loading")
    from onepos._utils.validation import shorten
    from onepos.pages.decisions import read_decisions

    with output.input_errors(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Find mistakes before reading the table, which may be large.
        _check(options)
        model = options.model()
        estimator = model.check_settings(options.checkpoint)
        if is_stored and (why := getattr(estimator, "not_stored", "")):
            raise InputError(
                f"fit writes a model file, and none can hold {options.method}: {why}. `onepos complete` needs no file."
            )
        decisions = None if options.decisions is None else read_decisions(options.decisions)
        how: dict[str, Any] = {"label": options.label, "labels": names(options.labels) or None}
        how |= {"checkpoint": options.checkpoint, "estimator": estimator}
        # Loading and reading count against the budget. Only auto plans with it; the others stop when it is used up.
        with deadline(started + (options.budget or getattr(estimator, "time_budget", None) or math.inf)):
            tell(0.02, "reading")
            data = model.read(options.data, options.label, sheet=options.sheet)
            if not (options.label or options.labels):
                columns = shorten(data.frame.columns)
                raise InputError(
                    f"say which column of {options.data.name} holds the tags: --label COL. It has: {columns}."
                )
            if check_table is not None:
                check_table(data.frame)
            if options.label in data.frame and not options.force:
                _check_tags(data.frame[options.label], options.separator)
            frame, about_sample = _without_tags_of_sample(data.frame, options)
            model.fit(replace(data, frame=frame), decisions=decisions, **how)
        about_sample += _calibrate(model, options)
    if _interrupted(model):
        raise KeyboardInterrupt  # the training loop keeps a usable model, but the user wants to leave
    said = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    embedding = seconds_not_counted() - before
    seconds = time.monotonic() - started - embedding
    return Trained(model, data, [*model.facts_["notes"], *about_sample, *said], seconds, embedding)


def _check(options: TrainingOptions) -> None:
    """Raise if options contradict each other that the library does not know."""
    if options.budget is not None and not options.budget > 0:
        raise InputError(f"--budget is a number of seconds above 0; got {options.budget:g}.")
    if options.sample is not None:
        _check_sample(options, options.sample)
    elif options.sample_label is not None:
        raise InputError("--sample-label names a column of the file given with --sample; give that too.")
    elif options.precision is not None or options.recall is not None:
        raise InputError("--precision and --recall are kept by rows with all their tags: give these with --sample.")


def _check_tags(tags: "pd.Series[Any]", separator: str | None) -> None:
    """Raise if the tags look like ids, which the doctor calls an error; what else is one, fit itself refuses."""
    from onepos.doctor.diagnosis import counted, finding
    from onepos.doctor.labels import look_like_ids
    from onepos.table.tags import distinct_tags

    n_labels, n_tagged = len(distinct_tags(tags, separator)), int(tags.notna().sum())
    if look_like_ids(n_labels, n_tagged):
        facts: dict[str, Any] = {"labels": counted(n_labels, "label"), "rows": counted(n_tagged, "tagged row")}
        about = finding("tags-look-like-ids", **facts).detail
        raise InputError(f"label column {tags.name!r}: {about} Or train all the same with --force.")


def _check_sample(options: TrainingOptions, sample: Path) -> None:
    """Raise before the training if the sample lacks the columns of its labels."""
    from onepos._utils.validation import shorten
    from onepos.table.files import column_names

    label, labels = options.sample_label or options.label, names(options.labels)
    if label and labels:
        raise InputError("--labels names the 0/1 columns of the sample, too: leave --sample-label out.")
    columns, wanted = column_names(sample), [label] if label else labels
    missing = [repr(name) for name in wanted if name not in columns]
    if missing or not wanted:
        has = f"has no column {missing[0]}" if missing else "does not say which column holds the tags"
        need = "It needs all 0/1 columns of --labels." if labels else "Name the column of all tags with --sample-label."
        raise InputError(f"{sample.name} {has}; its columns are: {shorten(columns)}. {need}")


def _without_tags_of_sample(frame: "pd.DataFrame", options: TrainingOptions) -> "tuple[pd.DataFrame, list[str]]":
    """Hide the tags of rows that the sample has, too: a correction is learnt from rows whose tag the model did not see.

    The rows stay, so that their numbers do. Also returns a note.
    """
    from onepos.table.files import column_names, read_table
    from onepos.table.tags import row_ids

    if options.sample is None or options.id is None or options.id not in column_names(options.sample):
        return frame, []
    ids = row_ids(read_table(options.sample, plain=[options.id]).frame, options.id)
    inside = row_ids(frame, options.id).isin(ids)
    if not inside.any():
        return frame, []
    blank = {options.label: frame[options.label].mask(inside)} if options.label else {}
    blank |= {name: frame[name].mask(inside, 0) for name in names(options.labels)}
    note = f"tags of {inside.sum():,} rows are left out of training, as {options.sample.name} has these rows"
    return frame.assign(**blank), [note]


def _calibrate(model: "TableModel", options: TrainingOptions) -> list[str]:
    """Calibrate the model on the sample, if there is one; returns notes."""
    if options.sample is None:
        return []
    from onepos.table import known_labels, read_as_trained

    tell(0.97, "calibrating")
    label, labels = options.sample_label or options.label, names(options.labels)
    data = read_as_trained(model, options.sample, label)
    separator = (options.separator or _BETWEEN_TAGS) if label else None
    known = known_labels(model, data, label=label, separator=separator, labels=labels)
    model.calibrate(data.frame, known.table, precision=options.precision, recall=options.recall)
    return [f"{options.sample.name}: {note}" for note in known.notes]


def _interrupted(model: "TableModel") -> bool:
    """Whether Ctrl-C ended the training, which keeps what it has."""
    history = getattr(model.estimator_, "history_", None)
    return history is not None and history.facts.get("stopped") == "interrupted"
