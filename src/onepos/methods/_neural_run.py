"""One training run of a neural method. "auto" numbers were chosen on validation rows of the sets in docs/tuning.md."""

import copy
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos._utils.context import fingerprint, stage
from onepos._utils.validation import Labels, spawn
from onepos.methods._pretraining import pretrain
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.rows.stored import DatasetRows, take
from onepos.training import Batch, Callback, Checkpoint, Processes, Rows, Schedule, check_rate_factors, train
from onepos.training.loop import OBSERVED_LIKELIHOOD, clearly_more_likely, higher_is_better, selection_score
from onepos.training.machine import forward_precision, limited_threads, useful_threads
from onepos.training.networks import forward_all, is_own, own_network, seeded_globals, start_at_frequencies, try_network
from onepos.training.objective import as_features, gather, on_device

if TYPE_CHECKING:
    from onepos.methods._neural import NeuralClassifier

#: Below this share of entries that are not zero, neighbours are found faster in a sparse matrix.
_SPARSE_BELOW = 0.1
#: With fewer rows per label to judge by, the rank of single labels is mostly luck, and a likelihood chooses the epoch.
_ROWS_PER_LABEL = 10
#: Folds that choose the number of epochs if rows are too few to hold any out.
N_FOLDS = 4
#: Rows to look at for what kind of features they are; rows to try a user's network on; rows that identify the features.
_KIND_ROWS, _TRIED_ROWS, _HASHED_ROWS = 1000, 2, 64
#: Settings that change how a run is shown or where it computes, not what it computes.
_NO_MATTER = ("verbose", "random_state", "device", "cache_folder")


def are_bags(rows: Rows) -> bool:
    """Whether features are counts or weights of rare things, such as words: none negative, few not zero."""
    if isinstance(rows.features, DatasetRows):  # many items would have to be read
        return False
    sample = rows.gather(rows.trainable[:_KIND_ROWS])
    return bool((sample >= 0).all()) and bool((sample != 0).float().mean() < 0.25)


def auto_batch_size(n_rows: int) -> int:
    """Return the power of 2 that is nearest to a fiftieth of the rows, from 16 to 128."""
    return int(min(max(16, 2 ** round(math.log2(max(n_rows, 1) / 50))), 128))


def auto_learning_rate(batch_size: int, *, bags: bool) -> float:
    """Return 1e-3 at batches of 16, growing with the root of the batch size; half of it for bags of rare features."""
    return (0.5e-3 if bags else 1e-3) * math.sqrt(batch_size / 16)


def auto_selection_metric(n_judging: int, n_labels: int) -> str:
    """Return what chooses the epoch on single positives: the likelihood if there are few judging rows per label."""
    return OBSERVED_LIKELIHOOD if n_judging < _ROWS_PER_LABEL * n_labels else "average_precision"


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
    """Validation rows: scaled features, labels as given, and whether the labels are complete."""

    features: Any
    observed: NDArray[np.int8]
    full: bool


@dataclass(frozen=True)
class Context:
    """What a method may use to build its objective."""

    rows: Rows
    network: nn.Module
    held: Held | None
    generator: torch.Generator
    schedule: Schedule
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
                f"array of {self.rows.n_samples} rows as graph_features in fit, such as the outputs of a trained "
                "network."
            )
        return GraphFeatures(self.rows.features, apart=False)

    @property
    def n_labels(self) -> int:
        """Number of labels c."""
        return int(self.rows.observed.shape[1])

    @property
    def full_validation(self) -> NDArray[np.int8] | None:
        """Fully labelled validation labels, if there are any."""
        return self.held.observed if self.held is not None and self.held.full else None


@dataclass(frozen=True)
class Task:
    """The checked arguments of ``fit``, the same for all runs of a fit."""

    X: Any
    labels: Labels
    label_scores: NDArray[np.float32] | None
    graph_features: Any
    seed: int
    processes: Processes


