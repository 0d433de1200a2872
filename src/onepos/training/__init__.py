"""The one training loop, what it records, and what may listen to it."""

from onepos._utils.context import progress_to
from onepos.training.callbacks import Callback, History, ProgressBar
from onepos.training.checkpoint import Checkpoint
from onepos.training.loop import train
from onepos.training.machine import PRECISIONS, forward_precision
from onepos.training.objective import Batch, Objective
from onepos.training.optimizer import Schedule, check_rate_factors
from onepos.training.processes import Processes, join
from onepos.training.steps import Rows

__all__ = [
    "PRECISIONS",
    "Batch",
    "Callback",
    "Checkpoint",
    "History",
    "Objective",
    "Processes",
    "ProgressBar",
    "Rows",
    "Schedule",
    "check_rate_factors",
    "forward_precision",
    "join",
    "progress_to",
    "train",
]
