"""What may listen to the training loop, and stop it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onepos.training.objective import Objective


class Callback:
    """Override any of the hooks; return True from ``on_epoch_end`` to stop training after this epoch."""

    def on_train_begin(self, objective: "Objective", max_epochs: int) -> None:
        """Run before the first epoch."""

    def on_batch_end(self, done: int, total: int) -> None:
        """Run after each mini-batch; ``done`` of ``total`` in this epoch."""

    def on_epoch_end(self, objective: "Objective", record: Mapping[str, float]) -> bool | None:
        """Run after each epoch with its history record."""
        return None

    def on_train_end(self, objective: "Objective") -> None:
        """Run once at the end, also when training was interrupted."""
