"""Several rankings of the labels pooled into one, weighted by how well they tell which label was observed.

Single positives determine P(observed = j | x) and nothing else. Members are judged by it. A member's scores z_m become
probabilities q_m = softmax(τ_m z_m). The pool is p = Σ_m w_m q_m with weights that add up to one. Both τ and w maximise
the likelihood of held-out observed labels. Choosing by the ranks of a few hundred labels would overfit.

Probabilities are added, not logits: a poor member with a small weight then hardly moves the head of the ranking.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logsumexp

from onepos._utils.validation import cases

#: Rows that each member is taken to have explained beforehand: with few held-out rows weights stay alike.
PRIOR_ROWS = 1.0
_MOST_STEPS = 1000
_LARGEST_LOG_TEMPERATURE = 8.0
_TEMPERATURE_TOLERANCE = 1e-6
#: Numbers that a block of rows has while its level is found, and differences of scores whose exponentials are finite.
_BLOCK, _LARGEST_SPREAD = 1 << 16, 300.0


def standardize_rows(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Shift and stretch every row to mean 0 and deviation 1; constant rows become zeros."""
    values = np.asarray(logits, dtype=np.float64)
    centred = values - values.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1, keepdims=True)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def inverse_temperature(scores: NDArray[np.float64], observed: NDArray[Any]) -> tuple[float, float]:
    """Return τ > 0 for which softmax(τ·scores) gives the observed labels their highest mean log-likelihood, and that.

    Both arrays have shape (n_samples, n_labels). ``observed`` is 1 where a label was observed. Several labels share the
    weight of their row; rows without one do not count.

    Examples
    --------
    >>> from scipy.special import log_softmax
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(4000, 5))
    >>> seen = np.eye(5)[[rng.choice(5, p=np.exp(log_softmax(2 * row))) for row in scores]]
    >>> round(inverse_temperature(scores, seen)[0], 1)
    2.0
    """
    rows, labels, share = _cases(observed)
    share = share / share.sum()
    scores = np.asarray(scores, dtype=np.float64)
    at_tags = scores[rows, labels]
    # The likelihood is concave in τ. Newton's steps in log τ stay between the two places where the slope changes its
    # sign; a step that would leave them goes to their middle.
    low, high, factor = -_LARGEST_LOG_TEMPERATURE, _LARGEST_LOG_TEMPERATURE, 0.0
    for _ in range(_MOST_STEPS):
        tau = np.exp(factor)
        log_total, mean, variance = _moments(tau, scores)
        slope = float(share @ (at_tags - mean[rows]))
        if slope > 0:
            low = factor
        else:
            high = factor
        # In log τ the first derivative is τ·slope, the second τ·slope − τ²·variance.
        curvature = tau * slope - tau * tau * float(share @ variance[rows])
        step = -tau * slope / curvature if curvature < 0 else np.inf
        following = factor + step if low < factor + step < high else 0.5 * (low + high)
        if abs(following - factor) < _TEMPERATURE_TOLERANCE:
            break
        factor = following
    return float(tau), float(share @ (tau * at_tags - log_total[rows]))


