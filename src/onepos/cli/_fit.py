"""``onepos fit``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from onepos._launch import launched_rank
from onepos.cli import _table_options as options
from onepos.cli._output import InputError, JsonOption, print_json, progress_steps
from onepos.cli._places import check_apart
from onepos.cli._table_report import check_report, write_training_report
from onepos.cli._table_training import Request, Trained, train

EXAMPLES = """\
[bold]Examples[/bold]

  onepos fit photos.csv --label tag --text caption --id id --out photos.onepos

  onepos fit films.csv --label genres --separator ", " --text plot --out films.onepos

  onepos fit photos.csv --label tag --method an --set max_epochs=10 --out photos.onepos

  onepos fit photos.csv --label tag --id id --decisions decisions.csv --out better.onepos

  onepos fit photos.csv --label tag --tune --budget 600 --out photos.onepos

  onepos fit photos.csv --label tag --sample checked.csv --sample-label tags --out photos.onepos --report photos.html

  onepos fit yeast.arff --method smile --n-positives 4.2 --out yeast.onepos

  torchrun --nproc-per-node 2 -m onepos fit shards/ --label tag --method smile --checkpoint run --out photos.onepos
"""


def fit(
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="The model file.", show_default=False)],
    label: options.Label = "",
    labels: options.Labels = "",
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
    sample: options.Sample = None,
    sample_label: options.SampleLabel = "",
    separator: options.Separator = "",
    report: options.Report = None,
    checkpoint: options.Checkpoint = None,
    cache: options.Cache = None,
    json: JsonOption = False,
) -> None:
    """Train a model on a table in which every row has one tag, and write it to a file.

    Numbers, yes/no columns and categories are used as they are found; columns of free text are used when named. What
    was filled in or left out is said. The model file holds numbers and names, no code.

    One tag per row does not tell how many are true: --n-positives does; --sample, some rows with all tags, does better.

    A folder of parquet files is read piece by piece and may be larger than memory. Under torchrun several processes
    train one model.
    """
    from onepos.columns.writing import check_place

    check_apart({"the data": data, "--decisions": decisions, "--sample": sample}, {"--out": out, "--report": report})
    check_place(out)
    if report is not None:
        check_report(report)
        if data.is_dir():
            raise InputError(f"--report looks at the rows of one table; {data} is a folder of shards: leave it out.")
    request = Request(
        data=data,
        label=label,
        labels=labels,
        text=text,
        id=id,
        drop=drop,
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
        sample=sample,
        sample_label=sample_label,
        separator=separator,
        allow_empty=allow_empty,
        checkpoint=checkpoint,
        cache=cache,
    )
    with progress_steps() as progress:
        trained = train(request, progress)
        if launched_rank():
            return  # the model is the same in every process; the first one writes it
        progress("writing", 0.99)
        trained.model.save(out)
        if report is not None:
            write_training_report(trained, request, report)
    if json:
        print_json(as_json(trained) | {"model": str(out)} | ({"report": str(report)} if report is not None else {}))
        return
    from onepos.cli._fit_view import show_training

    show_training(trained, data, out, report)


def as_json(trained: Trained) -> dict[str, Any]:
    """Return what ``--json`` says about a training."""
    model = trained.model
    facts = {name: value for name, value in model.facts_.items() if name not in ("notes", "counts")}
    return {
        **facts,
        "labels": model.facts_["counts"],
        **({"members": model.estimator_.history_.records} if model.facts_["method"] == "auto" else {}),
        "columns": model.encoder_.kinds_,
        "left_out": model.encoder_.left_out_,
        "features": model.encoder_.n_features_,
        "notes": trained.notes,
        "seconds": trained.seconds,
    }
