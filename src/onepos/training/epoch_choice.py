"""Criteria that choose an epoch or a setting: a metric, or the likelihood of the observed labels.

With one observed label per row, a metric looks at the rank of that label, and on few rows its best epoch is partly
luck. The likelihood of the same labels under softmax(τ·logits), with the best τ, looks at the scores of all labels of a
row. Neither is better throughout (docs/tuning.md): the likelihood is for many labels on few rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from onepos import metrics
from onepos.label_sets.pooling import at_observed, inverse_temperature

#: Mean log-likelihood of the observed labels, temperature fitted.
OBSERVED_LIKELIHOOD = "observed_likelihood"
SELECTION_METRICS = (*metrics.METRICS, OBSERVED_LIKELIHOOD)


def higher_is_better(name: str) -> bool:
    """Whether a larger value of what chooses means a better model.

    Examples
    --------
    >>> higher_is_better("observed_likelihood"), higher_is_better("ranking_loss")
    (True, False)
    """
    return name == OBSERVED_LIKELIHOOD or metrics.higher_is_better(name)


def selection_score(name: str, observed: NDArray[Any], logits: NDArray[Any]) -> float:
    """Value of the named criterion for labels (1, 0, −1) and logits, both of shape (n_samples, n_labels).

    Examples
    --------
    >>> observed, logits = np.array([[1, 0], [0, 1]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> round(selection_score("observed_likelihood", observed, logits), 4)  # log ½
    -0.6931
    """
    if name == OBSERVED_LIKELIHOOD:
        return inverse_temperature(np.asarray(logits, dtype=np.float64), observed)[1]
    scores = logits if name != "hamming_loss" else 1.0 / (1.0 + np.exp(-logits))
    return float(getattr(metrics, name)(observed, scores))


def clearly_more_likely(observed: NDArray[Any], logits: NDArray[Any], reference: NDArray[Any]) -> bool:
    """Whether logits make the observed labels more likely than a reference does, by two standard errors of the gain.

    Each is given the temperature that suits it best.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> observed, constant = np.eye(5)[rng.integers(5, size=400)], np.zeros((400, 5))
    >>> clearly_more_likely(observed, rng.normal(size=(400, 5)), constant)
    False
    >>> clearly_more_likely(observed, observed + rng.normal(size=(400, 5)), constant)
    True
    """
    gain = _log_likelihoods(observed, logits) - _log_likelihoods(observed, reference)
    return bool(gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)))


def _log_likelihoods(observed: NDArray[Any], logits: NDArray[Any]) -> NDArray[np.float64]:
    scores = np.asarray(logits, dtype=np.float64)
    return at_observed(log_softmax(inverse_temperature(scores, observed)[0] * scores, axis=1), observed)
