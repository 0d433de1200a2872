"""How often a label is there, from rows on which it was observed: the top-bin estimator of CRISP.

**Derivation.** Fix a label. Let f be any score, π = P(y = 1) and, for a threshold z,

    q(z) = P(f ≥ z),    q⁺(z) = P(f ≥ z | y = 1),    q⁻(z) = P(f ≥ z | y = 0).

Then q(z) = π·q⁺(z) + (1−π)·q⁻(z) ≥ π·q⁺(z): every ratio q(z)/q⁺(z) is an upper bound on π, and is π itself
where q⁻(z) = 0, i.e. where the rows that score at least z (the top bin) are all positive. q can be counted on all
rows, q⁺ on a sample of positives, and the bound that is smallest is the best. But counts at a high z are few, and the
smallest of many noisy ratios is too small. By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, each with
probability 1 − δ/2 and for all z at once,

    |q̂(z) − q(z)| ≤ a = √(ln(4/δ)/(2n)),    |q̂⁺(z) − q⁺(z)| ≤ b = √(ln(4/δ)/(2n⁺)),

so that, with r = q/q⁺ and r̂ = q̂/q̂⁺, |r̂ − r| = |(q̂ − q) + r·(q⁺ − q̂⁺)|/q̂⁺ ≤ (a + r·b)/q̂⁺ ≤ (a + b)/q̂⁺ wherever
the ratio is at most 1. The threshold minimises the ratio plus that much, slightly enlarged,

    ẑ = argmin over z of q̂(z)/q̂⁺(z) + (1+τ)·(a + b)/q̂⁺(z),    π̂ = q̂(ẑ)/q̂⁺(ẑ),

and π̂ → π at the rate of a + b if some top bin with q⁺ > 0 is pure and the positives are a random sample of all.

**Under uniform selection** they are not. A row with the label shows it with probability e(x) = E[1/|Y| | x, y = 1], so
that rows with few labels are seen too often. Counted on observed rows, q̂⁺(z) tends to q⁺(z)·E[e | y=1, f≥z]/E[e | y=1],
and the estimate from a pure top bin to π·E[e | y=1]/E[e | y=1, f≥z]: too small where the surest rows have fewer labels
than others with the label, too large where they have more. Weighting observed rows by 1/e(x) undoes it, whatever the
scale of e; for n⁺ stands the effective number of rows, (Σw)²/Σw².
"""

import math

import numpy as np
from numpy.typing import NDArray


def class_prior(
    scores: NDArray[np.floating],
    positive: NDArray[np.bool_],
    weights: NDArray[np.floating] | None = None,
    *,
    confidence: float = 0.01,
    slack: float = 0.01,
) -> float:
    """Estimate the share of rows that have a label.

    Parameters
    ----------
    scores : array of shape (n_samples,)
        f(x) of all rows; rows with the label should score high.
    positive : bool array of shape (n_samples,)
        Rows on which the label was observed.
    weights : array of shape (n_positive,), optional
        1/e(x) of the observed rows, up to a factor; without them, all alike.
    confidence, slack : float
        δ and τ.

    Returns
    -------
    float
        At least the share of rows on which the label was observed, for there it is; at most 1. 0 if on none.

    Examples
    --------
    A fifth of the rows score ½ or more and have the label; it was observed on every second of them:

    >>> scores = np.concatenate([np.linspace(0.5, 1.0, 2000), np.linspace(0.0, 0.4, 8000)])
    >>> observed = (np.arange(10_000) < 2000) & (np.arange(10_000) % 2 == 0)
    >>> round(class_prior(scores, observed), 3)
    0.2
    """
    n_samples, n_positive = len(scores), int(positive.sum())
    if n_positive == 0:
        return 0.0
    weights = np.ones(n_positive) if weights is None else np.asarray(weights, dtype=np.float64)
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    shares = np.zeros(n_samples)
    shares[positive] = weights / weights.sum()
    # A threshold takes all rows of equal score or none: count up to the last row of each score.
    last = np.append(ranked[1:] != ranked[:-1], True)
    above = (np.flatnonzero(last) + 1) / n_samples
    above_positive = np.cumsum(shares[order])[last]
    counted = above_positive > 0
    above, above_positive = above[counted], above_positive[counted]
    effective = weights.sum() ** 2 / np.square(weights).sum()
    radius = math.sqrt(math.log(4.0 / confidence) / 2.0) * (n_samples**-0.5 + effective**-0.5)
    best = int(np.argmin((above + (1.0 + slack) * radius) / above_positive))
    return float(np.clip(above[best] / above_positive[best], n_positive / n_samples, 1.0))
