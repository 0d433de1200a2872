"""The training loop, the objectives it minimises, what it records, and what may listen to it."""

from onepos._utils.context import progress_to
from onepos.training.checkpoint import Checkpoint
from onepos.training.loop import SELECTION_METRICS, Callback, History, selection_score, train
from onepos.training.machine import PRECISIONS, Processes, forward_precision, join
from onepos.training.objective import Batch, LossObjective, Objective, TrainingRows
from onepos.training.steps import Schedule, check_rate_factors

__all__ = [
    "PRECISIONS",
    "SELECTION_METRICS",
    "Batch",
    "Callback",
    "Checkpoint",
    "History",
    "LossObjective",
    "Objective",
    "Processes",
    "Schedule",
    "TrainingRows",
    "check_rate_factors",
    "forward_precision",
    "join",
    "progress_to",
    "selection_score",
    "train",
]
