"""The training loop. It knows nothing of any method."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from onepos._utils.deadline import tell, time_left
from onepos.exceptions import TrainingWarning
from onepos.training.callbacks import Callback, History
from onepos.training.checkpoint import Checkpoint, Progress
from onepos.training.machine import flushed_denormals
from onepos.training.objective import Objective
from onepos.training.optimizer import Schedule
from onepos.training.processes import shared_forward
from onepos.training.rows import Rows
from onepos.training.steps import Steps

#: Returns {metric name: value} of the current network on held-out rows.
Scorer = Callable[[torch.nn.Module], dict[str, float]]


@dataclass(frozen=True)
class Selection:
    """How the epoch is chosen: who scores the network, by which metric, and whether larger is better."""

    scorer: Scorer | None
    metric: str
    larger_is_better: bool

    @property
    def sign(self) -> float:
        """1 if larger is better, else −1."""
        return 1.0 if self.larger_is_better else -1.0


def train(
    objective: Objective,
    rows: Rows,
    schedule: Schedule,
    generator: torch.Generator,
    *,
    scorer: Scorer | None = None,
    selection: tuple[str, bool] = ("average_precision", True),
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
) -> History:
    """Minimise an objective over mini-batches and return what happened.

    Parameters
    ----------
    objective : Objective
        Trained in place; left with the weights of the best epoch (with a scorer) or the last good one.
    rows : Rows
        The training set, and which processes share it.
    scorer, selection
        ``scorer(network)`` is called before the first epoch and after each; ``selection`` names the metric that
        chooses the epoch, of which the start is number 0, and whether larger is better.
    checkpoint : Checkpoint, optional
        Written after each epoch; what it holds at the start is gone on from.

    Notes
    -----
    Ctrl-C ends training after the current batch and keeps a usable model; so does a loss that stops being finite,
    for which the last finite epoch is restored. Both warn. With several processes Ctrl-C ends them. What process 0
    finds (scores, the wish of a callback to stop) holds for all of them, and only its callbacks are called.

    Training also ends when ``time_left`` says so: after the current batch, or with several processes
    after the epoch. The part of an epoch that was done is scored like an epoch, and is not written to a checkpoint.
    """
    chosen = Selection(scorer, *selection)
    callbacks = callbacks if rows.processes.rank == 0 else ()
    start = _snapshot(objective)
    run = Progress(History(facts={"stopped": "max_epochs"}), start, start)
    for callback in callbacks:
        callback.on_train_begin(objective, schedule.n_epochs)
    with flushed_denormals(), shared_forward(objective.network, several=rows.processes.size > 1) as told:
        steps = Steps(objective, rows, schedule, told)
        objective.eval()
        _consider(run, steps, chosen, -1)
        if checkpoint is not None:
            checkpoint.resume(run, steps, generator)
        try:
            _run_epochs(run, steps, generator, chosen, callbacks, checkpoint)
        except KeyboardInterrupt:
            if rows.processes.size > 1:
                raise  # the others may have seen it in another batch
            run.history.facts["stopped"] = "interrupted"
            warnings.warn(
                f"training was interrupted in epoch {len(run.history) + 1}; the model is usable as it stands.",
                TrainingWarning,
                stacklevel=5,
            )
    if scorer is not None and run.best_score == -math.inf and run.restart >= 0:
        run.history.facts["best_epoch"] = run.best_epoch + 1  # put back already, and not trained on
    elif scorer is not None and math.isfinite(run.best_score):
        objective.load_state_dict(run.best_state)
        run.history.facts["best_epoch"] = run.best_epoch + 1
        run.history.facts[f"best_{chosen.metric}"] = chosen.sign * run.best_score
    objective.eval()
    for callback in callbacks:
        callback.on_train_end(objective)
    return run.history


def _run_epochs(
    run: Progress,
    steps: Steps,
    generator: torch.Generator,
    selection: Selection,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
) -> None:
    """Train from the epoch that ``run`` has reached until there is a reason to stop, which is noted in its history."""
    objective, schedule, processes = steps.objective, steps.schedule, steps.rows.processes
    for epoch in range(len(run.history), schedule.n_epochs):
        # Asked first: a run that goes on from a checkpoint may have waited long enough already.
        if selection.scorer is not None and schedule.patience is not None and run.waited >= schedule.patience:
            run.history.facts["stopped"] = "early"
            return
        if processes.agree(time_left() <= 0):
            run.history.facts["stopped"] = "time"
            return
        started = time.perf_counter()
        objective.begin_epoch(epoch)
        objective.train()
        record, complete = _run_epoch(steps, generator, callbacks)
        record = processes.agree(record)
        if not complete:
            run.history.facts["stopped"] = "time"
        if not math.isfinite(record["loss"]):
            objective.load_state_dict(run.last_state)
            run.history.facts["stopped"] = "diverged"
            warnings.warn(
                f"the loss stopped being finite in epoch {epoch + 1}; the weights of the epoch before are kept. "
                "Try a smaller learning_rate, or scale='standard'.",
                TrainingWarning,
                stacklevel=6,
            )
            return
        run.last_state = _snapshot(objective)
        objective.eval()
        record.update(objective.describe_epoch())
        record.update(_consider(run, steps, selection, epoch))
        record["seconds"] = time.perf_counter() - started
        run.history.append({"epoch": epoch + 1, **record})
        if run.history.facts["stopped"] == "time":
            return
        if objective.end_epoch(None if selection.scorer is None else run.waited):
            _restart(run, objective, epoch)
        if checkpoint is not None:
            checkpoint.save(run, steps, generator)
        # Asked one by one before deciding: every callback sees every epoch, whatever an earlier one wants.
        wishes = [callback.on_epoch_end(objective, run.history[-1]) for callback in callbacks]
        if processes.agree(any(wishes)):
            run.history.facts["stopped"] = "callback"
            return
    if selection.scorer is not None and schedule.patience is not None and run.waited >= schedule.patience:
        run.history.facts["stopped"] = "early"


def _restart(run: Progress, objective: Objective, epoch: int) -> None:
    """Put the best epoch's network back, leave what else the objective trains, and look for the best epoch anew."""
    best = {name: value for name, value in run.best_state.items() if name.startswith("network.")}
    objective.load_state_dict(run.last_state | best)
    run.last_state, run.restart, run.best_score = _snapshot(objective), epoch, -math.inf


