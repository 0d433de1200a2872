"""Synthetic data whose p(y | x) is known exactly."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from onepos._utils.random import generator
from onepos._utils.validation import FloatArray
from onepos.datasets._single_positive import make_single_positive

_BISECTIONS = 60
_BRACKET = 50.0


def make_known_posterior(
    n_samples: int = 1000,
    n_features: int = 20,
    n_labels: int = 10,
    *,
    n_positives: float = 2.0,
    signal: float = 2.0,
    nonempty: bool = True,
    random_state: Any = None,
) -> Any:
    """Make data from a model in which every label's probability is known.

    Features are standard normal. Given x, labels are independent, label j with probability
    p_j(x) = sigmoid(w_j · x + b_j); w_j is drawn with length about ``signal``, b_j varies from label to
    label, and one shift of all b_j is calibrated on the drawn X so that a row has ``n_positives``
    positives on average. With ``nonempty`` the label vector is drawn from the same model conditioned on
    having at least one positive; its marginals are then p_j / (1 − Π_k (1 − p_k)), and that is the
    ``posterior`` returned (the labels are no longer independent).

    Parameters
    ----------
    n_samples, n_features, n_labels : int, default=1000, 20, 10
    n_positives : float, default=2.0
        Mean number of positives per row: below ``n_labels``, and above 1 with ``nonempty``, else above 0.
    signal : float, default=2.0
        Standard deviation of w_j · x: how much the features tell.
    nonempty : bool, default=True
        Condition on at least one positive. Otherwise rows without one occur, and their row of
        ``observed`` is all zero.
    random_state : None, int, Generator or RandomState

    Returns
    -------
    sklearn.utils.Bunch
        ``X`` float32 (n_samples, n_features); ``Y`` uint8 (n_samples, n_labels), all labels; ``observed``
        uint8 (n_samples, n_labels), one positive per row, uniform among them; ``posterior`` float64
        (n_samples, n_labels), P(Y_ij = 1 | x_i); ``probabilities`` float64, p_j(x_i) before conditioning;
        ``weights`` float64 (n_labels, n_features) and ``intercepts`` float64 (n_labels,).
    """
    from sklearn.utils import Bunch

    _check(n_samples, n_features, n_labels, n_positives, signal, nonempty)
    rng = generator(random_state)
    # Rounded to float32 first, so that the posterior is that of the X handed out.
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    weights = rng.standard_normal((n_labels, n_features)) * (signal / np.sqrt(n_features))
    logits = X.astype(np.float64) @ weights.T
    offsets = rng.standard_normal(n_labels)

    def mean_positives(shift: float) -> float:
        p = expit(logits + offsets + shift)
        return float((_conditional(p) if nonempty else p).sum(axis=1).mean())

    intercepts = offsets + _solve(mean_positives, n_positives)
    probabilities: NDArray[np.float64] = np.asarray(expit(logits + intercepts), dtype=np.float64)
    Y = _draw_nonempty(rng, probabilities) if nonempty else _draw(rng, probabilities)
    observed: NDArray[np.uint8] = np.zeros_like(Y)
    labelled = Y.any(axis=1)
    observed[labelled] = make_single_positive(Y[labelled], random_state=rng)
    return Bunch(
        X=X,
        Y=Y,
        observed=observed,
        posterior=_conditional(probabilities) if nonempty else probabilities.copy(),
        probabilities=probabilities,
        weights=weights,
        intercepts=intercepts,
    )


def _check(n_samples: int, n_features: int, n_labels: int, n_positives: float, signal: float, nonempty: bool) -> None:
    for name, value in (("n_samples", n_samples), ("n_features", n_features), ("n_labels", n_labels)):
        if not (isinstance(value, int | np.integer) and value > 0):
            raise ValueError(f"{name} must be a whole number above 0; got {value!r}.")
    lowest = 1 if nonempty else 0
    if not lowest < n_positives < n_labels:
        raise ValueError(
            f"n_positives must lie between {lowest} and n_labels={n_labels}, both excluded, with nonempty="
            f"{nonempty}; got {n_positives!r}."
        )
    if not (np.isfinite(signal) and signal >= 0):
        raise ValueError(f"signal must be a finite number, at least 0; got {signal!r}.")


def _conditional(p: FloatArray) -> NDArray[np.float64]:
    """Return P(Y_j = 1 | at least one positive) for independent labels, shape as ``p``."""
    nonempty = -np.expm1(np.log1p(-_below_one(p)).sum(axis=1, keepdims=True))
    return np.asarray(p / nonempty, dtype=np.float64)


def _solve(function: Callable[[float], float], target: float) -> float:
    """Find where an increasing function of the shift reaches the target, by bisection."""
    low, high = -_BRACKET, _BRACKET
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return (low + high) / 2


def _draw(rng: np.random.Generator, p: FloatArray) -> NDArray[np.uint8]:
    return (rng.random(p.shape) < p).astype(np.uint8)


def _draw_nonempty(rng: np.random.Generator, p: FloatArray) -> NDArray[np.uint8]:
    """Draw label vectors conditioned on a positive, exactly and without rejection.

    The first positive is label j with probability p_j Π_{k<j} (1 − p_k) / (1 − Π_k (1 − p_k)); the labels
    behind it are independent as before. Rejection would need 1/P(nonempty) rounds, which has no bound.
    """
    none_before = np.concatenate([np.zeros((len(p), 1)), np.cumsum(np.log1p(-_below_one(p)), axis=1)], axis=1)
    cumulative = -np.expm1(none_before[:, 1:])  # P(a positive among the first j)
    position = rng.random((len(p), 1)) * cumulative[:, -1:]
    first = np.minimum((cumulative <= position).sum(axis=1), p.shape[1] - 1)
    Y = _draw(rng, p)
    columns = np.arange(p.shape[1])
    Y[columns < first[:, None]] = 0
    Y[np.arange(len(p)), first] = 1
    return Y


def _below_one(p: FloatArray) -> FloatArray:
    """Keep log(1 − p) finite where the sigmoid has rounded to 1."""
    return np.minimum(p, 1 - 1e-16)
