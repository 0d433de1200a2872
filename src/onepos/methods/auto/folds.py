"""Which rows the members of ``auto`` are trained on and which they are judged by.

Labelled rows are dealt into folds. Each candidate is trained without a fold and judged by the observed labels of that
fold. The only row of a label is in every training part.
"""

from dataclasses import dataclass
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
class Folds:
    """Labelled rows with their folds, in the order in which they are used; none if rows are too few to judge.

    ``parts`` has the training rows and the held-out rows of each fold. ``judges`` are features and labels of a
    completely labelled validation set, which then judges alone.
    """

    features: Any
    observed: NDArray[np.int8]
    parts: list[tuple[NDArray[np.intp], NDArray[np.intp]]]
    judges: tuple[Any, NDArray[np.int8]] | None = None

    def __len__(self) -> int:
        return 1 if self.judges is not None else len(self.parts)

    def train(self, fold: int) -> tuple[Any, NDArray[np.int8]]:
        """Features and labels to train on without a fold; all of them if nothing is held out."""
        if not self.parts:
            return self.features, self.observed
        rows, _ = self.parts[fold]
        return take(self.features, rows), self.observed[rows]

    def held(self, fold: int) -> tuple[Any, NDArray[np.int8]]:
        """Features and labels to judge by."""
        if self.judges is not None:
            return self.judges
        _, rows = self.parts[fold]
        return take(self.features, rows), self.observed[rows]

    def labels(self, n_folds: int) -> NDArray[np.int8]:
        """Labels of the held-out rows of the first folds."""
        if self.judges is not None:
            return self.judges[1]
        return np.concatenate([self.observed[rows] for _, rows in self.parts[:n_folds]])


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
    held = [np.sort(dealt[place::n_folds][:most]) for place in range(n_folds)]
    parts = [(np.setdiff1d(everything, rows, assume_unique=True), rows) for rows in held]
    return Folds(features, observed, parts)


def _below(first: Any, second: Any) -> Any:
    """Rows of ``second`` below those of ``first``; sparse if the first are."""
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, sparse.csr_array(second)]))
    dense = second.toarray() if sparse.issparse(second) else second
    return np.concatenate([first, dense])
