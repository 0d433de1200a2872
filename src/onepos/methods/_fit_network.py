"""One training run of a network, ``fit_network``, and the number of epochs that folds choose, ``choose_epochs``."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos._utils.context import fingerprint, stage
from onepos._utils.validation import Labels, spawn
from onepos.label_sets.thresholds import observed_frequency
from onepos.methods._network_settings import NetworkSettings, are_bags
from onepos.methods._pretraining import pretrain
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.rows.splits import first_alike, folds
from onepos.rows.stored import DatasetRows, take
from onepos.training import Batch, Callback, Checkpoint, History, Objective, Processes, Schedule, TrainingRows, train
from onepos.training.loop import OBSERVED_LIKELIHOOD, clearly_more_likely, higher_is_better, selection_score
from onepos.training.machine import forward_precision, limited_threads, useful_threads
from onepos.training.networks import forward_all, own_network, seeded_globals, start_at_frequencies
from onepos.training.objective import as_features, gather
from onepos.training.steps import check_rate_factors

#: Below this share of entries that are not zero, neighbours are found faster in a sparse matrix.
_SPARSE_BELOW = 0.1
#: Folds that choose the number of epochs if rows are too few to hold any out.
N_FOLDS = 4
#: Rows to try a user's network on; rows that identify the features.
_TRIED_ROWS, _HASHED_ROWS = 2, 64
#: Settings that change how a run is shown or where it computes, not what it computes.
_NO_MATTER = ("verbose", "random_state", "device", "cache_folder")


@dataclass(frozen=True)
class GraphFeatures:
    """Scaled features of all rows, (n_samples, q); ``apart`` if they were given for the graph alone."""

    features: Any
    apart: bool

    @property
    def matrix(self) -> Any:
        """The features outside torch: array, CSR array if they are mostly zeros, or rows on disk."""
        if not isinstance(self.features, Tensor):
            return self.features
        values = self.features.cpu().numpy()
        return sparse.csr_array(values) if np.count_nonzero(values) < _SPARSE_BELOW * values.size else values

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with these features, (batch, q), in place of the network's input."""
        return replace(batch, features=gather(self.features, batch.rows)) if self.apart else batch


@dataclass(frozen=True)
class Held:
    """Validation rows: features, labels as given, and whether the labels are complete."""

    features: Any
    observed: Any
    full: bool


@dataclass(frozen=True)
class Context:
    """What a method may use to build its objective."""

    rows: TrainingRows
    network: nn.Module
    held: Held | None
    generator: torch.Generator
    schedule: Schedule
    n_labels: int
    #: Probabilities from elsewhere, shape (n_samples, n_labels), NaN where there are none.
    label_scores: Tensor | None = None
    #: Features given for the graph, scaled, shape (n_samples, q).
    graph_features: Any = None

    @property
    def graph(self) -> GraphFeatures:
        """Features to make a graph over the rows from."""
        if self.graph_features is not None:
            return GraphFeatures(self.graph_features, apart=True)
        if isinstance(self.rows.features, DatasetRows):
            raise ValueError(
                "this method looks for similar rows, which needs features as a matrix, and X is a Dataset: pass an "
                f"array of {self.rows.observed.shape[0]} rows as graph_features in fit, such as the outputs of a "
                "trained network."
            )
        return GraphFeatures(self.rows.features, apart=False)


@dataclass(frozen=True)
class Task:
    """A network to train: settings, checked data, and the rows to train on and to choose the epoch by."""

    settings: NetworkSettings
    #: Builds the method's objective.
    make_objective: Callable[[Context], Objective]
    X: Any
    labels: Labels
    seed: int
    processes: Processes
    #: Numbers of the rows to train on, and of those held out.
    trainable: NDArray[np.intp]
    held_out: NDArray[np.intp]
    label_scores: NDArray[np.float32] | None = None
    graph_features: Any = None
    #: Validation rows that the user gave, in place of those held out.
    given: Held | None = None
    #: A fold: the logits of the rows held out are kept, and the method does what it does without such rows.
    is_fold: bool = False
    #: Train for so many epochs, of ``settings.max_epochs``, from which schedules are computed.
    n_epochs: int | None = None
    callbacks: Sequence[Callback] = ()
    checkpoint: str | Path | None = None


