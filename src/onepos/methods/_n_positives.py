"""k, the expected number of positives, for methods that train towards it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos._utils.deadline import time_left
from onepos.graph.exact import nearest_neighbors
from onepos.label_sets.cardinality import resolve_n_positives
from onepos.methods._neural import Context


def estimate_n_positives(X: Any, observed: NDArray[np.int8]) -> float:
    """Estimate the mean number of positives of a row between its two bounds: 1 and the inverse agreement.

    Let S be a row's hidden label set and let the observed label be drawn from S uniformly. Two rows then show the
    same label with probability |S ∩ S'| / (|S||S'|) ≤ 1/|S|. So for any pairing of rows the rate of agreement A has
    E[A] ≤ E[1/|S|], and the harmonic mean of |S| lies between 1 and 1/A. The bound is sharp where paired rows have
    equal sets; nearest neighbours come closest to that. Nothing in the data tells where between its bounds the number
    lies, and the geometric mean √(1/A) has the smallest worst-case ratio to it.

    X are scaled features; each row of ``observed`` has a positive. A is the agreement of nearest neighbours or that of
    random pairs, whichever is larger. The result lies between 1 and √c.

    Examples
    --------
    >>> X = np.repeat([[0.0], [9.0]], 2, axis=0)
    >>> estimate_n_positives(X, np.eye(2, dtype=np.int8)[[0, 0, 1, 1]])
    1.0
    """
    n_samples, n_labels = observed.shape
    positives = (observed > 0).astype(np.float64)
    share = positives / positives.sum(axis=1, keepdims=True)  # a label drawn from those observed in the row
    if n_samples < 2:
        return 1.0
    nearest, _ = nearest_neighbors(X, 1)
    near = float(np.einsum("ij,ij->i", share, share[nearest[:, 0]]).mean())
    # Random pairs of different rows, without forming them: (‖Σ_i s_i‖² − Σ_i ‖s_i‖²) / (n (n − 1)).
    chance = float((np.square(share.sum(axis=0)).sum() - np.square(share).sum()) / (n_samples * (n_samples - 1)))
    return float(np.clip(1.0 / max(near, chance, 1.0 / n_labels), 1.0, n_labels) ** 0.5)


def expected_n_positives(given: float | str | None, context: Context, *, single_label: bool) -> tuple[float, str]:
    """Return k and where it came from: as ``resolve_n_positives``, or "estimated" if "estimate" was given.

    Without time to look for neighbours, "estimate" means the same as None.
    """
    if single_label or not isinstance(given, str) or context.rows.processes.agree(time_left() <= 0):
        number = None if isinstance(given, str) else given
        return resolve_n_positives(number, context.n_labels, context.full_validation, one_class=single_label)
    rows = context.rows
    index = rows.trainable.cpu().numpy()
    number = estimate_n_positives(context.graph.matrix[index], rows.observed.cpu().numpy()[index])
    return rows.processes.agree(number), "estimated"
