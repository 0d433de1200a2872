"""The training loop: epochs of batches, the choice of the best epoch, and the reasons to stop.

A metric, or the likelihood of the observed labels under softmax(τ·logits) with the best τ, chooses the epoch.
docs/tuning.md says where each is better.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from onepos import metrics
from onepos._utils import storage
from onepos._utils.context import tell, time_left, warn
from onepos.exceptions import TrainingWarning
from onepos.label_sets.pooling import at_observed, inverse_temperature
from onepos.training.machine import flushed_denormals
from onepos.training.objective import Objective, TrainingRows
from onepos.training.steps import Schedule, Steps

if TYPE_CHECKING:
    import pandas as pd

    from onepos.training.checkpoint import Checkpoint

#: Mean log-likelihood of the observed labels, temperature fitted.
OBSERVED_LIKELIHOOD = "observed_likelihood"
#: The criteria that can choose the best epoch.
SELECTION_METRICS = (*metrics.METRICS, OBSERVED_LIKELIHOOD)
#: Returns the selection metric of the current network on held-out rows.
Scorer = Callable[[torch.nn.Module], float]


def higher_is_better(name: str) -> bool:
    """Whether a larger value of a selection metric means a better model."""
    return name == OBSERVED_LIKELIHOOD or metrics.higher_is_better(name)


def selection_score(name: str, observed: NDArray[Any], logits: NDArray[Any]) -> float:
    """Value of the named selection metric for labels (1, 0, −1) and logits, both of shape (n_samples, n_labels).

    Examples
    --------
    >>> observed, logits = np.array([[1, 0], [0, 1]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> round(selection_score("observed_likelihood", observed, logits), 4)  # log ½
    -0.6931
    """
    if name == OBSERVED_LIKELIHOOD:
        return inverse_temperature(np.asarray(logits, dtype=np.float64), observed)[1]
    scores = logits if name != "hamming_loss" else 1.0 / (1.0 + np.exp(-logits))
    return float(getattr(metrics, name)(observed, scores))


def clearly_more_likely(observed: NDArray[Any], logits: NDArray[Any], reference: NDArray[Any]) -> bool:
    """Whether logits make the observed labels more likely than a reference does, by two standard errors of the gain.

    Each is given the temperature that suits it best.
    """
    gain = _log_likelihoods(observed, logits) - _log_likelihoods(observed, reference)
    return bool(gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)))


def _log_likelihoods(observed: NDArray[Any], logits: NDArray[Any]) -> NDArray[np.float64]:
    scores = np.asarray(logits, dtype=np.float64)
    return at_observed(log_softmax(inverse_temperature(scores, observed)[0] * scores, axis=1), observed)


class Callback:
    """Override any of the hooks; return True from ``on_epoch_end`` to stop training after this epoch."""

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        """Run before the first epoch."""

    def on_batch_end(self, done: int, total: int) -> None:
        """Run after each mini-batch; ``done`` of ``total`` in this epoch."""

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> bool | None:
        """Run after each epoch with its history record."""
        return None

    def on_train_end(self, objective: Objective) -> None:
        """Run once at the end, also when training was interrupted."""


@dataclass(repr=False, eq=False)
class History:
    """A list of epoch records and facts about the run as a whole.

    ``history[-1]["valid_average_precision"]`` is the last epoch's value, ``history["loss"]`` the list of all,
    ``history.to_frame()`` a DataFrame. ``history.facts`` holds facts about the run: best epoch, why it stopped,
    assumed number of positives.
    """

    _stored: ClassVar[storage.Rules] = {
        "records": storage.List(storage.each(storage.NUMBER)),
        "facts": storage.Record({"best_*": storage.NUMBER, "*": storage.JSON}),
    }

    records: list[dict[str, float]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def append(self, record: Mapping[str, float]) -> None:
        """Add one epoch's record."""
        self.records.append(dict(record))

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return iter(self.records)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return [record.get(key) for record in self.records]
        return self.records[key]

    def __repr__(self) -> str:
        return f"History({len(self)} epochs, {self.facts})"

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per epoch and one column per quantity."""
        import pandas as pd

        return pd.DataFrame(self.records)


def train(
    objective: Objective,
    rows: TrainingRows,
    schedule: Schedule,
    generator: torch.Generator,
    *,
    scorer: Scorer | None = None,
    selection: str = "average_precision",
    callbacks: Sequence[Callback] = (),
    checkpoint: "Checkpoint | None" = None,
) -> History:
    """Minimise an objective over mini-batches and return what happened.

    Parameters
    ----------
    objective : Objective
        Trained in place. It ends with the weights of the best epoch (with a scorer) or of the last good one.
    rows : TrainingRows
        The training set, and the processes that share it.
    schedule : Schedule
    generator : torch.Generator
        Shuffles the rows. The objective draws from it too.
    scorer : callable, optional
        ``scorer(network)`` returns the value of ``selection``. It is called after each epoch and, at the end, for the
        start, epoch 0, which is kept if no epoch is better. Patience does not count the start.
    selection : str
        The one of ``SELECTION_METRICS`` that chooses the epoch.
    callbacks : sequence of Callback
    checkpoint : Checkpoint, optional
        Written after each epoch. A run that it holds at the start is continued.

    Notes
    -----
    With ``schedule.average``, a moving average of the network's weights is what is scored, shown to callbacks after an
    epoch, and kept. Patience waits while the score rises again, as it does after losses that first pull the network
    away from a good start.

    Ctrl-C ends training after the current batch and keeps a usable model. If a loss stops being finite, the last finite
    epoch is restored. Both warn. Training also ends when ``time_left`` is used up: after the current batch, which is
    scored as if the epoch were complete and is not written to a checkpoint.

    With several processes, process 0 scores, calls the callbacks and decides when to stop. Time is looked at after each
    epoch only, and Ctrl-C raises.
    """
    start = copy.deepcopy(objective.state_dict())
    heard = callbacks if rows.processes.rank == 0 else ()
    run = Run(Steps(objective, rows, schedule, generator), scorer, selection, heard, checkpoint, start)
    for callback in heard:
        callback.on_train_begin(objective, schedule.n_epochs)
    with flushed_denormals():
        if checkpoint is not None:
            checkpoint.resume(run)
        try:
            # Asked before an epoch, since a resumed run may have waited long enough already.
            reason = run.reason_to_stop()
            while not reason:
                reason = run.next_epoch() or run.reason_to_stop()
        except KeyboardInterrupt:
            if rows.processes.size > 1:
                raise  # the others may have seen it in another batch
            reason = "interrupted"
            run.kept_state = run.averaged_state()
            warn(
                f"training was interrupted in epoch {len(run.history) + 1}; the model is usable as it stands.",
                TrainingWarning,
                stacklevel=4,
            )
        objective.eval()
        run.restore_best()
    run.history.facts["stopped"] = reason
    for callback in heard:
        callback.on_train_end(objective)
    return run.history


def _move_average(share: float, averages: Sequence[Tensor], values: Sequence[Tensor], n_averaged: Tensor) -> None:
    """Move averages towards values by a share, a larger one in the first steps; counts are taken over."""
    share = max(share, 9.0 / (10.0 + float(n_averaged)))
    for average, value in zip(averages, values, strict=True):
        if average.is_floating_point():
            average.lerp_(value, share)
        else:
            average.copy_(value)


@dataclass
class Run:
    """One call of ``train``: how far it has come, the weights of its last and of its best epoch."""

    steps: Steps
    scorer: Scorer | None
    metric: str
    callbacks: Sequence[Callback]
    checkpoint: "Checkpoint | None"
    start_state: dict[str, Tensor]
    #: After the last epoch: what training goes on from, and what is scored, with the average of the network's weights.
    last_state: dict[str, Tensor] = field(init=False)
    kept_state: dict[str, Tensor] = field(init=False)
    best_state: dict[str, Tensor] = field(init=False)
    average: AveragedModel | None = field(init=False)
    #: The best value of the metric, times ``sign``.
    best_score: float = -math.inf
    best_epoch: int = -1
    #: The last epoch after which the best network was put back, to be trained on.
    restart: int = -1
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        self.last_state = self.kept_state = self.best_state = self.start_state
        self.average = self.new_average()

    @property
    def sign(self) -> float:
        """Factor on the metric that makes a larger value the better one."""
        return 1.0 if higher_is_better(self.metric) else -1.0

    def new_average(self) -> AveragedModel | None:
        """Return an average of the network's weights that begins with what they are, if one is wanted."""
        schedule, n_rows = self.steps.schedule, len(self.steps.rows.trainable)
        if not schedule.average:
            return None
        n_steps = schedule.average * math.ceil(n_rows / schedule.batch_size)
        update = partial(_move_average, -math.expm1(-1.0 / n_steps))
        return AveragedModel(self.steps.objective.network, multi_avg_fn=update, use_buffers=True)

    def averaged_state(self) -> dict[str, Tensor]:
        """Return a copy of the objective's state with the averaged weights of its network."""
        state = copy.deepcopy(self.steps.objective.state_dict())
        if self.average is not None:
            state |= {f"network.{name}": value.clone() for name, value in self.average.module.state_dict().items()}
        return state

    def rises(self, n_epochs: int) -> bool:
        """Whether the later half of the last epochs scored better than the earlier half."""
        scores, half = self.history[f"valid_{self.metric}"][-n_epochs:], n_epochs // 2
        return bool(self.sign * sum(scores[len(scores) - half :]) > self.sign * sum(scores[:half]))

    def reason_to_stop(self) -> str:
        """Return why no further epoch is needed or possible, "" if there is no reason."""
        schedule, n_done = self.steps.schedule, len(self.history.records)
        waited = n_done - 1 - max(self.best_epoch, self.restart)
        patience = schedule.patience
        if self.scorer is not None and patience is not None and waited >= patience and not self.rises(patience):
            return "early"
        if n_done >= schedule.n_epochs:
            return "max_epochs"
        return "time" if self.steps.rows.processes.agree(time_left() <= 0) else ""

    def next_epoch(self) -> str:
        """Train for an epoch, score and note it; return why it was the last one, "" if there is no reason."""
        objective, processes = self.steps.objective, self.steps.rows.processes
        epoch, started = len(self.history.records), time.perf_counter()
        objective.begin_epoch(epoch)
        objective.train()
        record, complete = self.run_epoch(epoch)
        if not math.isfinite(record["loss"]):
            objective.load_state_dict(self.last_state)
            warn(
                f"the loss stopped being finite in epoch {epoch + 1}; the weights of the epoch before are kept. "
                "Try a smaller learning_rate, or scale='standard'.",
                TrainingWarning,
                stacklevel=5,
            )
            return "diverged"
        self.last_state, self.kept_state = copy.deepcopy(objective.state_dict()), self.averaged_state()
        objective.load_state_dict(self.kept_state)
        objective.eval()
        record |= objective.describe_epoch()
        if self.scorer is not None:
            value = self.score()
            record[f"valid_{self.metric}"] = value
            if self.sign * value > self.best_score:
                self.best_score, self.best_epoch, self.best_state = self.sign * value, epoch, self.kept_state
        self.history.append({"epoch": epoch + 1, **record, "seconds": time.perf_counter() - started})
        if not complete:
            return "time"
        if objective.end_epoch(None if self.scorer is None else epoch - max(self.best_epoch, self.restart)):
            # The best epoch's network with what else the objective trains; the best epoch is then sought anew.
            best = {name: value for name, value in self.best_state.items() if name.startswith("network.")}
            self.last_state = self.kept_state = self.last_state | best
            objective.load_state_dict(self.last_state)
            self.average = self.new_average()
            self.restart, self.best_score = epoch, -math.inf
        if self.checkpoint is not None and processes.rank == 0:
            self.checkpoint.save(self)
        # Every callback sees every epoch, whatever an earlier one wants.
        wishes = [callback.on_epoch_end(objective, self.history[-1]) for callback in self.callbacks]
        objective.load_state_dict(self.last_state)
        return "callback" if processes.agree(any(wishes)) else ""

    def run_epoch(self, epoch: int) -> tuple[dict[str, float], bool]:
        """Pass over shuffled rows while time allows: mean of each loss ("loss": the last), whether all were seen."""
        rows, schedule = self.steps.rows, self.steps.schedule
        shuffled = torch.randperm(len(rows.trainable), generator=self.steps.generator, device=rows.trainable.device)
        batches = torch.split(rows.trainable[shuffled], schedule.batch_size)
        sums: dict[str, Tensor] = {}
        last, n_seen = "", 0
        # What those who watch see: the epoch, with the loss and the score of the one before.
        step = f"training, epoch {epoch + 1} of {schedule.n_epochs}"
        for quantity, number in self.history.records[-1].items() if self.history.records else ():
            if quantity == "loss" or quantity.startswith("valid_"):
                step += f", {quantity.removeprefix('valid_')} {number:.4f}"
        for position, index in enumerate(batches):
            for name, loss in self.steps.losses(index, epoch * len(batches) + position):
                # Summed as tensors: a number would have to be waited for in every step.
                value = self.steps.take(name, loss) * len(index)
                sums[name] = sums[name].add_(value) if name in sums else value
                last = name
            if self.average is not None:
                self.average.update_parameters(self.steps.objective.network)
            n_seen += len(index)
            for callback in self.callbacks:
                callback.on_batch_end(position + 1, len(batches))
            tell((epoch + n_seen / len(shuffled)) / schedule.n_epochs, step)
            if rows.processes.size == 1 and time_left() <= 0:
                break
        if rows.processes.size > 1:
            self._exchange_state(batches)
        means = {name: float(total) / n_seen for name, total in sums.items()}
        total = sum(means.values())
        return {"loss": means[last] if math.isfinite(total) else math.nan, **means}, n_seen == len(shuffled)

    def _exchange_state(self, batches: Sequence[Tensor]) -> None:
        """Give all processes what each wrote for its own rows in this epoch, and process 0's other buffers."""
        objective, rows = self.steps.objective, self.steps.rows
        states = objective.row_state()
        if states:
            own = torch.cat([portion for index in batches for _, portion in self.steps.own_portions(index)])
            for state in states:
                written = torch.zeros_like(state)
                written[own] = state[own]
                (everyone,) = rows.processes.sum([written])
                state[rows.trainable] = everyone[rows.trainable]
        rows.processes.same_state(objective)
        if self.average is not None:
            rows.processes.same_state(self.average)

    def score(self) -> float:
        """Return the selection metric of the network as it is; process 0 computes it for all."""
        assert self.scorer is not None
        processes = self.steps.rows.processes
        value: float = processes.agree(self.scorer(self.steps.objective.network) if processes.rank == 0 else 0.0)
        return value

    def restore_best(self) -> None:
        """Put what is to be kept into the objective: the best epoch, or the start if none is better, else the last."""
        kept, facts = self.kept_state, self.history.facts
        if self.best_score == -math.inf and self.restart >= 0:  # nothing was trained after the best network came back
            facts["best_epoch"] = self.best_epoch + 1
        elif self.scorer is not None:
            self.steps.objective.load_state_dict(self.start_state)
            start_score = self.sign * self.score()
            if self.best_score <= start_score:
                self.best_score, self.best_epoch, self.best_state = start_score, -1, self.start_state
            if math.isfinite(self.best_score):
                kept = self.best_state
                facts["best_epoch"] = self.best_epoch + 1
                facts[f"best_{self.metric}"] = self.sign * self.best_score
        self.steps.objective.load_state_dict(kept)
