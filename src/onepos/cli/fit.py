"""``onepos fit``."""

from pathlib import Path
from typing import Annotated

from onepos._utils.machine import launched_rank
from onepos.cli.evaluate import check_report, write_table_report
from onepos.cli.options import Report, TrainingOptions, names, option
from onepos.cli.output import InputError, JsonOption, check_apart, print_json, progress_steps
from onepos.cli.training import Trained, as_json, show_training, train

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
    options: TrainingOptions,
    out: Annotated[Path, option("--out", "MODEL", "The model file.")],
    report: Report = None,
    json: JsonOption = False,
) -> None:
    """Train a model on a table in which every row has one tag, and write it to a file.

    Each column becomes features by its kind: numbers, categories, dates, lists of names, free text. The
    command reports imputed values and unused columns. The model file holds numbers and names, no code.

    One tag per row does not tell how many are true. Give --n-positives or, better, --sample: rows with all their tags.

    A folder of parquet files is read piece by piece and may be larger than memory. Under torchrun several processes
    train one model.
    """
    from onepos.table.files import check_place

    data = options.data
    read = {"the data": data, "--decisions": options.decisions, "--sample": options.sample}
    check_apart(read, {"--out": out, "--report": report})
    check_place(out)
    if report is not None:
        check_report(report)
        if data.is_dir():
            raise InputError(f"--report looks at the rows of one table; {data} is a folder of shards: leave it out.")
    with progress_steps() as progress:
        trained = train(options, progress)
        if launched_rank():
            return  # the model is the same in every process; the first one writes it
        progress("writing", 0.99)
        trained.model.save(out)
        if report is not None:
            _write_report(trained, options, report)
    if json:
        print_json(as_json(trained) | {"model": str(out)} | ({"report": str(report)} if report is not None else {}))
    else:
        show_training(trained, data, out, report)


def _write_report(trained: Trained, options: TrainingOptions, path: Path) -> None:
    """Write the page of the model, measured on the rows that training did not see."""
    from onepos.table.evaluation import Truth

    assert trained.data is not None  # a folder of shards has no page
    truth = Truth(options.label or None, None, names(options.labels) if trained.data.labels is None else [])
    write_table_report(trained.model, trained.data, truth, path, complete=False, measured=trained.model.held_out_)
