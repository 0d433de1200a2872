"""How many epochs to train for when there are too few rows to hold any out: chosen out of fold.

Each fold is left out once. What the networks say of the rows that they did not see is put together epoch by epoch, and
the epoch with the best score is the number of epochs for a last run on all rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onepos._deadline import stage
from onepos.selection import higher_is_better, selection_score

N_FOLDS = 4

#: Trains on the first rows, and returns logits of the second, before the first epoch and after each; True: Ctrl-C.
Run = Callable[[NDArray[np.intp], NDArray[np.intp]], tuple[Sequence[NDArray[np.float32]], bool]]


@dataclass(frozen=True)
class OutOfFold:
    """The number of epochs that did best, and the logits after so many, of shape (n_labelled, n_labels)."""

    n_epochs: int
    logits: NDArray[np.float32]
    interrupted: bool = False


def choose_epochs(
    run: Run, observed: NDArray[np.int8], labelled: NDArray[np.intp], metric: str, generator: np.random.Generator
) -> OutOfFold:
    """Choose among the epochs that every fold has reached; none at all is one of them, and what Ctrl-C leaves.

    Parameters
    ----------
    run : function of (rows to train on, rows left out)
    observed : array of shape (n_samples, n_labels)
    labelled : int array
        Rows with an observed positive.
    metric : str
        One of ``SELECTION_METRICS``.
    generator : numpy.random.Generator
        Deals the rows.
    """
    folds = [np.sort(part) for part in np.array_split(generator.permutation(labelled), N_FOLDS)]
    told = []
    for number, out in enumerate(folds):
        # The last run, on all rows, has its turn too.
        with stage(number / (N_FOLDS + 1), (number + 1) / (N_FOLDS + 1), time_share=1 / (N_FOLDS + 1 - number)):
            found, interrupted = run(np.setdiff1d(labelled, out, assume_unique=True), out)
        if interrupted:  # one Ctrl-C, one end
            return OutOfFold(0, np.empty((0, observed.shape[1]), dtype=np.float32), interrupted=True)
        told.append(found)
    truth = observed[np.concatenate(folds)]
    sign = 1.0 if higher_is_better(metric) else -1.0
    together = [np.concatenate(parts) for parts in zip(*told, strict=False)]
    scores = [sign * selection_score(metric, truth, logits) for logits in together]
    best = int(np.argmax(scores))
    return OutOfFold(best, together[best])
