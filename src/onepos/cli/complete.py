"""``onepos complete``."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options as opt
from onepos.cli import output
from onepos.cli.fit import Trained, as_json, read_decided, show_training, train
from onepos.cli.options import TrainingOptions, names, option
from onepos.cli.output import InputError

if TYPE_CHECKING:
    from onepos.table import Completion, TableModel

EXAMPLES = (
    "onepos complete photos.csv --label tag --text caption --id id --out completed.csv --review review.html",
    "onepos complete photos.csv --model photos.onepos --out completed.csv --top 3",
)
#: Options of ``fit`` that this command does not have.
WITHOUT = ("labels", "sample", "sample_label", "checkpoint", "cache")
#: Options that have no effect with --model.
_FOR_TRAINING = (
    *("tune", "method", "settings", "n_positives", "validation_fraction"),
    *("seed", "trials", "budget", "drop", "categories"),
)
#: Columns shown beside each row of a review page.
_SHOWN_COLUMNS = 12


def complete(
    options: TrainingOptions,
    out: opt.Out,
    model: Annotated[Path | None, option("MODEL", "Use this model instead of training one.")] = None,
    threshold: opt.Threshold = None,
    top: opt.Top = None,
    review: Annotated[Path | None, option("HTML", "Also write a page on which a person checks the tags.")] = None,
    title: Annotated[str, option("COL", "Column to show as the heading of each row on that page.")] = "",
    escape_formulas: opt.EscapeFormulas = True,
    json: output.JsonOption = False,
) -> None:
    """Complete the tags of a table: write it again, with a probability per label and a set of tags.

    Train on the table itself, or use a model. The set holds the observed tag, the labels that a reviewer accepted, and
    the labels above their threshold. A review page saves decisions that `onepos fit --decisions` learns from.
    """
    from onepos.table.files import check_output

    opt.check_limits(threshold, top)
    data, decisions = options.data, options.decisions
    read = {"the data": data, "--model": model, "--decisions": decisions}
    output.check_apart(read, {"--out": out, "--review": review})
    check_output(out)
    if review is not None:
        output.check_page("--review", review)
    elif title:
        raise InputError("--title is for the review page: give --review too, or leave it out.")
    elif options.image and not options.embed:
        raise InputError("--image shows pictures on the review page, or embeds them: give --review too, or --embed.")
    if data.is_dir():
        raise InputError(f"tags are completed in one table; {data} is a folder: `onepos fit` trains on it.")
    if model is not None:
        _check_untrained(options)
    look = None if review is None else partial(_check_review, options=options, title=title)
    with progress_shown(keep=False):
        trained = None if model is not None else train(_only_shown(options), look)
        tell(0.95, "completing")
        with output.input_errors():
            from onepos.table import complete_table

            made = complete_table(
                *_sources(options, model, trained),
                path=data,
                decisions=read_decided(decisions),
                threshold=threshold,
                top=top,
                separator=options.separator or None,
                at_least_one=False if options.allow_empty else None,
            )
            made.write(out, escape_formulas=escape_formulas)
            if review is not None:
                _write_review(made, review, options.image, title, threshold)
    _report(made, trained, data, out, review, json)


def _only_shown(options: TrainingOptions) -> TrainingOptions:
    """Leave pictures out of training if nothing embeds them: the review page shows them."""
    from onepos.table.embedding import for_pictures

    if not options.image or any(for_pictures(one, text=options.text) for one in options.embed or ()):
        return options
    return replace(options, image="", drop=",".join(part for part in (options.drop, options.image) if part))


def _check_review(frame: Any, options: TrainingOptions, title: str) -> None:
    """Raise before anything is trained if the review page lacks a column, or ids are repeated."""
    from onepos.table.kinds import require_columns
    from onepos.table.tags import row_ids

    for what, name in {"title": title, "image": options.image, "id": options.id}.items():
        require_columns(frame, [name] if name else [], what)
    row_ids(frame, options.id or None)


def _check_untrained(options: TrainingOptions) -> None:
    """Refuse what only training would use; ignored in silence, it would seem to have had an effect."""
    defaults = TrainingOptions(data=options.data)
    for name in _FOR_TRAINING:
        if getattr(options, name) != getattr(defaults, name):
            written = "set" if name == "settings" else name.replace("_", "-")
            raise InputError(f"--{written} is for training, and --model trains nothing: leave one of them out.")


def _sources(options: TrainingOptions, path: Path | None, trained: Trained | None) -> tuple["TableModel", Any]:
    """Return the model and the table, as the model needs it read."""
    if trained is not None:
        return trained.model, trained.data
    assert path is not None
    from onepos.table import read_table, reading_options

    loaded = opt.open_model(path, options.data, options.embed)
    has = {"--label": loaded.label_, "--id": loaded.id_, "--text": ",".join(loaded.encoder_.text)}
    given = {"--label": options.label, "--id": options.id, "--text": ",".join(names(options.text))}
    for name, value in given.items():
        if value and (had := has[name]) != value:
            raise InputError(f"the model was trained with {name} {had or 'left out'}; got {value}. Leave {name} out.")
    return loaded, read_table(options.data, **reading_options(loaded))


def _write_review(made: "Completion", path: Path, image: str, title: str, threshold: float | None) -> None:
    from onepos.pages.review import write_review
    from onepos.table.kinds import require_columns

    frame, model = made.data.frame, made.model
    require_columns(frame, [image] if image else [], "image")
    require_columns(frame, [title] if title else [], "title")
    text = model.encoder_.text[:1]
    shown = [name for name in model.encoder_.kinds_ if name not in (*text, title)][:_SHOWN_COLUMNS]
    sets = [set(tags.split(made.separator)) for tags in made.suggested]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_review(
        path,
        ids=made.ids(),
        observed=made.observed(),
        labels=model.labels_,
        probabilities=made.probabilities.to_numpy(),
        sets=[[label in tags for label in model.labels_] for tags in sets],
        titles=frame[title].fillna("").astype(str).tolist() if title else None,
        texts=frame[text[0]].fillna("").astype(str).tolist() if text else None,
        images=frame[image].fillna("").astype(str).tolist() if image else None,
        features=frame[shown] if shown and made.data.labels is None else None,
        threshold=model.thresholds_ if threshold is None else threshold,
    )


def _report(
    made: "Completion", trained: Trained | None, data: Path, out: Path, review: Path | None, json: bool
) -> None:
    added = made.added()
    if json:
        facts = {"rows": len(made.suggested), "suggested": added, "out": out, "review": review}
        facts |= {"notes": [*made.notes, *made.column_notes], "training": as_json(trained) if trained else None}
        output.print_json({name: value for name, value in facts.items() if value is not None})
        return
    if trained is not None:
        show_training(trained, data, None)
    # Training already printed which values it filled in.
    for note in [*made.notes, *(made.column_notes if trained is None else [])]:
        output.print_note(note)
    output.print_line(f"{added:,} tags suggested beside those observed; {len(made.suggested):,} rows in {out}")
    if review is not None:
        output.print_line(f"Review page: {review}")
        output.print_line(f"Next: check them, save decisions.csv, then: onepos fit {data} … --decisions decisions.csv")
