"""One training run of a neural method: scale the features, build the network, train the method's objective."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array
from torch import Tensor, nn

from onepos._utils.context import stage, time_left
from onepos._utils.validation import Labels, spawn
from onepos.label_sets.thresholds import estimate_n_positives, resolve_n_positives
from onepos.methods._neural_defaults import (
    are_bags,
    auto_batch_size,
    auto_learning_rate,
    auto_selection_metric,
    pretrain,
    start_at_frequencies,
)
from onepos.methods._neural_state import (
    TRIED_ROWS,
    forward_all,
    is_own,
    own_network,
    run_identity,
    seeded_globals,
    try_network,
)
from onepos.rows.scaling import fit_scaler
from onepos.rows.stored import DatasetRows, DiskRows, check_finite, on_disk, take
from onepos.training import (
    Batch,
    Callback,
    Checkpoint,
    Processes,
    Rows,
    Schedule,
    check_rate_factors,
    forward_precision,
    train,
)
from onepos.training.loop import higher_is_better, selection_score
from onepos.training.machine import limited_threads, useful_threads
from onepos.training.objective import as_features, gather, on_device

if TYPE_CHECKING:
    from onepos.methods._neural import NeuralClassifier


#: Share of stored entries below which a sparse product is the faster one.
SPARSE_BELOW = 0.1


@dataclass(frozen=True)
class GraphFeatures:
    """Scaled features of all rows.

    Attributes
    ----------
    features : Tensor, CSR array or DiskRows of shape (n_samples, q)
    apart : bool
        True if they were given for the graph; else they are the network's own input.
    """

    features: Any
    apart: bool

    @property
    def matrix(self) -> Any:
        """The features outside torch: array, CSR array or rows on disk.

        What was expanded for the network and is mostly zeros is a CSR array again, among which neighbours are found
        several times as fast.
        """
        if not isinstance(self.features, Tensor):
            return self.features
        values = self.features.cpu().numpy()
        return sparse.csr_array(values) if np.count_nonzero(values) < SPARSE_BELOW * values.size else values

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
    label_scores: Tensor | None
    graph_features: Any
    seed: int
    processes: Processes


@dataclass(frozen=True)
class Run:
    """One network trained on some rows of a task.

    Attributes
    ----------
    model : NeuralClassifier
        Gets ``scaler_``, ``history_`` and, unless ``told`` is given, ``network_`` and what the method learns besides.
    trainable, held_out : int arrays
        Rows to train on, and rows to choose the epoch on.
    given : (features, labels, whether they are complete), optional
        A validation set in place of ``held_out``.
    stop_after : int, optional
        Epochs to train for, of ``max_epochs``.
    told : list, optional
        Collects the logits of ``held_out``, before the first epoch and after each: for folds.
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
        model, task = self.model, self.task
        X, observed = task.X, task.labels.observed
        generator = spawn(task.seed, model.device)[1]
        # The scaler sees training rows only: held-out rows must not leak into what is chosen on them.
        seen = self.trainable if self.held_out.size else None
        model.scaler_ = fit_scaler(X if seen is None else take(X, seen), model.scale)
        scaled = model.scaler_.transform(X)
        rows = Rows.from_arrays(scaled, observed, self.trainable, model.device, task.processes)
        similar = check_graph_features(task.graph_features, len(observed), model.scale, seen)
        # A user's network and Dataset may draw from torch's global generators, which then follow the seed as well.
        foreign = is_own(model.network) or isinstance(X, DatasetRows)
        kept = None
        if self.checkpoint is not None:
            identity = run_identity(model, task.seed, X, task.labels, self.trainable, model.scaler_)
            kept = Checkpoint(self.checkpoint, identity, draws_globally=foreign)
        held = self._held(scaled)
        with seeded_globals(generator) if foreign else nullcontext():
            context = Context(
                rows,
                self._network(rows, generator),
                held if self.told is None else None,  # in folds a method does what it does in the last run
                generator,
                self._schedule(rows),
                on_device(task.label_scores, model.device),
                on_device(similar, model.device),
            )
            self._minimise(context, held, kept)

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
            try_network(network, rows.gather(rows.trainable[:TRIED_ROWS]), n_labels)
            return network
        made = model._build_network(n_features, n_labels, generator)
        if model.start == "frequencies":
            start_at_frequencies(made, rows.observed[rows.trainable])
        return made.to(model.device)

    def _schedule(self, rows: Rows) -> Schedule:
        model = self.model
        batch, rate = model.batch_size, model.learning_rate
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
            model.learning_rate_decay,
            model.learning_rate_factors or {},
            model.gradient_accumulation,
            self.stop_after,
        )

    def _minimise(self, context: Context, held: Held | None, checkpoint: Checkpoint | None) -> None:
        """Make the objective, minimise it and keep what was learnt."""
        model, schedule, processes = self.model, context.schedule, self.task.processes
        check_rate_factors(context.network, schedule.rate_factors)
        n_before = model.pretraining_epochs if schedule.n_epochs else 0
        share = n_before / (n_before + model.max_epochs)
        with stage(0.0, share, time_share=0.5):
            before = pretrain(context.network, context.rows, schedule, n_before, context.generator)
        if before.get("stopped") == "interrupted":  # one Ctrl-C, one end
            schedule = replace(schedule, max_epochs=0)
        objective = model._make_objective(context).to(model.device)
        processes.same_state(objective)
        n_threads = useful_threads(
            schedule.batch_size // processes.size,
            sum(p.numel() for p in objective.parameters()),
            own=is_own(model.network),
        )
        metric = self._metric(held, context.n_labels)
        precision = forward_precision(objective.network, model.precision, model.device)
        with limited_threads(n_threads), precision, stage(share, 1.0):
            model.history_ = train(
                objective,
                context.rows,
                schedule,
                context.generator,
                scorer=None if held is None else self._scorer(held, metric),
                selection=(metric, higher_is_better(metric)),
                callbacks=self.callbacks,
                checkpoint=checkpoint,
            )
        model.history_.facts |= before
        if self.told is not None:
            return
        model.history_.facts |= {
            "scale": model.scaler_.kind,
            "batch_size": schedule.batch_size,
            "learning_rate": schedule.learning_rate,
        }
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


