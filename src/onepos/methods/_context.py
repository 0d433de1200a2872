"""What a fit hands to the method that it trains."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos.dataset_rows import DatasetRows
from onepos.methods._graph_features import GraphFeatures
from onepos.training import Rows, Schedule


@dataclass(frozen=True)
class Held:
    """Validation rows: scaled features, labels as given, and whether the labels are complete."""

    features: Any
    observed: NDArray[np.int8]
    full: bool


@dataclass(frozen=True)
class Context:
    """What a method may use to build its objective."""

    rows: Rows
    network: nn.Module
    held: Held | None
    generator: torch.Generator
    schedule: Schedule
    #: Probabilities from elsewhere, shape (n_samples, n_labels), NaN where there are none.
    label_scores: Tensor | None = None
    #: Features given for the graph, scaled, shape (n_samples, q).
    graph_features: Any = None

    @property
    def graph(self) -> GraphFeatures:
        """What to make a graph over the rows from."""
        if self.graph_features is not None:
            return GraphFeatures(self.graph_features, apart=True)
        if isinstance(self.rows.features, DatasetRows):
            raise ValueError(
                "this method looks for similar rows, which needs features as a matrix, and X is a Dataset: pass an "
                f"array of {self.rows.n_samples} rows as graph_features in fit, such as what a trained network says."
            )
        return GraphFeatures(self.rows.features, apart=False)

    @property
    def n_labels(self) -> int:
        """Number of labels c."""
        return int(self.rows.observed.shape[1])

    @property
    def full_validation(self) -> NDArray[np.int8] | None:
        """Fully labelled validation labels, if there are any."""
        return self.held.observed if self.held is not None and self.held.full else None
