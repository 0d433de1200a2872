"""``onepos fit``: from the options to a trained model, shared with ``complete``, and what is printed about it."""

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onepos._utils.context import deadline, tell
from onepos._utils.machine import launched, launched_rank, require
from onepos._utils.progress import progress_shown
from onepos.cli import output
from onepos.cli.evaluate import check_report, write_table_report
from onepos.cli.options import BETWEEN_TAGS, Report, TrainingOptions, names, option, settings
from onepos.cli.output import InputError

if TYPE_CHECKING:
    from onepos.table import TableData, TableModel

EXAMPLES = (
    "onepos fit photos.csv --label tag --text caption --id id --out photos.onepos",
    'onepos fit films.csv --label genres --separator ", " --text plot --out films.onepos',
    "onepos fit photos.csv --label tag --method an --set max_epochs=10 --out photos.onepos",
    "onepos fit photos.csv --label tag --id id --decisions decisions.csv --out better.onepos",
    "onepos fit photos.csv --label tag --tune --budget 600 --out photos.onepos",
    "onepos fit photos.csv --label tag --sample checked.csv --sample-label tags --out photos.onepos --report page.html",
    'onepos fit yeast.csv --label tags --separator ";" --method smile --out yeast.onepos',
    "torchrun --nproc-per-node 2 -m onepos fit shards/ --label tag --method smile --checkpoint run --out photos.onepos",
)
_SHOWN, _SHOWN_COLUMNS = 6, 20
#: Facts that are file names, to be copied as they stand.
_FILES = ("embedder", "model", "report")