def check_graph_features(given: Any, n_samples: int, scale: str, seen: NDArray[np.intp] | None) -> Any:
    """Return the features of ``fit``'s ``graph_features`` scaled like X; None if there are none.

    The scaling, of the estimator's kind ``scale``, is learnt from the rows ``seen``; None: from all.
    """
    if given is None:
        return None
    if on_disk(given):
        matrix: Any = DiskRows(given)
        check_finite(matrix)
    else:
        matrix = check_array(given, accept_sparse="csr", dtype=(np.float64, np.float32), input_name="graph_features")
    if matrix.shape[0] != n_samples:
        raise ValueError(f"graph_features must have a row for each of the {n_samples} rows; got {matrix.shape[0]}.")
    scaler = fit_scaler(matrix if seen is None else take(matrix, seen), scale)
    return as_features(scaler.transform(matrix))


def expected_n_positives(given: float | str | None, context: Context, *, single_label: bool) -> tuple[float, str]:
    """Return k and where it came from: as ``resolve_n_positives``, or "estimated" if "estimate" was given.

    Without time to look for neighbours, "estimate" means the same as None.
    """
    if single_label or not isinstance(given, str) or context.rows.processes.agree(time_left() <= 0):
        number = None if isinstance(given, str) else given
        return resolve_n_positives(number, context.n_labels, context.full_validation, one_class=single_label)
    rows = context.rows
    index = rows.trainable.cpu().numpy()
    number = estimate_n_positives(context.graph.matrix[index], rows.observed.cpu().numpy()[index])
    return rows.processes.agree(number), "estimated"


def check_label_scores(label_scores: Any, labels: Labels) -> Tensor | None:
    """Return the scores as float32, shape (n_samples, n_labels), columns in the order of training; None if none came.

    The columns of a frame are matched by name.
    """
    if label_scores is None:
        return None
    names = labels.classes.tolist()
    if hasattr(label_scores, "columns"):
        missing = [name for name in names if name not in label_scores.columns]
        if missing or len(label_scores.columns) != len(names):
            raise ValueError(
                f"the columns of label_scores must be the labels of y, {names[:5]}…; "
                f"got {label_scores.columns.tolist()[:5]}…"
            )
        label_scores = label_scores[names]
    scores = np.asarray(label_scores, dtype=np.float32)
    if scores.shape != labels.observed.shape:
        raise ValueError(
            f"label_scores must have a row for each row of y and a column for each label, shape "
            f"{labels.observed.shape}; got {scores.shape}."
        )
    outside = scores[~(np.isnan(scores) | ((scores >= 0) & (scores <= 1)))]
    if outside.size:
        raise ValueError(
            f"label_scores must be probabilities, between 0 and 1, or NaN where nothing is known; got {outside[0]}. "
            "Logits become probabilities by scipy.special.expit."
        )
    return torch.from_numpy(np.ascontiguousarray(scores))
