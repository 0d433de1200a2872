"""The one training loop, what it records, and what may listen to it."""

from onepos.training.callbacks import Callback, ProgressBar
from onepos.training.history import History
from onepos.training.loop import Schedule, train
from onepos.training.objective import Batch, Objective
from onepos.training.rows import Rows

__all__ = ["Batch", "Callback", "History", "Objective", "ProgressBar", "Rows", "Schedule", "train"]
