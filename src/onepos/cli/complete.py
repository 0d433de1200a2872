"""``onepos complete``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepos.cli import table_options as options
from onepos.cli.output import (
    InputError,
    JsonOption,
    check_apart,
    check_page,
    input_errors,
    print_json,
    print_line,
    print_note,
    progress_steps,
)
from onepos.cli.table_training import Request, Trained, read_decided, train

if TYPE_CHECKING:
    from onepos.table import Completion, TableModel


EXAMPLES = """\
[bold]Examples[/bold]

  onepos complete photos.csv --label tag --text caption --id id --out completed.csv --review review.html

  onepos complete photos.csv --model photos.onepos --out completed.csv --top 3
"""
#: Columns shown beside each row of a review page.
_SHOWN_COLUMNS = 12


def complete(
    data: options.Data,
    out: options.Out,
    label: options.Label = "",
    text: options.Text = "",
    id: options.Id = "",
    drop: options.Drop = "",
    categories: options.Categories = "",
    method: options.Method = options.DEFAULT_METHOD,
    set_: options.Settings = None,
    n_positives: options.Positives = None,
    allow_empty: options.AllowEmpty = False,
    validation_fraction: options.Fraction = None,
    decisions: options.Decisions = None,
    seed: options.Seed = 0,
    tune: options.Tune = False,
    trials: options.Trials = None,
    budget: options.Budget = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="Use this model, train none.", show_default=False)
    ] = None,
    threshold: options.Threshold = None,
    top: options.Top = None,
    separator: options.Separator = "",
    review: Annotated[
        Path | None,
        typer.Option("--review", metavar="HTML", help="Also write a page to check the tags on.", show_default=False),
    ] = None,
    image: Annotated[
        str, typer.Option("--image", metavar="COL", help="Picture files to show on that page.", show_default=False)
    ] = "",
    json: JsonOption = False,
) -> None:
    """Fill in the tags that nobody wrote down: the table again, with a probability for every label and a set of tags.

    Trains on the table itself, or takes a model. The set holds the observed tag, what a reviewer accepted, and the
    labels that are likely. A review page saves decisions that `onepos fit --decisions` learns from.
    """
    from onepos.table.writing import check_output

    options.check_limits(threshold, top)
    check_apart({"the data": data, "--model": model, "--decisions": decisions}, {"--out": out, "--review": review})
    check_output(out)
    if review is not None:
        check_page("--review", review)
    elif image:
        raise InputError("--image shows pictures on the review page: give --review too, or leave it out.")
    if data.is_dir():
        raise InputError(f"tags are completed in one table; {data} is a folder: `onepos fit` trains on it.")
    left_out = ",".join(part for part in (drop, image) if part)
    request = Request(
        data=data,
        label=label,
        labels="",
        text=text,
        id=id,
        drop=left_out,
        categories=categories,
        method=method,
        settings=set_,
        n_positives=n_positives,
        validation_fraction=validation_fraction,
        decisions=decisions,
        seed=seed,
        tune=tune,
        trials=trials,
        budget=budget,
        separator=separator,
        allow_empty=allow_empty,
    )
    if model is not None:
        _check_untrained(request, drop)
    with progress_steps() as progress:
        trained = None if model is not None else train(request, progress)
        progress("completing", 0.95)
        with input_errors():
            from onepos.table import complete_table

            made = complete_table(
                *_sources(request, model, trained),
                path=data,
                decisions=read_decided(decisions),
                threshold=threshold,
                top=top,
                separator=separator or options.BETWEEN_TAGS,
                at_least_one=False if allow_empty else None,
            )
            made.write(out)
            if review is not None:
                _write_review(made, review, image, threshold)
    _report(made, trained, data, out, review, json)


def _check_untrained(request: Request, drop: str) -> None:
    """Refuse what only training would use; ignored in silence, it would seem to have had an effect."""
    given = {
        "--tune": request.tune,
        "--method": request.method != options.DEFAULT_METHOD,
        "--set": request.settings,
        "--n-positives": request.n_positives is not None,
        "--validation-fraction": request.validation_fraction is not None,
        "--seed": request.seed,
        "--trials": request.trials is not None,
        "--budget": request.budget is not None,
        "--drop": drop,
        "--categories": request.categories,
    }
    for option, is_given in given.items():
        if is_given:
            raise InputError(f"{option} is for training, and --model trains nothing: leave one of them out.")


def _sources(request: Request, path: Path | None, trained: Trained | None) -> tuple["TableModel", Any]:
    """Return the model and the table, as the model needs it read."""
    if trained is not None:
        return trained.model, trained.data
    assert path is not None
    from onepos.table import TableModel, read_table, reading_options

    loaded = TableModel.load(path)
    has = {"--label": loaded.label_, "--id": loaded.id_, "--text": ",".join(loaded.encoder_.text)}
    given = {"--label": request.label, "--id": request.id, "--text": ",".join(options.names(request.text))}
    for option, value in given.items():
        if value and has[option] != value:
            raise InputError(
                f"the model was trained with {option} {has[option] or 'left out'}; got {value}. Leave {option} out."
            )
    return loaded, read_table(request.data, **reading_options(loaded, request.data))


def _write_review(made: "Completion", path: Path, image: str, threshold: float | None) -> None:
    from onepos.pages.review import write_review
    from onepos.table.tags import require_columns

    frame, model = made.data.frame, made.model
    require_columns(frame, [image] if image else [], "image")
    text = model.encoder_.text[:1]
    shown = [name for name in model.encoder_.kinds_ if name not in text][:_SHOWN_COLUMNS]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_review(
        path,
        ids=made.ids(),
        observed=made.observed(),
        labels=model.labels_,
        probabilities=made.probabilities.to_numpy(),
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
        from onepos.cli.fit import as_json

        facts = {"rows": len(made.suggested), "suggested": added, "out": str(out)}
        page = {"review": str(review)} if review is not None else {}
        print_json(
            facts
            | page
            | {"notes": [*made.notes, *made.column_notes]}
            | ({"training": as_json(trained)} if trained else {})
        )
        return
    if trained is not None:
        from onepos.cli.fit import show_training

        show_training(trained, data, None)
    # Training has said what it filled in.
    for note in [*made.notes, *(made.column_notes if trained is None else [])]:
        print_note(note)
    print_line(f"{added:,} tags suggested beside those observed; {len(made.suggested):,} rows in {out}")
    if review is not None:
        print_line(f"Review page: {review}")
        print_line(f"Next: check them, save decisions.csv, then: onepos fit {data} … --decisions decisions.csv")
