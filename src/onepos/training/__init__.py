"""The one training loop, what it records, and what may listen to it."""

from onepos.training.callbacks import Callback, ProgressBar
from onepos.training.history import History
from onepos.training.loop import Schedule, train
from onepos.training.objective import Batch, Objective
from onepos.training.precision import PRECISIONS, forward_precision
from onepos.training.rate_factors import check_rate_factors
from onepos.training.rows import Rows

__all__ = [
    "PRECISIONS",
    "Batch",
    "Callback",
    "History",
    "Objective",
    "ProgressBar",
    "Rows",
    "Schedule",
    "check_rate_factors",
    "forward_precision",
    "train",
]
