"""The one training loop, what it records, and what may listen to it."""

from onepos.training.callbacks import Callback, ProgressBar
from onepos.training.checkpoint import Checkpoint
from onepos.training.differentiated import Differentiated, Loss
from onepos.training.history import History
from onepos.training.logits import Logits
from onepos.training.loop import train
from onepos.training.objective import Batch, Objective
from onepos.training.precision import PRECISIONS, forward_precision
from onepos.training.processes import Processes, join
from onepos.training.rate_factors import check_rate_factors
from onepos.training.rows import Rows
from onepos.training.schedule import Schedule

__all__ = [
    "PRECISIONS",
    "Batch",
    "Callback",
    "Checkpoint",
    "Differentiated",
    "History",
    "Logits",
    "Loss",
    "Objective",
    "Processes",
    "ProgressBar",
    "Rows",
    "Schedule",
    "check_rate_factors",
    "forward_precision",
    "join",
    "train",
]