@dataclass(frozen=True)
class Run:
    """One network trained on some rows of a task; ``model`` gets what it learns.

    The epoch is chosen on the rows ``held_out``, or on ``given``: features, labels, whether they are complete.
    ``told`` collects the logits of ``held_out``, before the first epoch and after each: for folds.
    """

    model: "NeuralClassifier"
    task: Task
    trainable: NDArray[np.intp]
    held_out: NDArray[np.intp]
    given: tuple[Any, NDArray[np.int8], bool] | None = None
    stop_after: int | None = None
    told: list[NDArray[np.float32]] | None = None
    callbacks: Sequence[Callback] = ()
    checkpoint: str | Path | None = None

    def train(self) -> None:
        """Train the network."""
        model, task, device = self.model, self.task, self.model.device
        generator = spawn(task.seed, device)[1]
        model.scaler_ = self._fit_scaler(task.X)
        scaled = model.scaler_.transform(task.X)
        rows = Rows.from_arrays(scaled, task.labels.observed, self.trainable, device, task.processes)
        similar = task.graph_features
        if similar is not None:
            similar = on_device(as_features(self._fit_scaler(similar).transform(similar)), device)
        # A user's network and Dataset may draw from torch's global generators, which then follow the seed as well.
        foreign = is_own(model.network) or isinstance(task.X, DatasetRows)
        held, folder = self._held(scaled), self.checkpoint
        checkpoint = None if folder is None else Checkpoint(folder, self._identity(), draws_globally=foreign)
        with seeded_globals(generator) if foreign else nullcontext():
            context = Context(
                rows,
                self._network(rows, generator),
                held if self.told is None else None,  # in folds a method does what it does in the last run
                generator,
                self._schedule(rows),
                None if task.label_scores is None else torch.from_numpy(task.label_scores).to(device),
                similar,
            )
            self._minimise(context, held, checkpoint)

    def _fit_scaler(self, X: Any) -> FeatureScaler:
        # Held-out rows must not leak into what is chosen on them.
        return fit_scaler(take(X, self.trainable) if self.held_out.size else X, self.model.scale)

    def _identity(self) -> dict[str, Any]:
        """Return JSON-able values that differ between runs that would not end in the same model."""
        model, X, labels = self.model, self.task.X, self.task.labels
        parameters = model.get_params(deep=False).items()
        sample = [values for values in (model.scaler_.shift, model.scaler_.factor) if values is not None]
        if not isinstance(X, DatasetRows):  # whose items may be drawn at random
            index = np.unique(np.linspace(0, X.shape[0] - 1, _HASHED_ROWS).astype(np.int64))
            sample.append(X[index].toarray() if hasattr(X, "indptr") else np.asarray(X[index]))
        return {
            "method": type(model).__name__,
            "seed": self.task.seed,
            **{f"setting {name}": _text(value) for name, value in parameters if name not in _NO_MATTER},
            "number of rows": int(X.shape[0]),
            "number of features": int(X.shape[1]),
            "labels": fingerprint(labels.observed),
            "rows trained on": fingerprint(self.trainable),
            "features": " ".join(map(fingerprint, sample)),
        }

    def _held(self, scaled: Any) -> Held | None:
        if self.given is not None:
            return Held(as_features(self.model.scaler_.transform(self.given[0])), *self.given[1:])
        if not self.held_out.size:
            return None
        observed = self.task.labels.observed[self.held_out]
        return Held(as_features(take(scaled, self.held_out)), observed, self.model._y_is_full)

    def _network(self, rows: Rows, generator: torch.Generator) -> nn.Module:
        model, n_features, n_labels = self.model, self.task.X.shape[1], rows.observed.shape[1]
        if is_own(model.network):
            network = own_network(model.network, n_features, n_labels).to(model.device)
            try_network(network, rows.gather(rows.trainable[:_TRIED_ROWS]), n_labels)
            return network
        made = model._build_network(n_features, n_labels, generator)
        if model.start == "frequencies":
            start_at_frequencies(made, rows.observed[rows.trainable])
        return made.to(model.device)

    def _schedule(self, rows: Rows) -> Schedule:
        model, batch, rate = self.model, self.model.batch_size, self.model.learning_rate
        if isinstance(batch, str):
            batch = auto_batch_size(len(rows.trainable))
        if isinstance(rate, str):
            bags = are_bags(rows)
            rate = auto_learning_rate(batch, bags=bags) * (model._bag_rate_factor if bags else 1.0)
        return Schedule(
            model.max_epochs,
            batch,
            rate,
            model.weight_decay,
            model.patience,
            rate_factors=model.learning_rate_factors or {},
            accumulation=model.gradient_accumulation,
            stop_after=self.stop_after,
        )

    def _minimise(self, context: Context, held: Held | None, checkpoint: Checkpoint | None) -> None:
        """Make the objective, minimise it and keep what was learnt."""
        model, schedule, processes = self.model, context.schedule, self.task.processes
        check_rate_factors(context.network, schedule.rate_factors)
        n_before = model.pretraining_epochs if schedule.n_epochs else 0
        share = n_before / (n_before + model.max_epochs)
        before: dict[str, Any] = {}
        if n_before:
            bags = are_bags(context.rows)
            with stage(0.0, share, time_share=0.5):
                before = pretrain(context.network, context.rows, schedule, n_before, context.generator, bags=bags)
        if before.get("stopped") == "interrupted":  # one Ctrl-C, one end
            schedule = replace(schedule, max_epochs=0)
        objective = model._make_objective(context).to(model.device)
        processes.same_state(objective)
        n_parameters = sum(p.numel() for p in objective.parameters())
        n_threads = useful_threads(schedule.batch_size // processes.size, n_parameters, own=is_own(model.network))
        metric = self._metric(held, context.n_labels)
        precision = forward_precision(objective.network, model.precision, model.device)
        with limited_threads(n_threads), precision, stage(share, 1.0):
            model.history_ = train(
                objective,
                context.rows,
                schedule,
                context.generator,
                scorer=None if held is None else self._scorer(held, metric),
                selection=metric,
                callbacks=self.callbacks,
                checkpoint=checkpoint,
            )
        model.history_.facts |= before
        if self.told is not None:
            return
        facts = {"batch_size": schedule.batch_size, "learning_rate": schedule.learning_rate}
        model.history_.facts |= {"scale": model.scaler_.kind, **facts}
        if processes.size > 1:
            model.history_.facts["processes"] = processes.size
        model.network_ = objective.network.cpu().eval()
        with limited_threads(n_threads):  # the result must not depend on the machine's number of threads
            model._finish(objective, context)

    def _metric(self, held: Held | None, n_labels: int) -> str:
        if self.model.selection_metric != "auto":
            return self.model.selection_metric
        if held is None or held.full or not self.model._judged_by_likelihood:
            return "average_precision"
        return auto_selection_metric(len(held.observed), n_labels)

    def _scorer(self, held: Held, metric: str) -> Any:
        def score(network: nn.Module) -> dict[str, float]:
            logits = forward_all(network, held.features, self.model.device)
            if self.told is not None:
                self.told.append(logits)
            return {metric: selection_score(metric, held.observed, logits)}

        return score


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


def choose_epochs(
    model: "NeuralClassifier", task: Task, labelled: NDArray[np.intp], generator: np.random.Generator
) -> OutOfFold:
    """Choose among the epochs that the networks of all folds have reached, 0 included; Ctrl-C leaves 0."""
    n_labels, metric = len(task.labels.classes), model.selection_metric
    if metric == "auto":
        metric = "average_precision" if model._y_is_full else auto_selection_metric(len(labelled), n_labels)
    folds = [np.sort(part) for part in np.array_split(generator.permutation(labelled), N_FOLDS)]
    turns = N_FOLDS + 1  # the last one is of the run on all rows
    told = []
    for number, out in enumerate(folds):
        one, logits = copy.copy(model), list[NDArray[np.float32]]()
        with stage(number / turns, (number + 1) / turns, time_share=1 / (turns - number)):
            Run(one, task, np.setdiff1d(labelled, out, assume_unique=True), out, told=logits).train()
        # With several processes, process 0 scores.
        logits, interrupted = task.processes.agree((logits, one.history_.facts["stopped"] == "interrupted"))
        if interrupted:  # one Ctrl-C, one end
            return OutOfFold(0, np.empty((0, n_labels), dtype=np.float32), {"stopped": "interrupted"})
        told.append(logits)
    truth = task.labels.observed[np.concatenate(folds)]
    sign = 1.0 if higher_is_better(metric) else -1.0
    together = [np.concatenate(parts) for parts in zip(*told, strict=False)]
    best = int(np.argmax([sign * selection_score(metric, truth, logits) for logits in together]))
    # The largest of many noisy values is too large: the start, the label frequencies, is left only for a clear gain.
    if metric == OBSERVED_LIKELIHOOD and not clearly_more_likely(truth, together[best], together[0]):
        best = 0
    return OutOfFold(best, together[best])
