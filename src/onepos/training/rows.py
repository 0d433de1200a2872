"""The training set of the loop: features, labels, the rows to train on, and batches of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepos.rows.tensors import as_features, gather, on_device
from onepos.training.objective import Batch
from onepos.training.processes import ALONE, Processes


@dataclass
class Rows:
    """Features and observed labels of all rows, and the index of those that may be trained on.

    Attributes
    ----------
    features : float32 Tensor (n_samples, n_features), a CSR array too large to expand, rows on disk or in a Dataset
    observed : int8 Tensor (n_samples, n_labels)
    trainable : int64 Tensor
        Rows that carry an observed positive and are not held out.
    processes : Processes
        The processes that train on them. Each has all labels and reads the features that it needs.
    """

    features: Any
    observed: Tensor
    trainable: Tensor
    processes: Processes = ALONE

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        observed: NDArray[np.int8],
        trainable: NDArray[np.intp],
        device: str = "cpu",
        processes: Processes = ALONE,
    ) -> "Rows":
        """Build from scaled features (ndarray, CSR, rows on disk or in a Dataset) and int8 labels."""
        labels, index = torch.from_numpy(observed), torch.from_numpy(np.ascontiguousarray(trainable))
        return cls(on_device(as_features(X), device), labels.to(device), index.to(device), processes)

    def gather(self, rows: Tensor) -> Tensor:
        """Features of the given rows as a dense tensor."""
        return gather(self.features, rows)

    def batch(self, index: Tensor, number: int = 0) -> Batch:
        """Return the given rows as a batch."""
        return Batch(index, self.gather(index), self.observed.index_select(0, index), number)

    @property
    def n_samples(self) -> int:
        """Number of rows, trainable or not."""
        return int(self.observed.shape[0])
