"""What ``fit`` and ``complete`` share: read the table, train, and collect what the user should know."""

import math
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._utils.deadline import deadline
from onepos._utils.launch import launched
from onepos._utils.optional import require
from onepos.cli.output import InputError, check_page, input_errors
from onepos.cli.table_options import BETWEEN_TAGS, names, settings

if TYPE_CHECKING:
    from onepos.table import TableData, TableModel, Truth


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a training command, as they were typed."""

    data: Path
    label: str
    labels: str
    text: str
    id: str
    drop: str
    categories: str
    method: str
    settings: list[str] | None
    n_positives: float | None
    validation_fraction: float | None
    decisions: Path | None
    seed: int
    tune: bool = False
    trials: int | None = None
    budget: float | None = None
    checkpoint: Path | None = None
    cache: Path | None = None
    sample: Path | None = None
    sample_label: str = ""
    separator: str = ""
    allow_empty: bool = False


@dataclass(frozen=True)
class Trained:
    """A model, the table it comes from (None: a folder of shards), and what was noticed on the way."""

    model: "TableModel"
    data: "TableData | None"
    notes: list[str]
    seconds: float


def read_request(request: Request) -> "TableData":
    """Read the table of a request and check that it says where the labels are."""
    from onepos.table import read_table

    data = read_table(
        request.data,
        words=names(request.categories),
        plain=[request.label, request.id, *names(request.text)],
        labels=names(request.labels),
    )
    if data.labels is None and not request.label and not request.labels:
        raise InputError(
            f"say which column of {request.data.name} holds the tags: --label COL. It has: {_some(data.frame)}."
        )
    if request.separator and not request.label and request.sample is None:
        raise InputError("--separator says what stands between the tags of a cell of --label: give that too.")
    if request.label and request.labels:
        raise InputError("give --label (one column of tags) or --labels (0/1 columns), not both.")
    return data


def train(request: Request, progress: Any) -> Trained:
    """Train a model as the options say; ValueErrors on the way are bad input."""
    started = time.monotonic()
    progress("loading", 0.0)
    params = _auto_budget(request) | settings(request.settings)
    _check_sample(request)
    read_decided(request.decisions)  # before the table, which may be large
    search = _search(request, progress)
    with input_errors(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from onepos.methods.registry import make_classifier

        # A wrong key is noticed before a large file is read, and torch is loaded.
        make_classifier(request.method)._check_processes()
        progress("reading", 0.02)
        # Reading and loading count in the seconds that auto has; TableModel looks at what is left.
        with deadline(started + params.get("time_budget", math.inf)):
            model, data = (
                _fit_shards(request, params, progress)
                if of_shards(request)
                else _fit(request, params, search, progress)
            )
        said_of_sample = _calibrate(request, model, progress)
    history = getattr(model.estimator_, "history_", None)
    runs = [model.facts_["tuning"] or {}, history.facts if history is not None else {}]
    if any(facts.get("stopped") == "interrupted" for facts in runs):
        raise KeyboardInterrupt  # the training loop keeps a usable model; here the user wants to be out
    said = dict.fromkeys(_in_options(" ".join(str(warning.message).split())) for warning in caught)
    return Trained(model, data, [*model.facts_["notes"], *said_of_sample, *said], time.monotonic() - started)


def _in_options(message: str) -> str:
    """Say what a warning says about a parameter with the option of the same meaning."""
    return message.replace(" separator=", " --separator ")


def of_shards(request: Request) -> bool:
    """Whether a request is about a folder of parquet files, with options that fit to it."""
    if not request.data.is_dir():
        if request.cache is not None:
            raise InputError("--cache is for a folder of shards, whose features are kept on disk: leave it out.")
        return False
    options = {
        "--text": request.text,
        "--decisions": request.decisions,
        "--tune": request.tune,
    }
    for option, value in options.items():
        if value:
            raise InputError(f"{option} works on one table; {request.data} is a folder of shards: leave it out.")
    return True


def _fit(request: Request, params: dict[str, Any], search: Any, progress: Any) -> "tuple[TableModel, TableData]":
    from onepos.table import TableModel

    data = read_request(request)
    model = TableModel().fit(
        data.frame,
        label=request.label or None,
        labels=None if request.label else _label_columns(request, data),
        text=names(request.text),
        id=request.id or None,
        drop=names(request.drop),
        categories=names(request.categories),
        separator=request.separator or None,
        decisions=read_decided(request.decisions),
        method=request.method,
        params=params,
        n_positives=request.n_positives,
        at_least_one=not request.allow_empty,
        validation_fraction=request.validation_fraction,
        random_state=request.seed,
        tune=search,
        checkpoint=request.checkpoint,
        progress=progress,
    )
    return model, data


def _fit_shards(request: Request, params: dict[str, Any], progress: Any) -> "tuple[TableModel, None]":
    from onepos.table import fit_shards

    model = fit_shards(
        request.data,
        label=request.label or None,
        labels=names(request.labels),
        id=request.id or None,
        drop=names(request.drop),
        categories=names(request.categories),
        separator=request.separator or None,
        method=request.method,
        params=params,
        n_positives=request.n_positives,
        at_least_one=not request.allow_empty,
        validation_fraction=request.validation_fraction,
        random_state=request.seed,
        cache_folder=request.cache,
        checkpoint=request.checkpoint,
        progress=progress,
    )
    return model, None


def _check_sample(request: Request) -> None:
    """Notice before training what would only be needed after it."""
    if request.sample is None and request.sample_label:
        raise InputError("--sample-label names a column of the file given with --sample; give that too.")
    if request.sample is not None and not request.sample.is_file():
        raise InputError(f"no such file: {request.sample}. --sample is a table of rows with all their tags.")


def _auto_budget(request: Request) -> dict[str, Any]:
    """What --budget means without --tune: the seconds that auto has for its members."""
    return {"time_budget": request.budget} if request.method == "auto" and request.budget is not None else {}


def _search(request: Request, progress: Any) -> Any:
    """Return how settings are searched, None if they are not."""
    if request.budget is not None and not request.budget > 0:
        raise InputError(f"--budget is a number of seconds above 0; got {request.budget:g}.")
    if not request.tune:
        if request.trials is not None or (request.budget is not None and request.method != "auto"):
            raise InputError("--trials and --budget say how long --tune searches: give --tune too, or leave them out.")
        return None
    if launched():
        raise InputError("--tune searches in one process; run it without torchrun, then fit with what it chose.")
    if request.method == "auto":
        raise InputError("--tune searches the settings of one method: name it with --method. auto chooses by itself.")
    # Before a large file is read.
    require("optuna", extra="tune", purpose="--tune")
    from onepos.tuning import tune

    return partial(
        tune,
        n_trials=request.trials or 20,
        time_budget=request.budget,
        random_state=request.seed,
        progress=lambda step, share: progress(step, 0.05 + 0.85 * share),
    )


def _calibrate(request: Request, model: "TableModel", progress: Any) -> list[str]:
    """Calibrate a trained model on the sample of a request, if there is one; returns notes."""
    if request.sample is None:
        return []
    from onepos.table import calibrate_table, read_table, reading_options

    progress("calibrating", 0.97)
    label, labels = request.sample_label or request.label, names(request.labels)
    read_as = reading_options(model, request.sample)
    data = read_table(request.sample, **read_as | {"plain": [*read_as["plain"], label], "labels": labels})
    notes = calibrate_table(
        model,
        data,
        label=label or None,
        separator=(request.separator or BETWEEN_TAGS) if label else None,
        labels=labels,
    )
    return [f"{request.sample.name}: {note}" for note in notes]


def _label_columns(request: Request, data: "TableData") -> Any:
    return names(request.labels) if data.labels is None else data.labels


def read_decided(path: Path | None) -> Any:
    """Return a reviewer's decisions, None if there is no file."""
    if path is None:
        return None
    if not path.is_file():
        raise InputError(f"no such file: {path}. --decisions is the CSV file that a review page saved.")
    from onepos.pages.review import read_decisions

    return read_decisions(path)


