"""Seconds of an epoch or of single steps, and their losses, out of an ordinary ``fit``."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from onepos._utils.context import remember_work
from onepos.training import Batch, Callback, Objective


class Enough(Exception):
    """Ends a fit after the steps that were wanted; unlike Ctrl-C it leaves nothing to finish."""


class StepClock(Callback):
    """Notes when every step ends and stops after ``limit`` steps."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.limit, self.clock = limit, clock
        self.ends: list[float] = []

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        self.ends = [self.clock()]

    def on_batch_end(self, done: int, total: int) -> None:
        self.ends.append(self.clock())
        if len(self.ends) > self.limit:
            raise Enough


class LossLog(StepClock):
    """Keeps every loss of the first steps, in the order in which they are stepped on."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.losses: list[float] = []

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        super().on_train_begin(objective, max_epochs)
        objective.losses = self._noting(objective.losses)  # on the instance: its class stays as it is

    def _noting(self, losses: Callable[[Batch], Iterator[tuple[str, Tensor]]]) -> Any:
        def noted(batch: Batch) -> Iterator[tuple[str, Tensor]]:
            for name, loss in losses(batch):
                self.losses.append(float(loss.detach()))
                yield name, loss

        return noted


def epoch_seconds(model: Any, X: Any, Y: Any) -> float:
    """Seconds of the last epoch of a fit; the graph is remembered, as it belongs to no epoch."""
    with remember_work():
        return float(model.fit(X, Y).history_["seconds"][-1])


def step_seconds(
    model: Any, X: Any, Y: Any, limit: int, skip: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Mean seconds of a step among the first ``limit``, the first few left out as memory is still being claimed.

    The mean: a lookup for many steps falls into one of them, which a median would ignore.
    """
    return float(np.mean(np.diff(_until(model, X, Y, StepClock(limit, clock)).ends)[skip:]))


def epoch_processor_seconds(model: Any, X: Any, Y: Any, steps: int) -> float:
    """Processor seconds of the second epoch, which has ``steps`` steps: all of them, the last short one too."""
    ends = _until(model, X, Y, StepClock(2 * steps, time.process_time)).ends
    return ends[2 * steps] - ends[steps]


def first_losses(model: Any, X: Any, Y: Any, limit: int) -> list[float]:
    """Every loss of the first ``limit`` steps."""
    return _until(model, X, Y, LossLog(limit)).losses


def _until(model: Any, X: Any, Y: Any, clock: Any) -> Any:
    try:
        with remember_work():
            model.fit(X, Y, callbacks=[clock])
    except Enough:
        pass
    return clock
