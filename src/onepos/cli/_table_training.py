"""What ``fit`` and ``complete`` share: read the table, train, and collect what the user should know."""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos.cli._output import InputError, input_errors
from onepos.cli._table_options import names, settings

if TYPE_CHECKING:
    from onepos.columns import TableData, TableModel


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
    validation_fraction: float
    decisions: Path | None
    seed: int


@dataclass(frozen=True)
class Trained:
    """A model, the table it comes from, and what was noticed on the way."""

    model: "TableModel"
    data: "TableData"
    notes: list[str]
    seconds: float


def read_request(request: Request) -> "TableData":
    """Read the table of a request and check that it says where the labels are."""
    from onepos.columns import read_table

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
    if request.label and request.labels:
        raise InputError("give --label (one column of tags) or --labels (0/1 columns), not both.")
    return data


def train(request: Request, progress: Any) -> Trained:
    """Train a model as the options say; ValueErrors on the way are bad input."""
    progress("loading", 0.0)
    params = settings(request.settings)
    with input_errors(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from onepos.columns import TableModel
        from onepos.registry import make_classifier

        make_classifier(request.method)  # a wrong key is noticed before a large file is read, and torch is loaded
        progress("reading", 0.02)
        data = read_request(request)
        started = time.monotonic()
        model = TableModel().fit(
            data.frame,
            label=request.label or None,
            labels=None if request.label else _label_columns(request, data),
            text=names(request.text),
            id=request.id or None,
            drop=names(request.drop),
            categories=names(request.categories),
            decisions=read_decided(request.decisions),
            method=request.method,
            params=params,
            n_positives=request.n_positives,
            validation_fraction=request.validation_fraction,
            random_state=request.seed,
            progress=progress,
        )
    history = getattr(model.estimator_, "history_", None)
    if history is not None and history.facts.get("stopped") == "interrupted":
        raise KeyboardInterrupt  # the training loop keeps a usable model; here the user wants to be out
    said = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    return Trained(model, data, [*model.facts_["notes"], *said], time.monotonic() - started)


def _label_columns(request: Request, data: "TableData") -> Any:
    return names(request.labels) if data.labels is None else data.labels


def read_decided(path: Path | None) -> Any:
    """Return a reviewer's decisions, None if there is no file."""
    if path is None:
        return None
    from onepos.review import read_decisions

    return read_decisions(path)


def _some(frame: Any) -> str:
    shown = [str(name) for name in frame.columns[:8]]
    return ", ".join(shown) + (" …" if len(frame.columns) > 8 else "")
