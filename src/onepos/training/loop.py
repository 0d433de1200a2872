"""The training loop. It knows nothing of any method."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from onepos.exceptions import TrainingWarning
from onepos.training.callbacks import Callback
from onepos.training.history import History
from onepos.training.objective import Batch, Objective
from onepos.training.optimizer import FusedAdam
from onepos.training.rate_factors import with_rate_factors
from onepos.training.rows import Rows

#: Returns {metric name: value} of the current network on held-out rows.
Scorer = Callable[[torch.nn.Module], dict[str, float]]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    ``patience`` epochs without a better validation score end training; None never stops early. The weights of the
    best epoch are restored whenever there is a scorer. ``rate_factors`` multiply the learning rate of those parameters
    of the network whose names begin so.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    patience: int | None = None
    learning_rate_decay: str = "none"
    rate_factors: Mapping[str, float] = field(default_factory=dict)

    def rate_factor(self, epoch: int) -> float:
        """Multiplier of the learning rate in a 0-based epoch: 1, or half a cosine from 1 towards 0."""
        if self.learning_rate_decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * epoch / self.max_epochs))
        return 1.0


def train(
    objective: Objective,
    rows: Rows,
    schedule: Schedule,
    generator: torch.Generator,
    *,
    scorer: Scorer | None = None,
    selection: tuple[str, bool] = ("average_precision", True),
    callbacks: Sequence[Callback] = (),
) -> History:
    """Minimise an objective over mini-batches and return what happened.

    Parameters
    ----------
    objective : Objective
        Trained in place; left with the weights of the best epoch (with a scorer) or the last good one.
    rows : Rows
        The training set.
    scorer, selection
        ``scorer(network)`` is called once an epoch; ``selection`` names the metric that chooses the epoch and
        whether larger is better.

    Notes
    -----
    Ctrl-C ends training after the current batch and keeps a usable model; so does a loss that stops being finite,
    for which the last finite epoch is restored. Both warn.
    """
    optimizers: dict[str, FusedAdam] = {}
    metric, larger_is_better = selection
    sign = 1.0 if larger_is_better else -1.0
    history = History(facts={"stopped": "max_epochs"})
    best_score, best_epoch = -math.inf, -1
    best_state = last_state = _snapshot(objective)
    for callback in callbacks:
        callback.on_train_begin(objective, schedule.max_epochs)
    try:
        for epoch in range(schedule.max_epochs):
            started = time.perf_counter()
            objective.begin_epoch(epoch)
            objective.train()
            record = _run_epoch(objective, rows, schedule, optimizers, generator, callbacks)
            if not math.isfinite(record["loss"]):
                objective.load_state_dict(last_state)
                history.facts["stopped"] = "diverged"
                warnings.warn(
                    f"the loss stopped being finite in epoch {epoch + 1}; the weights of the epoch before are kept. "
                    "Try a smaller learning_rate, or scale='standard'.",
                    TrainingWarning,
                    stacklevel=5,
                )
                break
            last_state = _snapshot(objective)
            objective.eval()
            record.update(objective.describe_epoch())
            if scorer is not None:
                scores = scorer(objective.network)
                record.update({f"valid_{name}": value for name, value in scores.items()})
                if sign * scores[metric] > best_score:
                    best_score, best_epoch, best_state = sign * scores[metric], epoch, last_state
            record["seconds"] = time.perf_counter() - started
            history.append({"epoch": epoch + 1, **record})
            # Asked one by one before deciding: every callback sees every epoch, whatever an earlier one wants.
            wishes = [callback.on_epoch_end(objective, history[-1]) for callback in callbacks]
            if any(wishes):
                history.facts["stopped"] = "callback"
                break
            if scorer is not None and schedule.patience is not None and epoch - best_epoch >= schedule.patience:
                history.facts["stopped"] = "early"
                break
    except KeyboardInterrupt:
        history.facts["stopped"] = "interrupted"
        warnings.warn(
            f"training was interrupted in epoch {len(history) + 1}; the model is usable as it stands.",
            TrainingWarning,
            stacklevel=5,
        )
    if best_epoch >= 0:
        objective.load_state_dict(best_state)
        history.facts["best_epoch"] = best_epoch + 1
        history.facts[f"best_{metric}"] = sign * best_score
    objective.eval()
    for callback in callbacks:
        callback.on_train_end(objective)
    return history


def _run_epoch(
    objective: Objective,
    rows: Rows,
    schedule: Schedule,
    optimizers: dict[str, FusedAdam],
    generator: torch.Generator,
    callbacks: Sequence[Callback],
) -> dict[str, float]:
    """One pass over the shuffled rows; returns the mean of each named loss, "loss" being the last one yielded."""
    order = rows.trainable[torch.randperm(len(rows.trainable), generator=generator, device=rows.trainable.device)]
    batches = torch.split(order, schedule.batch_size)
    rate = schedule.learning_rate * schedule.rate_factor(objective.epoch)
    sums: dict[str, Tensor] = {}
    last = ""
    for position, index in enumerate(batches):
        batch = Batch(index, rows.gather(index), rows.observed[index])
        for name, loss in objective.losses(batch):
            if name not in optimizers:
                groups = with_rate_factors(objective.trained_by(name), objective.network, schedule.rate_factors)
                optimizers[name] = FusedAdam(groups, schedule.weight_decay)
            optimizers[name].step(loss, rate)
            # Summed as tensors: asking for the number here would wait for it in every step.
            value = loss.detach() * len(index)
            sums[name] = sums[name] + value if name in sums else value
            last = name
        for callback in callbacks:
            callback.on_batch_end(position + 1, len(batches))
    means = {name: float(total) / len(order) for name, total in sums.items()}
    total = sum(means.values())
    return {"loss": means[last] if math.isfinite(total) else math.nan, **means}


def _snapshot(objective: Objective) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in objective.state_dict().items()}
