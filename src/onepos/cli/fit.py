"""``onepos fit``."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepos._utils.launch import launched_rank
from onepos.cli import table_options as options
from onepos.cli.output import InputError, JsonOption, check_apart, print_json, print_line, print_prose, progress_steps
from onepos.cli.table_training import Request, Trained, check_report, train, write_training_report
from onepos.table.comparison import BARELY
from onepos.table.scores import RECALL_AT

if TYPE_CHECKING:
    from onepos.table import TableModel


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
    from onepos.table.writing import check_place

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


# What training prints: what was read, how well held-out tags are ranked, what to do next.


_KINDS = {
    "number": "numbers",
    "boolean": "yes/no",
    "category": "categories",
    "values": "many-valued words",
    "list": "lists",
    "text": "text",
}
_SHOWN = 6
#: Facts that are file names, to be copied as they stand.
_FILES = ("model", "report")


def show_training(trained: Trained, data: Path, out: Path | None, report: Path | None = None) -> None:
    """Print the result for people."""
    facts = trained.model.facts_
    fact(data.name, f"{facts['rows']:,} rows")
    fact("columns", _columns(trained.model))
    for name, reason in list(trained.model.encoder_.left_out_.items())[:_SHOWN]:
        fact("left out", f"{name!r} {reason}")
    _show_more("left out", len(trained.model.encoder_.left_out_))
    for note in trained.notes[:_SHOWN]:
        fact("note", note)
    _show_more("note", len(trained.notes))
    fact("labels", _labels(trained.model))
    if facts["decisions"] is not None:
        fact("decisions", _decisions(facts["decisions"]))
    if facts["tuning"] is not None:
        _show_tuning(facts["tuning"])
    fact("trained", f"{facts['method']} on {facts['training_rows']:,} rows in {trained.seconds:.1f} s")
    if facts["method"] == "auto":
        _show_members(trained.model.estimator_)
    _show_comparison(facts["held_out"], calibrated=facts["calibration"] is not None)
    if facts["calibration"] is None and facts["sets"] is not None:
        fact("sets", _sets(facts["sets"]))
    if facts["calibration"] is not None:
        fact("calibrated", _calibrated(facts["calibration"]))
    if report is not None:
        fact("report", str(report))
    if out is not None:
        fact("model", f"{out} ({_size(out)})")
        table = next(iter(sorted(data.glob("*.p*q*"))), data) if data.is_dir() else data
        print_line(f"Next: onepos predict {out} {table} --out predictions.csv")


def fact(name: str, value: str) -> None:
    """Print one line of a list of facts; not in a table, which would break file names."""
    (print_line if name in _FILES else print_prose)(f"{name:<11} {value}")


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def _show_more(name: str, count: int) -> None:
    if count > _SHOWN:
        fact(name, f"… and {count - _SHOWN:,} more; --json has them all")


def _columns(model: "TableModel") -> str:
    counts = Counter(model.encoder_.kinds_.values())
    kinds = ", ".join(f"{counts[kind]:,} {word}" for kind, word in _KINDS.items() if counts[kind])
    return f"{kinds} → {model.encoder_.n_features_:,} features"


def _labels(model: "TableModel") -> str:
    ranked = sorted(model.facts_["counts"].items(), key=lambda pair: (-pair[1], pair[0]))
    (most, n_most), (least, n_least) = ranked[0], ranked[-1]
    without = model.facts_["rows_without_tag"]
    missing = f"; {without:,} row{'s have' if without != 1 else ' has'} no tag" if without else ""
    return f"{len(ranked):,}, from {most!r} ({n_most:,} rows) to {least!r} ({n_least:,}){missing}"


def _decisions(counts: dict[str, int]) -> str:
    elsewhere = f"; {counts['elsewhere']:,} about rows that are not here" if counts["elsewhere"] else ""
    return f"{counts['accepted']:,} accepted, {counts['rejected']:,} rejected{elsewhere}"


def _show_members(estimator: Any) -> None:
    """Show the members of a combination, those that count most first, and why no more were tried."""
    history = estimator.history_
    total = sum(record["weight"] for record in history)
    for record in sorted(history, key=lambda record: -record["weight"])[:_SHOWN]:
        share = record["weight"] / total if total else 0.0
        likelihood = f", log-likelihood {record['log_likelihood']:.3f}" if "log_likelihood" in record else ""
        fact("member", f"{record['method']:<10} {share:4.0%} of the weight{likelihood}, {record['seconds']:.1f} s")
    _show_more("member", len(history))
    if history.facts["stopped"] == "time_budget":
        members = f"{len(history)} member{'s' if len(history) != 1 else ''}"
        fact("note", f"time was up after {members}; --budget SECONDS gives more, and may rank better")


def _show_tuning(tuning: dict[str, Any]) -> None:
    """Show the chosen settings and what was tried, best first."""
    tried = tuning["trials"]
    ended = {"n_trials": "", "time_budget": ", ended by --budget"}[tuning["stopped"]]
    fact("tuned", f"{len(tried)} setting{'s' if len(tried) != 1 else ''} tried{ended}")
    ranked = sorted(tried, key=lambda trial: -(trial["score"] if trial["score"] is not None else -1.0))
    for trial in ranked[:_SHOWN]:
        score = f"{trial['score']:.4f}" if trial["score"] is not None else trial["state"]
        first = " (the settings given)" if trial is tried[0] else ""
        fact("tried", f"{score:<8} {_settings(trial['settings'])}{first}")
    _show_more("tried", len(ranked))
    fact("chosen", _settings(tuning["chosen"]))


def _settings(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={f'{value:.4g}' if isinstance(value, float) else value}" for name, value in values.items())


def _calibrated(found: dict[str, Any]) -> str:
    return (
        f"on {found['rows']:,} rows with {found['labels_per_row']:.2f} labels each; the model expected "
        f"{found['expected_before']:.2f} and now {found['expected_after']:.2f}; sets are cut at ½"
    )


def _show_comparison(found: dict[str, Any] | None, *, calibrated: bool) -> None:
    """Show how this and simpler methods rank tags that training did not see, and warn if there is little between."""
    if found is None:
        fact("held out", "nothing, so there is no score")
        return
    where = f"{found['rows']:,} rows, each predicted by models that did not see it"
    where = where if found["out_of_fold"] else f"{found['rows']:,} rows"
    fact("held out", f"{where}; mean reciprocal rank of the tag{' before calibration' if calibrated else ''}:")
    for method, scores in found["methods"].items():
        fact("", f"{method:<10} {scores['reciprocal_rank']:.3f}, log-likelihood {scores['log_likelihood']:.3f}")
    recalls = [f"{found[f'recall_at_{k}']:.0%} among the first {k}" for k in RECALL_AT if f"recall_at_{k}" in found]
    if recalls:
        fact("", f"the tag is {', '.join(recalls)}")
    if found["barely_beats_frequency"]:
        fact("WARNING", BARELY)


def _sets(found: dict[str, Any]) -> str:
    size = f"{found['mean_size']:.2f} labels per row"
    if not found["guessed"]:
        return f"{size}; {found['n_positives']:g} were asked for"
    return f"{size}. This number is a guess: give the true mean with --n-positives M, or complete rows with --sample"
