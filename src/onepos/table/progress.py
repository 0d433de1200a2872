"""Training told to whoever draws the progress bar."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Called with what is being done and the share of the work that is behind.
Progress = Callable[[str, float], None]

#: Share of the bar where training begins and ends; reading and scoring are the rest.
_BEGIN, _END = 0.05, 0.95


def fit_arguments(
    estimator: Any, progress: Progress | None, checkpoint: str | Path | None, method: str
) -> dict[str, Any]:
    """Return the extra arguments of ``fit``: what moves the bar, and where the run is kept."""
    arguments = training_callbacks(estimator, progress)
    if checkpoint is None:
        return arguments
    if "checkpoint" not in inspect.signature(estimator.fit).parameters:
        raise ValueError(f"method {method!r} has no epochs after which it could be kept: leave the checkpoint out.")
    return {**arguments, "checkpoint": checkpoint}


def training_callbacks(estimator: Any, progress: Progress | None) -> dict[str, Any]:
    """Return the extra arguments of ``fit`` that move the bar; none for methods that have no parts to tell of."""
    if progress is None:
        return {}
    taken = inspect.signature(estimator.fit).parameters
    if "progress" in taken:
        return {"progress": lambda step, share: progress(step, _BEGIN + (_END - _BEGIN) * share)}
    if "callbacks" not in taken:
        return {}
    from onepos.training import Callback

    tell = progress

    class Listener(Callback):
        def on_train_begin(self, objective: Any, max_epochs: int) -> None:
            self.epoch, self.max_epochs = 0, max_epochs

        def on_batch_end(self, done: int, total: int) -> None:
            tell("training", _BEGIN + (_END - _BEGIN) * (self.epoch + done / total) / self.max_epochs)

        def on_epoch_end(self, objective: Any, record: Any) -> None:
            self.epoch += 1

    return {"callbacks": [Listener()]}