def _moments(tau: float, scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Return log Σ exp(τs) of each row, and mean and variance of s under softmax(τs)."""
    shifted = tau * scores
    top = shifted.max(axis=1)
    p = np.exp(shifted - top[:, None], out=shifted)
    total = p.sum(axis=1)
    mean = np.einsum("ij,ij->i", p, scores) / total
    square = np.einsum("ij,ij,ij->i", p, scores, scores) / total
    return top + np.log(total), mean, np.maximum(square - mean * mean, 0.0)


def at_observed(log_probabilities: NDArray[np.float64], observed: NDArray[Any]) -> NDArray[np.float64]:
    """Pick the observed labels, row by row: (…, n_cases) from (…, n_samples, n_labels)."""
    rows, labels, _ = _cases(observed)
    return np.asarray(log_probabilities[..., rows, labels])


def pool_weights(
    log_p: NDArray[np.float64], observed: NDArray[Any], *, prior_rows: float | NDArray[np.float64] = PRIOR_ROWS
) -> tuple[NDArray[np.float64], float]:
    """Return the weights of Σ_m w_m q_m that make the observed labels most likely, and the mean log-likelihood reached.

    ``log_p`` is ``at_observed`` of each member, shape (n_members, n_cases); ``observed`` is as for
    ``inverse_temperature``. Expectation and maximisation alternate. With ``prior_rows`` (Dirichlet's concentration less
    one, for all members or for each) no weight is zero.

    Examples
    --------
    >>> right, wrong = np.log([[0.8, 0.2]] * 10), np.log([[0.2, 0.8]] * 10)
    >>> seen = np.eye(2)[[0] * 8 + [1] * 2]
    >>> pool_weights(at_observed(np.stack([right, wrong]), seen), seen, prior_rows=0.0)[0].round(3).tolist()
    [1.0, 0.0]
    """
    _, _, share = _cases(observed)
    n_members = len(log_p)
    weights = np.full(n_members, 1.0 / n_members)
    for _ in range(_MOST_STEPS):
        with np.errstate(divide="ignore"):  # without a prior a weight may reach zero, and stays there
            joint = log_p + np.log(weights)[:, None]
        explained = np.exp(joint - logsumexp(joint, axis=0)) @ share  # rows that each member explains
        new = explained + prior_rows
        new /= new.sum()
        moved = float(np.abs(new - weights).max())
        weights = new
        if moved < 1e-9:
            break
    with np.errstate(divide="ignore"):
        reached = logsumexp(log_p + np.log(weights)[:, None], axis=0) @ share / share.sum()
    return weights, float(reached)


def pool(log_probabilities: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log Σ_m w_m q_m, shape (n_samples, n_labels)."""
    return np.asarray(logsumexp(log_probabilities, axis=0, b=weights[:, None, None]))


def _cases(observed: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return ``cases``, at least one."""
    rows, labels, share = cases(observed if sparse.issparse(observed) else np.asarray(observed))
    if not len(rows):
        raise ValueError("no row has an observed label, so members cannot be weighted; pass rows with labels.")
    return rows, labels, share


def marginal_logits(scores: NDArray[np.float64], n_positives: float) -> NDArray[np.float64]:
    """Shift every row of scores so that its probabilities sigmoid(s + b) add up to ``n_positives``.

    The order of labels stays. The number of labels per row is an assumption, the same for all rows.

    Examples
    --------
    >>> logits = marginal_logits(np.array([[2.0, 0.0, -1.0, -1.0]]), 2.0)
    >>> round(float(expit(logits).sum()), 6)
    2.0
    """
    n_labels = scores.shape[1]
    if n_positives >= n_labels:
        raise ValueError(f"n_positives must be below {n_labels}, the number of labels; got {n_positives}: give fewer.")
    shifted = np.empty(scores.shape)
    step = max(1, _BLOCK // n_labels)
    for start in range(0, len(scores), step):
        part = np.asarray(scores[start : start + step], dtype=np.float64)
        np.add(part, _shift(part, n_positives), out=shifted[start : start + step])
    return shifted


def _shift(scores: NDArray[np.float64], n_positives: float) -> NDArray[np.float64]:
    """Return what ``marginal_logits`` adds to each row, shape (n_samples, 1)."""
    # cardinality_shift of training/losses.py is the same iteration in torch: one for both would import torch here.
    # The sum grows with the shift. The shifts at which the largest or the smallest score alone is at the mean bracket
    # it. Newton's steps; a step that leaves the bracket goes to its middle.
    n_labels = scores.shape[1]
    level = np.log(n_positives / (n_labels - n_positives))
    highest = scores.max(axis=1, keepdims=True)
    high = level - scores.min(axis=1, keepdims=True)
    low = level - highest
    # σ(u) < exp(u): a closer bound where all probabilities are small.
    low = np.maximum(low, np.log(n_positives) - logsumexp(scores, axis=1, keepdims=True))
    shift = low = np.minimum(low, high)
    odds = None if (high - low).max(initial=0.0) > _LARGEST_SPREAD else np.exp(scores - highest)
    for _ in range(_MOST_STEPS):
        if odds is None:
            p = expit(scores + shift)
        else:  # the same, several times as fast
            p = odds * np.exp(shift + highest)
            p /= 1.0 + p
        excess = p.sum(axis=1, keepdims=True) - n_positives
        if not (np.abs(excess) > 1e-13 * n_labels).any():
            break
        low, high = np.where(excess < 0, shift, low), np.where(excess > 0, shift, high)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # where all p are 0 or 1
            newton = shift - excess / (p * (1.0 - p)).sum(axis=1, keepdims=True)
        following = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        if (following == shift).all():
            break
        shift = following
    return np.asarray(shift)
