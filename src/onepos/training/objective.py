"""What a method works with: the rows of a training run, batches of them, and the objective that a method is."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos.rows.stored import DatasetRows, DiskRows
from onepos.training.machine import ALONE, Processes

#: Parameters in groups, as ``torch.optim.AdamW`` takes them; "lr" of a group is a factor on the learning rate.
Groups = list[dict[str, Any]]
#: CSR features are expanded once if the dense float32 matrix stays below this; otherwise batch by batch.
DENSE_LIMIT_BYTES = 1 << 30


def as_features(X: Any, device: str = "cpu") -> Any:
    """Return a dense float32 tensor; CSR whose dense form would be too large, and rows read as needed, as they are."""
    if isinstance(X, DiskRows | DatasetRows):
        return X
    if isinstance(X, Tensor):
        return X.to(device)
    if sparse.issparse(X):
        if 4 * X.shape[0] * X.shape[1] > DENSE_LIMIT_BYTES:
            return sparse.csr_array(X)
        X = X.toarray()
    values = np.ascontiguousarray(X, dtype=np.float32)
    # torch takes no array that it could not write to, such as a small memory map.
    return torch.from_numpy(values if values.flags.writeable else values.copy()).to(device)


def gather(features: Any, rows: Tensor) -> Tensor:
    """Rows of a dense tensor, a CSR array, a file or a Dataset, as a dense tensor on the device of ``rows``."""
    if isinstance(features, Tensor):
        return features.index_select(0, rows)
    values = features[rows.cpu().numpy()]
    return torch.from_numpy(values.toarray() if sparse.issparse(values) else values).to(rows.device)


@dataclass(frozen=True)
class Batch:
    """Rows to compute losses of: a mini-batch, or the portion of it that is computed at once.

    Attributes
    ----------
    rows : int64 Tensor of shape (batch,)
    features : Tensor of shape (batch, n_features), or with more dimensions for items of a Dataset
    observed : int8 Tensor of shape (batch, n_labels), 1 observed, 0 unknown, −1 known absent
    """

    rows: Tensor
    features: Tensor
    observed: Tensor


@dataclass
class TrainingRows:
    """Features and observed labels of all rows, and the index of those that may be trained on.

    Features are a float32 Tensor, a CSR array too large to expand, or rows on disk or in a Dataset; labels are int8, a
    Tensor or a CSR array.
    Rows to train on carry an observed positive and are not held out. Each of the processes has all labels.
    """

    features: Any
    observed: Any
    trainable: Tensor
    processes: Processes = ALONE

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        observed: Any,
        trainable: NDArray[np.intp],
        device: str = "cpu",
        processes: Processes = ALONE,
    ) -> "TrainingRows":
        """Build from scaled features (ndarray, CSR, rows on disk or in a Dataset) and int8 labels."""
        labels = observed if sparse.issparse(observed) else torch.from_numpy(observed).to(device)
        return cls(
            as_features(X, device), labels, torch.from_numpy(np.ascontiguousarray(trainable)).to(device), processes
        )

    def gather(self, rows: Tensor) -> Tensor:
        """Features of the given rows as a dense tensor."""
        return gather(self.features, rows)

    def batch(self, index: Tensor) -> Batch:
        """Return the given rows as a batch."""
        return Batch(index, gather(self.features, index), gather(self.observed, index))


class Objective(nn.Module):
    """A predictive network and the losses that train it.

    Subclasses yield one or more named losses per batch. The loop takes one optimiser step after each, on the parameters
    that ``trained_by`` names, so a generator that yields twice alternates: code after the first ``yield`` sees
    parameters already updated.

    An objective knows nothing about portions of a batch or other processes. A loss that looks at its batch as a whole,
    such as a mean number of positives, looks at the portion that it is given.
    """

    #: Names of the tensors that ``running_state`` returns.
    running: ClassVar[tuple[str, ...]] = ()

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.epoch = 0

    def begin_epoch(self, epoch: int) -> None:
        """Note the 0-based epoch; methods with a schedule act on it."""
        self.epoch = epoch

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, scalar loss) for each step to take on this batch."""
        raise NotImplementedError(f"{type(self).__name__} must say what its losses are.")

    def trained_by(self, loss: str) -> Groups:
        """Return the parameters that the named loss trains."""
        return [{"params": list(self.parameters())}]

    def end_epoch(self, waited: int | None) -> bool:
        """Note how many epochs ago the best one was, None without scores; True asks to go on from its network."""
        return False

    def row_state(self) -> list[Tensor]:
        """Return tensors with an entry per row that ``losses`` writes for its batch; processes exchange them."""
        return []

    def running_state(self) -> dict[str, Tensor]:
        """Return what training needs beside ``state_dict`` to go on from a checkpoint as if it had not stopped."""
        return {name: getattr(self, name) for name in self.running if getattr(self, name, None) is not None}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``running_state`` gave, on the CPU, after ``load_state_dict``."""
        for name, value in Objective.running_state(self).items():
            setattr(self, name, state[name].to(value))

    def describe_epoch(self) -> dict[str, float]:
        """Return further numbers for the history, evaluated once per epoch."""
        return {}


class LossObjective(Objective):
    """One loss per batch, of logits and observed labels, (batch, n_labels) each, and the numbers of the epoch."""

    def __init__(
        self, network: nn.Module, name: str, loss: Callable[..., Tensor], by_epoch: Callable[[int], Any] = lambda _: {}
    ) -> None:
        super().__init__(network)
        self.name, self.loss, self.by_epoch = name, loss, by_epoch

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        yield self.name, self.loss(self.network(batch.features), batch.observed, **self.by_epoch(self.epoch))