def fit(
    options: TrainingOptions,
    out: Annotated[Path, option("MODEL", "The model file.")],
    report: Report = None,
    json: output.JsonOption = False,
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
    output.check_apart(read, {"--out": out, "--report": report})
    check_place(out)
    if report is not None:
        check_report(report)
        if data.is_dir():
            raise InputError(f"--report looks at the rows of one table; {data} is a folder of shards: leave it out.")
    with progress_shown(keep=False):
        trained = train(options)
        if launched_rank():
            return  # the model is the same in every process; the first one writes it
        tell(0.99, "writing")
        trained.model.save(out)
        if report is not None and trained.data is not None:
            from onepos.table.evaluation import Truth

            truth = Truth(options.label or None, None, names(options.labels) if trained.data.labels is None else [])
            unseen = trained.model.held_out_
            write_table_report(trained.model, trained.data, truth, report, complete=False, measured=unseen)
    if json:
        written = {"model": out, "report": report}
        output.print_json(as_json(trained) | {name: str(path) for name, path in written.items() if path is not None})
    else:
        show_training(trained, data, out, report)


@dataclass(frozen=True)
class Trained:
    """A model, the table it comes from (None: a folder of shards), and notes for the user."""

    model: "TableModel"
    data: "TableData | None"
    notes: list[str]
    seconds: float


def train(options: TrainingOptions, look: Callable[[Any], None] | None = None) -> Trained:
    """Train a model as the options say; a ValueError on the way is bad input. ``look`` gets the table before that."""
    started = time.monotonic()
    tell(0.0, "loading")
    # Find mistakes before reading the table, which may be large.
    _check(options)
    decisions = read_decided(options.decisions)
    with output.input_errors(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _untrained(options)
        budget = model.check_settings(options.checkpoint).get_params(deep=False).get("time_budget")
        tell(0.02, "reading")
        # Loading and reading count against the budget of auto.
        with deadline(math.inf if budget is None else started + budget):
            data = _fit(model, options, decisions, look)
        about_sample = _calibrate(model, options)
    runs = [model.facts_["tuning"] or {}, getattr(getattr(model.estimator_, "history_", None), "facts", {})]
    if any(facts.get("stopped") == "interrupted" for facts in runs):
        raise KeyboardInterrupt  # the training loop keeps a usable model, but the user wants to leave
    said = (" ".join(str(warning.message).split()).replace(" separator=", " --separator ") for warning in caught)
    notes = [*model.facts_["notes"], *about_sample, *dict.fromkeys(said)]
    return Trained(model, data, notes, time.monotonic() - started)


def _check(options: TrainingOptions) -> None:
    """Raise if options contradict each other."""
    if options.tune and launched():
        raise InputError("--tune searches in one process; run it without torchrun, then fit with what it chose.")
    if options.data.is_dir():
        for name in ("text", "image", "decisions", "tune"):
            if getattr(options, name):
                raise InputError(f"--{name} works on one table; {options.data} is a folder of shards: leave it out.")
    elif options.cache is not None:
        raise InputError("--cache is for a folder of shards, whose features are kept on disk: leave it out.")
    if options.sample is None and options.sample_label:
        raise InputError("--sample-label names a column of the file given with --sample; give that too.")
    if options.sample is not None and not options.sample.is_file():
        raise InputError(f"no such file: {options.sample}. --sample is a table of rows with all their tags.")
    _check_sample(options)
    if options.budget is not None and not options.budget > 0:
        raise InputError(f"--budget is a number of seconds above 0; got {options.budget:g}.")
    if not options.tune:
        if options.trials is not None or (options.budget is not None and options.method != "auto"):
            raise InputError("--trials and --budget say how long --tune searches: give --tune too, or leave them out.")
        return
    if options.method == "auto":
        raise InputError("--tune searches the settings of one method: name it with --method. auto chooses by itself.")
    require("optuna", extra="tune", purpose="--tune")


def _check_sample(options: TrainingOptions) -> None:
    """Raise before the training if the sample lacks the columns of its labels."""
    from onepos.table.files import column_names
    from onepos.table.kinds import shorten

    if options.sample is None:
        return
    label, labels = options.sample_label or options.label, names(options.labels)
    if label and labels:
        raise InputError("--labels names the 0/1 columns of the sample, too: leave --sample-label out.")
    columns = column_names(options.sample)
    if not label and not labels:
        raise InputError(f"say which column of {options.sample.name} holds all tags: --sample-label COL.")
    missing = [name for name in ([label] if label else labels) if name not in columns]
    if missing:
        advice = (
            "Name the column of all tags with --sample-label." if label else "It needs all 0/1 columns of --labels."
        )
        raise InputError(
            f"{options.sample.name} has no column {missing[0]!r}; its columns are: {shorten(columns)}. {advice}"
        )


def _untrained(options: TrainingOptions) -> "TableModel":
    """Return the model that the options describe."""
    from onepos.table import TableModel

    params = settings(options.settings)
    search = None
    if options.tune:
        from onepos.tuning import tune

        search = partial(
            tune,
            n_trials=options.trials or 20,
            time_budget=options.budget,
            random_state=options.seed,
        )
    elif options.budget is not None:
        params = {"time_budget": options.budget} | params
    return TableModel(
        method=options.method,
        params=params,
        text=names(options.text),
        categories=names(options.categories),
        drop=names(options.drop),
        image=options.image or None,
        embed=options.embed or None,
        image_folder=options.data.parent,
        id=options.id or None,
        separator=options.separator or None if options.label else None,
        n_positives=options.n_positives,
        at_least_one=not options.allow_empty,
        validation_fraction=options.validation_fraction,
        tune=search,
        random_state=options.seed,
    )


def _fit(
    model: "TableModel", options: TrainingOptions, decisions: Any, look: Callable[[Any], None] | None
) -> "TableData | None":
    """Read the data and fit the model; returns the table."""
    label, columns = options.label or None, names(options.labels)
    common: dict[str, Any] = {"label": label, "checkpoint": options.checkpoint}
    if options.data.is_dir():
        model.fit_shards(options.data, labels=columns or None, cache_folder=options.cache, **common)
        return None
    from onepos.table import read_table

    data = read_table(
        options.data,
        words=names(options.categories),
        plain=[options.label, options.id, options.image, *names(options.text)],
    )
    if data.labels is None and not options.label and not options.labels:
        shown = ", ".join(map(str, data.frame.columns[:8])) + (" …" if len(data.frame.columns) > 8 else "")
        raise InputError(f"say which column of {options.data.name} holds the tags: --label COL. It has: {shown}.")
    if options.separator and not options.label and options.sample is None:
        raise InputError("--separator says what stands between the tags of a cell of --label: give that too.")
    if options.label and options.labels:
        raise InputError("give --label (one column of tags) or --labels (0/1 columns), not both.")
    if look is not None:
        look(data.frame)
    given = columns if data.labels is None else data.labels
    model.fit(data.frame, labels=None if label else given, decisions=decisions, **common)
    return data


def _calibrate(model: "TableModel", options: TrainingOptions) -> list[str]:
    """Calibrate the model on the sample, if there is one; returns notes."""
    if options.sample is None:
        return []
    from onepos.table import calibrate_table, read_table, reading_options

    tell(0.97, "calibrating")
    label, labels = options.sample_label or options.label, names(options.labels)
    read_as = reading_options(model)
    data = read_table(options.sample, **read_as | {"plain": [*read_as["plain"], label]})
    separator = (options.separator or BETWEEN_TAGS) if label else None
    notes = calibrate_table(model, data, label=label or None, separator=separator, labels=labels)
    return [f"{options.sample.name}: {note}" for note in notes]


def read_decided(path: Path | None) -> Any:
    """Return a reviewer's decisions, None if there is no file."""
    if path is None:
        return None
    if not path.is_file():
        raise InputError(f"no such file: {path}. --decisions is the CSV file that a review page saved.")
    from onepos.pages.review import read_decisions

    return read_decisions(path)


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
        "became": model.encoder_.describe(),
        "features": model.encoder_.n_features_,
        "notes": trained.notes,
        "seconds": trained.seconds,
    }


def show_training(trained: Trained, data: Path, out: Path | None, report: Path | None = None) -> None:
    """Print the result for people."""
    facts, encoder = trained.model.facts_, trained.model.encoder_
    fact(data.name, f"{facts['rows']:,} rows")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(encoder.kinds_.values()).items())
    fact("columns", f"{kinds} → {encoder.n_features_:,} features")
    for embedder in encoder.embedders_:
        fact("embedder", embedder)
    _show_first("", [f"{name!r} {line}" for name, line in encoder.describe().items()], _SHOWN_COLUMNS)
    _show_first("note", trained.notes)
    ranked = sorted(facts["counts"].items(), key=lambda pair: (-pair[1], pair[0]))
    (most, n_most), (least, n_least) = ranked[0], ranked[-1]
    without = facts["rows_without_tag"]
    missing = f"; {without:,} row{'s have' if without != 1 else ' has'} no tag" if without else ""
    fact("labels", f"{len(ranked):,}, from {most!r} ({n_most:,} rows) to {least!r} ({n_least:,}){missing}")
    if (decided := facts["decisions"]) is not None:
        elsewhere = f"; {decided['elsewhere']:,} about rows that are not here" if decided["elsewhere"] else ""
        fact("decisions", f"{decided['accepted']:,} accepted, {decided['rejected']:,} rejected{elsewhere}")
    if facts["tuning"] is not None:
        _show_tuning(facts["tuning"])
    fact("trained", f"{facts['method']} on {facts['training_rows']:,} rows in {trained.seconds:.1f} s")
    if facts["method"] == "auto":
        _show_members(trained.model.estimator_)
    _show_comparison(facts["held_out"], calibrated=facts["calibration"] is not None)
    if (found := facts["calibration"]) is not None:
        fact(
            "calibrated",
            f"on {found['rows']:,} rows with {found['labels_per_row']:.2f} labels each; the model expected "
            f"{found['expected_before']:.2f} and now {found['expected_after']:.2f}; sets are cut at ½",
        )
    elif (sets := facts["sets"]) is not None:
        guess = ". This number is a guess: give the true mean with --n-positives M, or complete rows with --sample"
        why = guess if sets["guessed"] else f"; {sets['n_positives']:g} were asked for"
        fact("sets", f"{sets['mean_size']:.2f} labels per row{why}")
    if report is not None:
        fact("report", str(report))
    if out is not None:
        size = out.stat().st_size
        fact("model", f"{out} ({f'{size / 1e6:.1f} MB' if size >= 1e6 else f'{size / 1e3:.0f} kB'})")
        table = next(iter(sorted(data.glob("*.p*q*"))), data) if data.is_dir() else data
        output.print_line(f"Next: onepos predict {out} {table} --out predictions.csv")


