"""Which rows the members of ``auto`` are trained on and which they are judged by.

Labelled rows are dealt into folds. Each candidate is trained without a fold and judged by the observed labels of that
fold. The only row of a label is in every training part.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.methods._base import hold_out
from onepos.rows.stored import take

#: With fewer labelled rows than this none is held out, and members count alike.
FEWEST_TO_JUDGE = 50
#: Folds when the caller does not say how many.
FOLDS = 8
#: Most entries (rows × labels) of a fold that are kept to judge by.
_MOST_JUDGED = 500_000


@dataclass(frozen=True)
class Fold:
    """Positions of training rows, of rows held out, and the held-out labels that judge."""

    train: NDArray[np.intp]
    held: NDArray[np.intp]


@dataclass(frozen=True)
class Folds:
    """Labelled rows with their folds, in the order in which they are used; none if rows are too few to judge.

    ``judges`` are features and labels of a completely labelled validation set, which then judges alone.
    """

    features: Any
    observed: NDArray[np.int8]
    folds: list[Fold]
    judges: tuple[Any, NDArray[np.int8]] | None = None

    def __len__(self) -> int:
        return 1 if self.judges is not None else len(self.folds)

    def train(self, fold: int) -> tuple[Any, NDArray[np.int8]]:
        """Features and labels to train on without a fold."""
        if self.judges is not None:
            return self.features, self.observed
        rows = self.folds[fold].train
        return take(self.features, rows), self.observed[rows]

    def held(self, fold: int) -> tuple[Any, NDArray[np.int8]]:
        """Features and labels to judge by."""
        if self.judges is not None:
            return self.judges
        rows = self.folds[fold].held
        return take(self.features, rows), self.observed[rows]

    @cached_property
    def sizes(self) -> list[int]:
        """Rows that judge, by fold."""
        return [len(self.judges[1])] if self.judges is not None else [len(fold.held) for fold in self.folds]

    def labels(self, n_folds: int) -> NDArray[np.int8]:
        """Observed labels of the first folds."""
        if self.judges is not None:
            return self.judges[1]
        rows = np.concatenate([fold.held for fold in self.folds[:n_folds]])
        return np.asarray(self.observed[rows])


def deal(
    features: Any,
    observed: NDArray[np.int8],
    given: tuple[Any, NDArray[np.int8]] | None,
    *,
    complete: bool,
    n_folds: int | None,
    fraction: float,
    generator: np.random.Generator,
) -> Folds:
    """Deal labelled rows into folds; one fold holds out ``fraction`` of the rows.

    ``given`` are the caller's validation rows. If their labels are ``complete`` they judge alone; otherwise they are
    dealt with the others.
    """
    if given is not None and not complete:
        features, observed = _below(features, given[0]), np.concatenate([observed, given[1]])
    labelled = np.flatnonzero((observed > 0).any(axis=1))
    if len(labelled) < len(observed):
        features, observed = take(features, labelled), observed[labelled]
    if given is not None and complete:
        return Folds(features, observed, [], given)
    everything = np.arange(len(observed))
    if len(observed) < max(FEWEST_TO_JUDGE, 2 * int((observed > 0).any(axis=0).sum())):
        return Folds(features, observed, [])
    n_folds = FOLDS if n_folds is None else n_folds
    _, spare = hold_out(observed, everything, fraction if n_folds == 1 else 1.0, generator)
    dealt = generator.permutation(spare)
    most = max(200, _MOST_JUDGED // observed.shape[1])
    folds = []
    for place in range(n_folds):
        held = np.sort(dealt[place::n_folds][:most])
        folds.append(Fold(np.setdiff1d(everything, held, assume_unique=True), held))
    return Folds(features, observed, folds)


def _below(first: Any, second: Any) -> Any:
    """Rows of ``second`` below those of ``first``; sparse if the first are."""
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, sparse.csr_array(second)]))
    dense = second.toarray() if sparse.issparse(second) else second
    return np.concatenate([first, dense])
