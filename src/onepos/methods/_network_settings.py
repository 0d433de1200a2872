"""Settings of the networks of all neural methods, and what "auto" stands for.

The rules behind "auto" were chosen on validation rows of the data sets in docs/results.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from onepos._utils.parameters import COUNT, COUNT_OR_ZERO, POSITIVE, POSITIVE_OR_ZERO, Constraints, below, one_of
from onepos.rows.stored import DatasetRows
from onepos.training import PRECISIONS, SELECTION_METRICS, Schedule, TrainingRows
from onepos.training.loop import OBSERVED_LIKELIHOOD
from onepos.training.networks import MLP
from onepos.training.objective import gather

#: With fewer rows per label to judge by, the rank of single labels is mostly luck, and a likelihood chooses the epoch.
_ROWS_PER_LABEL = 10
#: Larger batches call for no larger learning rate: it was best small with batches of 1,024 and of 4,096 rows, too.
_BATCH_OF_RATE = 256
#: Epochs that pretrain layers for bags of features, and the rows that they may see in all.
_PRETRAINING, _PRETRAINING_ROWS = 30, 1_000_000
#: Rows to look at for what kind of features they are.
_KIND_ROWS = 1000


def are_bags(rows: TrainingRows) -> bool:
    """Whether features are counts or weights of rare things, such as words: none negative, few not zero."""
    if isinstance(rows.features, DatasetRows):  # many items would have to be read
        return False
    sample = gather(rows.features, rows.trainable[:_KIND_ROWS])
    return bool((sample >= 0).all()) and bool((sample != 0).float().mean() < 0.25)


def auto_batch_size(n_rows: int, *, share: int = 50) -> int:
    """Power of 2 nearest to ``1/share`` of the rows, from 16 to 128; of many rows to a 250th, up to 4,096.

    Examples
    --------
    >>> [auto_batch_size(n_rows) for n_rows in (100, 2000, 40_000, 200_000, 1_000_000, 10_000_000)]
    [16, 32, 128, 1024, 4096, 4096]
    """
    exponent = math.log2(max(n_rows, 1))
    few, many = 2 ** round(exponent - math.log2(share)), 2 ** round(exponent - math.log2(250))
    return int(max(16, min(few, 128), min(many, 4096)))


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkSettings:
    """Parameters of a network and its training; ``NeuralClassifier`` explains them."""

    network: Any = "auto"
    start: str = "frequencies"
    dropout: float = 0.0
    input_dropout: float = 0.0
    pretraining_epochs: int | str = "auto"
    learning_rate: float | str = "auto"
    learning_rate_factors: Mapping[str, float] | None = None
    weight_decay: float = 0.0
    batch_size: int | str = "auto"
    max_epochs: int = 25
    average_epochs: float = 1.0
    gradient_accumulation: int = 1
    early_stopping: bool | str = "auto"
    selection_metric: str = "auto"
    patience: int | None = 10
    validation_fraction: float = 0.1
    scale: str = "auto"
    device: str = "cpu"
    precision: str = "float32"
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[Constraints] = {
        "network": [one_of("auto"), "array-like", nn.Module, callable],
        "start": [one_of("frequencies", "random")],
        "dropout": [below(1)],
        "input_dropout": [below(1)],
        "pretraining_epochs": [one_of("auto"), COUNT_OR_ZERO],
        "learning_rate": [one_of("auto"), POSITIVE],
        "learning_rate_factors": [dict, None],
        "weight_decay": [POSITIVE_OR_ZERO],
        "batch_size": [one_of("auto"), COUNT],
        "max_epochs": [COUNT],
        "average_epochs": [POSITIVE_OR_ZERO],
        "gradient_accumulation": [COUNT],
        "early_stopping": [one_of("auto"), "boolean"],
        "selection_metric": [one_of("auto", *SELECTION_METRICS)],
        "patience": [COUNT, None],
        "device": [str],
        "precision": [one_of(*PRECISIONS)],
    }

    #: Complete labels in y: every 0 is a true negative, and a held-out part of y is fully labelled too.
    _y_is_full: ClassVar[bool] = False
    #: Whether the method learns the likelihood of the observed labels, which then chooses the epoch wherever single
    #: positives do. Of the others, the ranking improves while it falls: it judges them only in folds of few rows.
    _learns_likelihood: ClassVar[bool] = True
    #: Batches have one in so many of few rows.
    _batch_share: ClassVar[int] = 50

    def _build_network(self, n_features: int, n_labels: int, generator: torch.Generator) -> nn.Module:
        """Build the library's own network."""
        hidden = [max(128, n_labels)] if isinstance(self.network, str) else list(map(int, self.network))
        if hidden and min(hidden) < 1:
            raise ValueError(f"network must list hidden layer sizes of at least 1; got {self.network!r}.")
        sizes = [n_features, *hidden, n_labels]
        return MLP(sizes, dropout=self.dropout, input_dropout=self.input_dropout, generator=generator)

    def _schedule(self, n_rows: int, *, bags: bool) -> Schedule:
        """Return the schedule for so many rows; ``bags`` says that features are bags of rare things."""
        batch, rate, pretraining = self.batch_size, self.learning_rate, self.pretraining_epochs
        if isinstance(batch, str):
            batch = auto_batch_size(n_rows, share=self._batch_share)
        if isinstance(rate, str):
            rate = (1.5e-3 if bags else 1e-3) * math.sqrt(min(batch, _BATCH_OF_RATE) / 16)
        if isinstance(pretraining, str):
            own = callable(self.network) or (not isinstance(self.network, str) and len(self.network) == 0)
            pretraining = min(_PRETRAINING, _PRETRAINING_ROWS // max(n_rows, 1)) if bags and not own else 0
        factors = self.learning_rate_factors or {}
        return Schedule(
            self.max_epochs,
            batch,
            rate,
            self.weight_decay,
            self.patience,
            factors,
            self.gradient_accumulation,
            self.average_epochs,
            pretraining,
        )

    def _metric(self, n_judging: int, n_labels: int, *, complete: bool) -> str:
        """Return what chooses the epoch: by complete labels average precision, by single positives the likelihood."""
        if self.selection_metric != "auto":
            return self.selection_metric
        likely = self._learns_likelihood or n_judging < _ROWS_PER_LABEL * n_labels
        return OBSERVED_LIKELIHOOD if likely and not complete else "average_precision"