def fact(name: str, value: str) -> None:
    """Print one line of a list of facts; not in a table, which would break file names."""
    (output.print_line if name in _FILES else output.print_prose)(f"{name:<11} {value}")


def _show_first(name: str, values: list[str], shown: int = _SHOWN) -> None:
    for value in values[:shown]:
        fact(name, value)
    if len(values) > shown:
        fact(name, f"… and {len(values) - shown:,} more; --json has them all")


def _show_members(estimator: Any) -> None:
    """Show the members of a combination, those that count most first, and why no more were tried."""
    history = estimator.history_
    total, lines = sum(record["weight"] for record in history), []
    for record in sorted(history, key=lambda record: -record["weight"]):
        share = record["weight"] / total if total else 0.0
        likelihood = f", log-likelihood {record['log_likelihood']:.3f}" if "log_likelihood" in record else ""
        lines.append(f"{record['method']:<10} {share:4.0%} of the weight{likelihood}, {record['seconds']:.1f} s")
    _show_first("member", lines)
    if history.facts["stopped"] == "time_budget":
        members = f"{len(history)} member{'s' if len(history) != 1 else ''}"
        fact("note", f"time was up after {members}; --budget SECONDS gives more, and may rank better")


def _show_tuning(tuning: dict[str, Any]) -> None:
    """Show the chosen settings and what was tried, best first."""
    tried = tuning["trials"]
    ended = {"n_trials": "", "time_budget": ", ended by --budget"}[tuning["stopped"]]
    fact("tuned", f"{len(tried)} setting{'s' if len(tried) != 1 else ''} tried{ended}")
    lines = []
    for trial in sorted(tried, key=lambda trial: -(trial["score"] if trial["score"] is not None else -1.0)):
        score = f"{trial['score']:.4f}" if trial["score"] is not None else trial["state"]
        first = " (the settings given)" if trial is tried[0] else ""
        lines.append(f"{score:<8} {_settings(trial['settings'])}{first}")
    _show_first("tried", lines)
    fact("chosen", _settings(tuning["chosen"]))


def _settings(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={f'{value:.4g}' if isinstance(value, float) else value}" for name, value in values.items())


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
    from onepos.table.training import BARELY, RECALL_AT

    recalls = {k: found[f"recall_at_{k}"] for k in RECALL_AT if f"recall_at_{k}" in found}
    if recalls:
        shares = [f"{'first' if k == 1 else f'among the first {k}'} in {share:.0%}" for k, share in recalls.items()]
        fact("", f"the tag is {', '.join(shares)} of the rows")
    if found["barely_beats_frequency"]:
        fact("WARNING", BARELY)
