"""How long and how fast to train."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    ``patience`` epochs without a better validation score end training; None never stops early. The weights of the
    best epoch are restored whenever there is a scorer. ``rate_factors`` multiply the learning rate of those parameters
    of the network whose names begin so. ``accumulation`` is the number of portions that a batch is computed in.
    ``stop_after`` ends training after so many of the ``max_epochs``, by which a decay is measured.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    patience: int | None = None
    learning_rate_decay: str = "none"
    rate_factors: Mapping[str, float] = field(default_factory=dict)
    accumulation: int = 1
    stop_after: int | None = None

    @property
    def n_epochs(self) -> int:
        """Epochs to train for."""
        return self.max_epochs if self.stop_after is None else min(self.stop_after, self.max_epochs)

    def rate_factor(self, epoch: int) -> float:
        """Multiplier of the learning rate in a 0-based epoch: 1, or half a cosine from 1 towards 0."""
        if self.learning_rate_decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * epoch / self.max_epochs))
        return 1.0
