"""The mean number of positive labels per example, m: the one number that single positives do not reveal."""

import numpy as np
from numpy.typing import NDArray


def default_n_positives(n_labels: int) -> float:
    """Return the stated rule when nothing is known: two positives per example, fewer if there are few labels.

    With one positive observed per row the data fix the ranking of labels but not how many are positive. Two
    is the smallest number that makes the problem multi-label; (c + 1) / 2, the middle of 1 … c, caps it.
    """
    return min(2.0, (n_labels + 1) / 2)


def resolve_n_positives(
    given: float | None,
    n_labels: int,
    full_validation: NDArray[np.int8] | None = None,
    *,
    one_class: bool = False,
) -> tuple[float, str]:
    """Return m and where it came from: "given", "one class" (a 1-D y), "validation" (fully labelled rows) or "default".

    Parameters
    ----------
    given : float or None
        The user's ``n_positives``.
    n_labels : int
        Number of labels c.
    full_validation : array of shape (n_validation, n_labels), optional
        Fully labelled validation rows; their mean count is used when nothing was given.
    one_class : bool
        True for scikit-learn's single-label contract, where every row has one class.
    """
    if given is not None:
        if not 1 <= given <= n_labels:
            raise ValueError(
                f"n_positives is the mean number of positive labels per example: between 1 and {n_labels} "
                f"(the number of labels); got {given}."
            )
        return float(given), "given"
    if one_class:
        return 1.0, "one class"
    if full_validation is not None:
        counts = (full_validation > 0).sum(axis=1)
        counts = counts[counts > 0]
        if counts.size:
            return float(counts.mean()), "validation"
    return default_n_positives(n_labels), "default"


def balanced_weight(n_positives: float) -> float:
    """Weight w* = 1/(2m − 1) of unobserved entries.

    Under uniform selection a label with probability p is observed with probability about p/m. Minimising
    ``(p/m)·(−log d) + w·(1 − p/m)·(−log(1 − d))`` gives d = (p/m) / (p/m + w(1 − p/m)); asking that p = ½
    lands at d = ½ gives w*. At m = 1 the weight is 1 and nothing changes.
    """
    return 1.0 / (2.0 * n_positives - 1.0)
