"""Callbacks of the training loop, and the progress bar."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

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


class ProgressBar(Callback):
    """One line on standard error: a bar over all batches, the loss, the validation score, the time left.

    On a terminal the line is rewritten in place; elsewhere one line is printed every tenth of the epochs.
    """

    def __init__(self, label: str = "", stream: TextIO | None = None) -> None:
        self.label, self.stream = label, stream

    def on_train_begin(self, objective: "Objective", max_epochs: int) -> None:
        """Start the clock."""
        self._out = self.stream or sys.stderr
        self._live = self._out.isatty()
        self._max_epochs, self._epoch, self._summary = max_epochs, 0, ""
        self._started, self._painted = time.monotonic(), 0.0

    def on_batch_end(self, done: int, total: int) -> None:
        """Repaint at most ten times per second."""
        now = time.monotonic()
        if self._live and now - self._painted > 0.1:
            self._painted = now
            self._paint((self._epoch + done / total) / self._max_epochs)

    def on_epoch_end(self, objective: "Objective", record: Mapping[str, float]) -> None:
        """Note the epoch's numbers."""
        self._epoch += 1
        scores = {name.removeprefix("valid_"): value for name, value in record.items() if name.startswith("valid_")}
        self._summary = "  ".join(f"{name} {value:.4f}" for name, value in {"loss": record["loss"], **scores}.items())
        if self._live:
            self._paint(self._epoch / self._max_epochs)
        elif self._epoch == self._max_epochs or self._epoch % max(1, self._max_epochs // 10) == 0:
            self._paint(self._epoch / self._max_epochs, end="\n")

    def on_train_end(self, objective: "Objective") -> None:
        """Leave the last state of the bar on the screen."""
        if self._live:
            self._paint(self._epoch / self._max_epochs, end="\n")

    def _paint(self, share: float, end: str = "") -> None:
        elapsed = time.monotonic() - self._started
        left = elapsed * (1 - share) / share if share else 0.0
        bar = ("█" * round(24 * share)).ljust(24, "░")
        where = f"epoch {self._epoch}/{self._max_epochs}"
        line = f"{self.label} {bar} {where}  {self._summary}  {elapsed:.0f}s, {left:.0f}s left"
        prefix = "\r\x1b[2K" if self._live else ""
        self._out.write(f"{prefix}{line.strip()}{end}")
        self._out.flush()