def _consider(run: Progress, steps: Steps, selection: Selection, epoch: int) -> dict[str, float]:
    """Score the network as it is and keep it if it is the best so far; epoch −1 is the start."""
    if selection.scorer is None:
        return {}
    processes = steps.rows.processes
    scores = processes.agree(selection.scorer(steps.objective.network) if processes.rank == 0 else {})
    run.consider(selection.sign * scores[selection.metric], epoch)
    return {f"valid_{name}": value for name, value in scores.items()}


def _run_epoch(
    steps: Steps, generator: torch.Generator, callbacks: Sequence[Callback]
) -> tuple[dict[str, float], bool]:
    """One pass over the shuffled rows, as far as time allows: the mean of each loss, and whether all rows were seen.

    "loss" is the one that is yielded last.
    """
    rows, schedule = steps.rows, steps.schedule
    order = rows.trainable[torch.randperm(len(rows.trainable), generator=generator, device=rows.trainable.device)]
    batches = torch.split(order, schedule.batch_size)
    rate = schedule.learning_rate * schedule.rate_factor(steps.objective.epoch)
    sums: dict[str, Tensor] = {}
    last, n_seen = "", 0
    for position, index in enumerate(batches):
        for name, loss in steps.take(index, rate):
            # Summed as tensors: asking for the number here would wait for it in every step.
            if name in sums:
                sums[name].add_(loss, alpha=len(index))
            else:
                sums[name] = loss * len(index)
            last = name
        n_seen += len(index)
        for callback in callbacks:
            callback.on_batch_end(position + 1, len(batches))
        tell((steps.objective.epoch + n_seen / len(order)) / schedule.n_epochs)
        if rows.processes.size == 1 and time_left() <= 0:
            break
    means = {name: float(total) / n_seen for name, total in sums.items()}
    total = sum(means.values())
    return {"loss": means[last] if math.isfinite(total) else math.nan, **means}, n_seen == len(order)


def _snapshot(objective: Objective) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in objective.state_dict().items()}
