"""Several rankings of the labels pooled into one, weighted by how well they tell which label was observed.

Single positives determine P(observed = j | x) and nothing else, so that is what members are judged by. A member's
logits z_m, standardised within each row, become probabilities q_m = softmax(τ_m z_m); the pool is p = Σ_m w_m q_m with
weights that add up to one. Both τ and w maximise the likelihood of held-out observed labels. A likelihood uses all
labels of a row; ranks of single labels, on a few hundred rows, mostly measure luck, and choosing by them overfits.

Probabilities are added, not logits: a poor member with a small weight then hardly moves the head of the ranking, while
in a sum of logits it moves every label.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logsumexp

#: Each member counts as if it had told so many rows: with few held-out rows weights stay alike.
PRIOR_ROWS = 1.0
_MOST_STEPS = 1000
_LARGEST_LOG_TEMPERATURE = 8.0


def standardize_rows(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Shift and stretch every row to mean 0 and deviation 1: methods differ in the scale of their logits.

    Rows without a preference become zeros.
    """
    values = np.asarray(logits, dtype=np.float64)
    centred = values - values.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1, keepdims=True)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def inverse_temperature(scores: NDArray[np.float64], observed: NDArray[Any]) -> tuple[float, float]:
    """Return τ > 0 for which softmax(τ·scores) gives the observed labels their highest mean log-likelihood, and that.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
    observed : array of shape (n_samples, n_labels)
        1 where a label was observed; several share a row's weight, rows without one do not count.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(4000, 5))
    >>> seen = np.eye(5)[[rng.choice(5, p=np.exp(log_softmax(2 * row))) for row in scores]]
    >>> round(inverse_temperature(scores, seen)[0], 1)
    2.0
    """
    rows, labels, share = _cases(observed)

    def loss(log_factor: float) -> float:
        return -float(share @ log_softmax(np.exp(log_factor) * scores, axis=1)[rows, labels]) / float(share.sum())

    # Concave in τ, hence with one peak in log τ: an interval is enough to find it.
    span = (-_LARGEST_LOG_TEMPERATURE, _LARGEST_LOG_TEMPERATURE)
    found = minimize_scalar(loss, bounds=span, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x)), -float(found.fun)


def pool_weights(
    log_probabilities: NDArray[np.float64], observed: NDArray[Any], *, prior_rows: float = PRIOR_ROWS
) -> tuple[NDArray[np.float64], float]:
    """Return the weights of Σ_m w_m q_m that make the observed labels most likely, and the mean log-likelihood reached.

    Expectation and maximisation in turn; with ``prior_rows`` (Dirichlet's concentration less one) no weight is zero.

    Parameters
    ----------
    log_probabilities : array of shape (n_members, n_samples, n_labels)
    observed : array of shape (n_samples, n_labels)
        As for ``inverse_temperature``.
    prior_rows : float
        Rows that each member is taken to have told beforehand.

    Examples
    --------
    >>> right, wrong = np.log([[0.8, 0.2]] * 10), np.log([[0.2, 0.8]] * 10)
    >>> seen = np.eye(2)[[0] * 8 + [1] * 2]
    >>> pool_weights(np.stack([right, wrong]), seen, prior_rows=0.0)[0].round(3).tolist()
    [1.0, 0.0]
    """
    rows, labels, share = _cases(observed)
    at_observed = log_probabilities[:, rows, labels]  # (n_members, n_cases)
    n_members = len(at_observed)
    weights = np.full(n_members, 1.0 / n_members)
    for _ in range(_MOST_STEPS):
        with np.errstate(divide="ignore"):  # without a prior a weight may reach zero, and stays there
            joint = at_observed + np.log(weights)[:, None]
        told = np.exp(joint - logsumexp(joint, axis=0)) @ share  # rows that each member explains
        new = (told + prior_rows) / (share.sum() + n_members * prior_rows)
        moved = float(np.abs(new - weights).max())
        weights = new
        if moved < 1e-9:
            break
    with np.errstate(divide="ignore"):
        reached = logsumexp(at_observed + np.log(weights)[:, None], axis=0) @ share / share.sum()
    return weights, float(reached)


def pool(log_probabilities: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of Σ_m w_m q_m, shape (n_samples, n_labels)."""
    return np.asarray(logsumexp(log_probabilities, axis=0, b=weights[:, None, None]))


def _cases(observed: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Row, label and share of every observed label: a row's labels share its weight."""
    positives = np.asarray(observed) > 0
    rows, labels = np.nonzero(positives)
    if not len(rows):
        raise ValueError("no row has an observed label: there is nothing to weigh the members by.")
    return rows, labels, 1.0 / positives.sum(axis=1)[rows]


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
