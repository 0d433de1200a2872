"""Callbacks of the training loop, the progress bar, and the history of a run."""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from onepos.training.objective import Objective

if TYPE_CHECKING:
    import pandas as pd


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


class ProgressBar(Callback):
    """One line on standard error: a bar over all batches, the loss, the validation score, the time left.

    On a terminal the line is rewritten in place; elsewhere one line is printed every tenth of the epochs.
    """

    def __init__(self, label: str = "", stream: TextIO | None = None, width: int = 24) -> None:
        self.label = label
        self.stream = stream
        self.width = width

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        """Start the clock."""
        self._out = self.stream or sys.stderr
        self._live = self._out.isatty()
        self._max_epochs, self._epoch, self._started, self._painted = max_epochs, 0, time.monotonic(), 0.0
        self._summary = ""

    def on_batch_end(self, done: int, total: int) -> None:
        """Repaint at most ten times a second."""
        now = time.monotonic()
        if self._live and now - self._painted > 0.1:
            self._painted = now
            self._paint((self._epoch + done / total) / self._max_epochs, end="")

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Note the epoch's numbers."""
        self._epoch += 1
        shown = [f"loss {record['loss']:.4f}"]
        shown += [
            f"{name.removeprefix('valid_')} {value:.4f}" for name, value in record.items() if name.startswith("valid_")
        ]
        self._summary = "  ".join(shown)
        if self._live:
            self._paint(self._epoch / self._max_epochs, end="")
        elif self._epoch == self._max_epochs or self._epoch % max(1, self._max_epochs // 10) == 0:
            self._paint(self._epoch / self._max_epochs, end="\n")

    def on_train_end(self, objective: Objective) -> None:
        """Leave the last state of the bar on the screen."""
        if self._live:
            self._paint(self._epoch / self._max_epochs, end="\n")

    def _paint(self, share: float, end: str) -> None:
        filled = round(self.width * share)
        elapsed = time.monotonic() - self._started
        left = elapsed * (1 - share) / share if share else 0.0
        bar = "█" * filled + "░" * (self.width - filled)
        where = f"epoch {self._epoch}/{self._max_epochs}"
        line = f"{self.label} {bar} {where}  {self._summary}  {elapsed:.0f}s, {left:.0f}s left"
        prefix = "\r\x1b[2K" if self._live else ""
        self._out.write(f"{prefix}{line.strip()}{end}")
        self._out.flush()


class History:
    """A list of epoch records and facts about the run as a whole.

    ``history[-1]["valid_average_precision"]`` is the last epoch's value, ``history["loss"]`` the list of all,
    ``history.to_frame()`` a DataFrame. ``history.facts`` holds facts about the run: best epoch, why it stopped,
    assumed number of positives.
    """

    def __init__(self, records: list[dict[str, float]] | None = None, facts: dict[str, Any] | None = None) -> None:
        self.records = records if records is not None else []
        self.facts = facts if facts is not None else {}

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
