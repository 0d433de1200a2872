"""Several rankings of the labels combined into one, weighted by how well they tell which label was observed.

Single positives determine P(observed = j | x) and nothing else, so that is what members are judged by: the combined
scores s = Σ_m w_m z_m, with z_m a member's logits standardised within each row, shall give the observed label a high
likelihood under softmax(s). A likelihood uses all labels of a row; ranks of single labels, on a few hundred rows,
mostly measure luck, and choosing by them overfits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

#: The pull of weights towards their mean counts as much as so many rows do. On development splits of four sets a pull
#: that does not fall with the number of rows was too weak for the smallest or too strong for the largest.
SHRINKAGE_ROWS = 100.0


def standardize_rows(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Shift and stretch every row to mean 0 and deviation 1: methods differ in the scale of their logits.

    Rows without a preference become zeros.
    """
    values = np.asarray(logits, dtype=np.float64)
    centred = values - values.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1, keepdims=True)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def stacking_weights(
    members: NDArray[np.float64], observed: NDArray[Any], *, shrinkage: float | None = None
) -> tuple[NDArray[np.float64], float]:
    """Return weights w ≥ 0 that maximise the mean log-likelihood of the observed labels, and that likelihood.

    Parameters
    ----------
    members : array of shape (n_members, n_samples, n_labels)
        Logits that ``standardize_rows`` has seen.
    observed : array of shape (n_samples, n_labels)
        1 where a label was observed; several share a row's weight, rows without one do not count.
    shrinkage : float, optional
        Factor of Σ (w_m − w̄)², which keeps weights alike unless the rows speak clearly; default: 100 / n_samples. The
        sum of the weights stays free: it says how sure the combination is.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=(2000, 5))
    >>> seen = np.eye(5)[[rng.choice(5, p=np.exp(log_softmax(2 * row))) for row in truth]]
    >>> noise = rng.normal(size=truth.shape)
    >>> weights, _ = stacking_weights(np.stack([truth, noise]), seen, shrinkage=0.0)
    >>> [round(float(w), 1) for w in weights]
    [2.0, 0.0]
    """
    positives = np.asarray(observed) > 0
    rows = np.flatnonzero(positives.any(axis=1))
    if not len(rows):
        raise ValueError("no row has an observed label: there is nothing to weigh the members by.")
    pull = SHRINKAGE_ROWS / len(rows) if shrinkage is None else shrinkage
    share = positives[rows] / positives[rows].sum(axis=1, keepdims=True)
    scores = members[:, rows]
    at_observed = np.einsum("mnc,nc->m", scores, share) / len(rows)

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_p = log_softmax(np.tensordot(weights, scores, axes=1), axis=1)
        expected = np.einsum("mnc,nc->m", scores, np.exp(log_p)) / len(rows)
        spread = weights - weights.mean()
        value = -np.einsum("nc,nc->", share, log_p) / len(rows) + pull * spread @ spread
        return float(value), expected - at_observed + 2.0 * pull * spread

    start = np.full(len(members), 1.0 / len(members))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(members))
    log_p = log_softmax(np.tensordot(found.x, scores, axes=1), axis=1)
    return found.x, float(np.einsum("nc,nc->", share, log_p) / len(rows))


def marginal_logits(scores: NDArray[np.float64], n_positives: float) -> NDArray[np.float64]:
    """Shift every row of scores so that its probabilities sigmoid(s + b) add up to ``n_positives``.

    The order of labels stays. How many labels a row has is not in the data; it is an assumption, the same for all rows.

    Examples
    --------
    >>> logits = marginal_logits(np.array([[2.0, 0.0, -1.0, -1.0]]), 2.0)
    >>> round(float(expit(logits).sum()), 6)
    2.0
    """
    n_labels = scores.shape[1]
    if n_positives >= n_labels:
        raise ValueError(f"of {n_labels} labels a mean of {n_positives} cannot be positive: give fewer.")
    # The sum grows with the shift and is bracketed by the shifts at which the largest or smallest score alone is at
    # the mean; bisection then halves the bracket to the last bits.
    level = np.log(n_positives / (n_labels - n_positives))
    low = level - scores.max(axis=1, keepdims=True)
    high = level - scores.min(axis=1, keepdims=True)
    for _ in range(60):
        middle = 0.5 * (low + high)
        too_high = expit(scores + middle).sum(axis=1, keepdims=True) > n_positives
        high = np.where(too_high, middle, high)
        low = np.where(too_high, low, middle)
    return np.asarray(scores + 0.5 * (low + high))