@dataclass(frozen=True)
class Fitted:
    """A trained network and what belongs to it; ``held_logits`` are those of a fold before and after each epoch."""

    scaler: FeatureScaler
    history: History
    objective: Objective
    context: Context
    n_threads: int
    held_logits: list[NDArray[np.float32]]


def fit_network(task: Task) -> Fitted:
    """Scale the features, build network and objective, and train on the rows of a task."""
    settings, device, processes = task.settings, task.settings.device, task.processes
    n_labels = len(task.labels.classes)
    generator = spawn(task.seed, device)[1]
    scaler = _fit_scaler(task, task.X)
    scaled = scaler.transform(task.X)
    rows = TrainingRows.from_arrays(scaled, task.labels.observed, task.trainable, device, processes)
    held = _held_rows(task, scaler, scaled)
    # A user's network and Dataset may draw from torch's global generators, which then follow the seed as well.
    own = callable(settings.network)
    foreign = own or isinstance(task.X, DatasetRows)
    with seeded_globals(generator) if foreign else nullcontext():
        bags = are_bags(rows)
        context = Context(
            rows,
            _network(task, rows, generator),
            None if task.is_fold else held,
            generator,
            settings._schedule(len(rows.trainable), bags=bags),
            n_labels,
            None if task.label_scores is None else torch.from_numpy(task.label_scores).to(device),
            None if task.graph_features is None else _graph_features(task),
        )
        schedule, network = context.schedule, context.network
        if task.n_epochs is not None:
            schedule = replace(schedule, n_epochs=min(task.n_epochs, schedule.n_epochs))
        if own or schedule.rate_factors:
            check_rate_factors(network, schedule.rate_factors)
        facts: dict[str, Any] = {}
        n_before = schedule.n_pretraining if schedule.n_epochs else 0
        share = n_before / (n_before + settings.max_epochs)
        if n_before:
            with stage(0.0, share, time_share=0.5):
                facts = pretrain(network, rows, schedule, n_before, generator, bags=bags)
        if facts.get("stopped") == "interrupted":  # one Ctrl-C, one end
            schedule = replace(schedule, n_epochs=0)
        objective = task.make_objective(context).to(device)
        if processes.size > 1:
            processes.same_state(objective)
        n_parameters = sum(map(Tensor.numel, objective.parameters()))
        n_threads = useful_threads(schedule.batch_size // processes.size, n_parameters, own=own)
        complete = held is None or held.full or not settings._learns_likelihood
        metric = settings._metric(0 if held is None else held.observed.shape[0], n_labels, complete=complete)
        held_logits: list[NDArray[np.float32]] = []

        def score(network: nn.Module) -> float:
            assert held is not None
            logits = forward_all(network, held.features, device)
            if task.is_fold:
                held_logits.append(logits)
            return selection_score(metric, held.observed, logits)

        mixed = settings.precision != "float32"
        precision = forward_precision(objective.network, settings.precision, device) if mixed else nullcontext()
        with limited_threads(n_threads), precision, stage(share, 1.0):
            history = train(
                objective,
                rows,
                schedule,
                generator,
                scorer=None if held is None else score,
                selection=metric,
                callbacks=task.callbacks,
                checkpoint=None if task.checkpoint is None else _checkpoint(task, scaler, draws_globally=foreign),
            )
    facts |= {"scale": scaler.kind, "batch_size": schedule.batch_size, "learning_rate": schedule.learning_rate}
    if processes.size > 1:
        facts["processes"] = processes.size
    history.facts |= facts
    # The start is scored last.
    return Fitted(scaler, history, objective, context, n_threads, held_logits[-1:] + held_logits[:-1])


def _fit_scaler(task: Task, X: Any) -> FeatureScaler:
    # Held-out rows must not leak into what is chosen on them.
    return fit_scaler(take(X, task.trainable) if task.held_out.size else X, task.settings.scale)


def _held_rows(task: Task, scaler: FeatureScaler, scaled: Any) -> Held | None:
    """Return the rows that choose the epoch, scaled."""
    if task.given is not None:
        return replace(task.given, features=as_features(scaler.transform(task.given.features)))
    if not task.held_out.size:
        return None
    observed = task.labels.observed[task.held_out]
    return Held(as_features(take(scaled, task.held_out)), observed, task.settings._y_is_full)


def _graph_features(task: Task) -> Any:
    """Return the features given for the graph, scaled."""
    scaled = _fit_scaler(task, task.graph_features).transform(task.graph_features)
    return as_features(scaled, task.settings.device)


def _network(task: Task, rows: TrainingRows, generator: torch.Generator) -> nn.Module:
    """Return the library's own network, or a copy of the user's."""
    settings, n_features, n_labels = task.settings, rows.features.shape[1], len(task.labels.classes)
    if callable(settings.network):
        return own_network(settings.network, n_features, rows.gather(rows.trainable[:_TRIED_ROWS]), n_labels)
    network = settings._build_network(n_features, n_labels, generator)
    if settings.start == "frequencies":
        start_at_frequencies(network, observed_frequency(task.labels.observed[task.trainable]))
    return network.to(settings.device)


def _checkpoint(task: Task, scaler: FeatureScaler, *, draws_globally: bool) -> Checkpoint:
    """Return the checkpoint of a run, identified by what changes the model that it ends in."""
    settings, X = task.settings, task.X
    sample = [values for values in (scaler.shift, scaler.factor) if values is not None]
    if not isinstance(X, DatasetRows):  # whose items may be drawn at random
        index = np.unique(np.linspace(0, X.shape[0] - 1, _HASHED_ROWS).astype(np.int64))
        sample.append(X[index].toarray() if hasattr(X, "indptr") else np.asarray(X[index]))
    names = [setting.name for setting in fields(settings) if setting.name not in _NO_MATTER]
    run = {
        "method": type(settings).__name__,
        "seed": task.seed,
        **{f"setting {name}": _text(getattr(settings, name)) for name in names},
        "number of rows": int(X.shape[0]),
        "number of features": int(X.shape[1]),
        "labels": fingerprint(task.labels.observed),
        "rows trained on": fingerprint(task.trainable),
        "features": " ".join(map(fingerprint, sample)),
    }
    assert task.checkpoint is not None
    return Checkpoint(task.checkpoint, run, draws_globally=draws_globally)


def _text(value: Any) -> str:
    """Describe a setting the same way in every process: without addresses in memory."""
    if callable(value) and not isinstance(value, nn.Module):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return repr(value)


@dataclass(frozen=True)
class OutOfFold:
    """The number of epochs that did best, the logits after so many, (n_labelled, n_labels), facts for the history."""

    n_epochs: int
    logits: NDArray[np.float32]
    facts: dict[str, str] = field(default_factory=dict)


def choose_epochs(task: Task, generator: np.random.Generator) -> OutOfFold:
    """Choose among the epochs that the networks of all folds have reached, 0 included; Ctrl-C leaves 0."""
    settings, labelled, n_labels = task.settings, task.trainable, len(task.labels.classes)
    metric = settings._metric(len(labelled), n_labels, complete=settings._y_is_full)
    dealt = folds(task.labels.observed, N_FOLDS, generator, rows=labelled, keep_labels=False, alike=first_alike(task.X))
    _, parts = zip(*dealt, strict=True)
    turns = len(parts) + 1  # the last one is of the run on all rows
    by_fold = []
    for number, held in enumerate(parts):
        rows = np.setdiff1d(labelled, held, assume_unique=True)
        with stage(number / turns, (number + 1) / turns, time_share=1 / (turns - number)):
            fitted = fit_network(replace(task, trainable=rows, held_out=held, is_fold=True))
        # With several processes, process 0 scores.
        interrupted = fitted.history.facts["stopped"] == "interrupted"
        held_logits, interrupted = task.processes.agree((fitted.held_logits, interrupted))
        if interrupted:  # one Ctrl-C, one end
            return OutOfFold(0, np.empty((0, n_labels), dtype=np.float32), {"stopped": "interrupted"})
        by_fold.append(held_logits)
    truth = task.labels.observed[np.concatenate(parts)]
    sign = 1.0 if higher_is_better(metric) else -1.0
    by_epoch = [np.concatenate(logits) for logits in zip(*by_fold, strict=False)]
    best = int(np.argmax([sign * selection_score(metric, truth, logits) for logits in by_epoch]))
    # The largest of many noisy values is too large: the start, the label frequencies, is left only for a clear gain.
    if metric == OBSERVED_LIKELIHOOD and not clearly_more_likely(truth, by_epoch[best], by_epoch[0]):
        best = 0
    return OutOfFold(best, by_epoch[best])
