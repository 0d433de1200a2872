"""Criteria that choose an epoch or a setting: a metric, or the likelihood of the observed labels.

With one observed label per row, a metric looks at the rank of that label, and on few rows its best epoch is partly
luck. The likelihood of the same labels under softmax(τ·logits), with the best τ, looks at the scores of all labels of a
row. Neither is better throughout (docs/tuning.md): the likelihood is for many labels on few rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos import metrics
from onepos.label_sets.pooling import inverse_temperature

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
