"""The training loop: epochs of batches, the choice of the best epoch, and the reasons to stop.

A metric, or the likelihood of the observed labels under softmax(τ·logits) with the best τ, chooses the epoch.
docs/tuning.md says where each is better.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor

from onepos import metrics
from onepos._utils.context import tell, time_left
from onepos.exceptions import TrainingWarning
from onepos.label_sets.pooling import at_observed, inverse_temperature
from onepos.training.machine import flushed_denormals
from onepos.training.objective import Objective, Rows
from onepos.training.steps import Schedule, Steps

if TYPE_CHECKING:
    import pandas as pd

    from onepos.training.callbacks import Callback
    from onepos.training.checkpoint import Checkpoint

#: Mean log-likelihood of the observed labels, temperature fitted.
OBSERVED_LIKELIHOOD = "observed_likelihood"
#: The criteria that can choose the best epoch.
SELECTION_METRICS = (*metrics.METRICS, OBSERVED_LIKELIHOOD)
#: Returns {metric name: value} of the current network on held-out rows.
Scorer = Callable[[torch.nn.Module], dict[str, float]]


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


@dataclass(repr=False, eq=False)
class History:
    """A list of epoch records and facts about the run as a whole.

    ``history[-1]["valid_average_precision"]`` is the last epoch's value, ``history["loss"]`` the list of all,
    ``history.to_frame()`` a DataFrame. ``history.facts`` holds facts about the run: best epoch, why it stopped,
    assumed number of positives.
    """

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


@dataclass
class Progress:
    """How far a run has come: its history, the weights of its last and of its best epoch."""

    history: History
    last_state: dict[str, Tensor]
    best_state: dict[str, Tensor]
    best_score: float = -math.inf
    best_epoch: int = -1
    restart: int = -1

    @property
    def waited(self) -> int:
        """Epochs since the best one, or since the last restart."""
        return len(self.history) - 1 - max(self.best_epoch, self.restart)

    def consider(self, score: float, epoch: int) -> None:
        """Keep the last state as the best one if its score is higher."""
        if score > self.best_score:
            self.best_score, self.best_epoch, self.best_state = score, epoch, self.last_state


def train(
    objective: Objective,
    rows: Rows,
    schedule: Schedule,
    generator: torch.Generator,
    *,
    scorer: Scorer | None = None,
    selection: str = "average_precision",
    callbacks: Sequence["Callback"] = (),
    checkpoint: "Checkpoint | None" = None,
) -> History:
    """Minimise an objective over mini-batches and return what happened.

    Parameters
    ----------
    objective : Objective
        Trained in place. It ends with the weights of the best epoch (with a scorer) or of the last good one.
    rows : Rows
        The training set, and the processes that share it.
    schedule : Schedule
    generator : torch.Generator
        Shuffles the rows. The objective draws from it too.
    scorer : callable, optional
        ``scorer(network)`` returns metrics by name. It is called before the first epoch, which counts as epoch 0, and
        after each.
    selection : str
        The one of ``SELECTION_METRICS`` that chooses the epoch.
    callbacks : sequence of Callback
    checkpoint : Checkpoint, optional
        Written after each epoch. A run that it holds at the start is continued.

    Notes
    -----
    Ctrl-C ends training after the current batch and keeps a usable model. If a loss stops being finite, the last finite
    epoch is restored. Both warn. Training also ends when ``time_left`` is used up: after the current batch, which is
    scored as if the epoch were complete and is not written to a checkpoint.

    With several processes, process 0 scores, calls the callbacks and decides when to stop. Time is looked at after each
    epoch only, and Ctrl-C raises.
    """
    run = _Run(
        Steps(objective, rows, schedule, generator),
        scorer,
        selection,
        callbacks=callbacks if rows.processes.rank == 0 else (),
        checkpoint=checkpoint,
    )
    return run.train()


@dataclass
class _Run:
    """One call of ``train``."""

    steps: Steps
    scorer: Scorer | None
    metric: str
    callbacks: Sequence["Callback"]
    checkpoint: "Checkpoint | None"

    def __post_init__(self) -> None:
        self.objective, self.schedule = self.steps.objective, self.steps.schedule
        self.processes = self.steps.rows.processes
        start = _snapshot(self.objective)
        self.progress = Progress(History(facts={"stopped": "max_epochs"}), start, start)
        self.history = self.progress.history
        self._sign = 1.0 if higher_is_better(self.metric) else -1.0

    def train(self) -> History:
        """Score the start, resume, run the epochs, restore the best one."""
        for callback in self.callbacks:
            callback.on_train_begin(self.objective, self.schedule.n_epochs)
        with flushed_denormals():
            self.objective.eval()
            self._score(-1)
            if self.checkpoint is not None:
                self.checkpoint.resume(self.progress, self.steps)
            try:
                self._run_epochs()
            except KeyboardInterrupt:
                if self.processes.size > 1:
                    raise  # the others may have seen it in another batch
                self.history.facts["stopped"] = "interrupted"
                warnings.warn(
                    f"training was interrupted in epoch {len(self.history) + 1}; the model is usable as it stands.",
                    TrainingWarning,
                    stacklevel=6,
                )
        self._restore_best()
        self.objective.eval()
        for callback in self.callbacks:
            callback.on_train_end(self.objective)
        return self.history

    def _run_epochs(self) -> None:
        """Train from the epoch that was reached until there is a reason to stop, which the history notes."""
        facts, progress = self.history.facts, self.progress
        for epoch in range(len(self.history), self.schedule.n_epochs):
            # Asked before an epoch, since a resumed run may have waited long enough already.
            if self._waited_enough():
                break
            if self.processes.agree(time_left() <= 0):
                facts["stopped"] = "time"
                return
            started = time.perf_counter()
            self.objective.begin_epoch(epoch)
            self.objective.train()
            record, complete = self._run_epoch(epoch)
            if not math.isfinite(record["loss"]):
                self.objective.load_state_dict(progress.last_state)
                facts["stopped"] = "diverged"
                warnings.warn(
                    f"the loss stopped being finite in epoch {epoch + 1}; the weights of the epoch before are kept. "
                    "Try a smaller learning_rate, or scale='standard'.",
                    TrainingWarning,
                    stacklevel=7,
                )
                return
            progress.last_state = _snapshot(self.objective)
            self.objective.eval()
            record |= self.objective.describe_epoch() | self._score(epoch)
            record["seconds"] = time.perf_counter() - started
            self.history.append({"epoch": epoch + 1, **record})
            if not complete:
                facts["stopped"] = "time"
                return
            if self.objective.end_epoch(None if self.scorer is None else progress.waited):
                self._restart(epoch)
            if self.checkpoint is not None and self.processes.rank == 0:
                self.checkpoint.save(progress, self.steps)
            # Every callback sees every epoch, whatever an earlier one wants.
            wishes = [callback.on_epoch_end(self.objective, self.history[-1]) for callback in self.callbacks]
            if self.processes.agree(any(wishes)):
                facts["stopped"] = "callback"
                return
        if self._waited_enough():
            facts["stopped"] = "early"

    def _run_epoch(self, epoch: int) -> tuple[dict[str, float], bool]:
        """Pass over shuffled rows while time allows: mean of each loss ("loss": the last), whether all were seen."""
        rows, schedule = self.steps.rows, self.schedule
        shuffled = torch.randperm(len(rows.trainable), generator=self.steps.generator, device=rows.trainable.device)
        batches = torch.split(rows.trainable[shuffled], schedule.batch_size)
        sums: dict[str, Tensor] = {}
        last, n_seen, step = "", 0, self._step(epoch)
        for position, index in enumerate(batches):
            for name, loss in self.steps.take(index, epoch * len(batches) + position, schedule.learning_rate):
                # Summed as tensors: a number would have to be waited for in every step.
                if name in sums:
                    sums[name].add_(loss, alpha=len(index))
                else:
                    sums[name] = loss * len(index)
                last = name
            n_seen += len(index)
            for callback in self.callbacks:
                callback.on_batch_end(position + 1, len(batches))
            tell((epoch + n_seen / len(shuffled)) / schedule.n_epochs, step)
            if self.processes.size == 1 and time_left() <= 0:
                break
        if self.processes.size > 1:
            self._exchange_state(batches)
        means = {name: float(total) / n_seen for name, total in sums.items()}
        total = sum(means.values())
        return {"loss": means[last] if math.isfinite(total) else math.nan, **means}, n_seen == len(shuffled)

    def _step(self, epoch: int) -> str:
        """Return the name of an epoch for those who watch, with the loss and the scores of the one before."""
        record = self.history[-1] if len(self.history) else {}
        numbers = {name: value for name, value in record.items() if name == "loss" or name.startswith("valid_")}
        return ", ".join(
            [
                f"training, epoch {epoch + 1} of {self.schedule.n_epochs}",
                *(f"{name.removeprefix('valid_')} {value:.4f}" for name, value in numbers.items()),
            ]
        )

    def _exchange_state(self, batches: Sequence[Tensor]) -> None:
        """Give all processes what each wrote for its own rows in this epoch, and process 0's other buffers."""
        states = self.objective.row_state()
        if states:
            own = torch.cat([rows for index in batches for _, rows in self.steps.own_portions(index)])
            for state in states:
                written = torch.zeros_like(state)
                written[own] = state[own]
                (everyone,) = self.processes.sum([written])
                trained = self.steps.rows.trainable
                state[trained] = everyone[trained]
        self.processes.same_state(self.objective)

    def _score(self, epoch: int) -> dict[str, float]:
        """Score the network as it is and note it if it is the best so far; epoch −1 is the start."""
        if self.scorer is None:
            return {}
        scores = self.processes.agree(self.scorer(self.objective.network) if self.processes.rank == 0 else {})
        self.progress.consider(self._sign * scores[self.metric], epoch)
        return {f"valid_{name}": value for name, value in scores.items()}

    def _restart(self, epoch: int) -> None:
        """Put the best epoch's network back, keep what else the objective trains, and look for the best epoch anew."""
        progress = self.progress
        best = {name: value for name, value in progress.best_state.items() if name.startswith("network.")}
        self.objective.load_state_dict(progress.last_state | best)
        progress.last_state, progress.restart, progress.best_score = _snapshot(self.objective), epoch, -math.inf

    def _restore_best(self) -> None:
        progress, facts = self.progress, self.history.facts
        if self.scorer is None:
            return
        if math.isfinite(progress.best_score):
            self.objective.load_state_dict(progress.best_state)
            facts["best_epoch"] = progress.best_epoch + 1
            facts[f"best_{self.metric}"] = self._sign * progress.best_score
        elif progress.best_score == -math.inf and progress.restart >= 0:  # restarted from it, and not trained since
            facts["best_epoch"] = progress.best_epoch + 1

    def _waited_enough(self) -> bool:
        patience = self.schedule.patience
        return self.scorer is not None and patience is not None and self.progress.waited >= patience


def _snapshot(objective: Objective) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in objective.state_dict().items()}