def _some(frame: Any) -> str:
    shown = [str(name) for name in frame.columns[:8]]
    return ", ".join(shown) + (" …" if len(frame.columns) > 8 else "")


# ``--report``: the page about a model, from the table that a command has read.


def check_report(path: Path) -> None:
    """Raise before the work, not after it, if the page cannot be written."""
    from onepos.pages import require_report

    check_page("--report", path)
    require_report()


def write_training_report(trained: Trained, request: Request, path: Path) -> None:
    """Write the page of a model just trained, measured on the rows that training did not see."""
    from onepos.table import Truth

    assert trained.data is not None  # of a folder of shards no page is asked for
    labels = names(request.labels) if trained.data.labels is None else []
    truth = Truth(request.label or None, None, labels)
    write_table_report(trained.model, trained.data, truth, path, complete=False, measured=trained.model.held_out_)


def write_table_report(
    model: "TableModel",
    data: "TableData",
    where: "Truth",
    path: Path,
    *,
    complete: bool | None = None,
    measured: Any = None,
) -> None:
    """Write the page of a model and a labelled table; ``complete`` None: as the labels look."""
    import pandas as pd

    from onepos.doctor import diagnose
    from onepos.pages import model_report
    from onepos.table import find_truth
    from onepos.table.encoder import named
    from onepos.table.kinds import as_words

    found = find_truth(model, data, where)
    complete = found.complete if complete is None else complete
    frame, text = named(data.frame), model.encoder_.text[:1]
    ids = as_words(frame[model.id_]) if model.id_ in frame.columns else [None] * len(frame)
    model_report(
        model,
        frame,
        found.truth,
        path,
        complete=complete,
        measured=measured,
        ids=[number if name is None else name for number, name in enumerate(ids, start=1)],
        texts=frame[text[0]].fillna("").tolist() if text else None,
        # The doctor looks at single observed labels; of complete ones it would say that they are too many.
        diagnosis=None
        if complete
        else diagnose(
            frame if data.labels is not None else frame[list(model.encoder_.kinds_)],
            pd.DataFrame(found.truth, columns=model.labels_),
            text=text[0] if text else None,
            interface="command line",
        ),
    )
