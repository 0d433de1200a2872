"""Single-label softmax used as a ranking: the simplest neural competitor."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor

from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective
from onepos.training.losses import softmax_cross_entropy


class SoftmaxObjective(Objective):
    """Cross-entropy of the softmax over labels against the observed one."""

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        yield "cross_entropy", softmax_cross_entropy(self.network(batch.features), batch.observed)


@dataclass(kw_only=True, eq=False, repr=False)
class SoftmaxClassifier(NeuralClassifier):
    """Learn which label would be *observed*, and rank the others by the same scores. Key: ``softmax``.

    It models P(observed = j | x), which is all that single positives determine. The ranking is good; the
    "probabilities" sum to one over the labels, so that sets cut at ½ hold at most one label.

    Parameters are those of ``NeuralClassifier``.

    Examples
    --------
    >>> from onepos import SoftmaxClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = SoftmaxClassifier(max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> bool(abs(model.predict_proba(data.X).sum(axis=1) - 1).max() < 1e-9)
    True
    """

    def _make_objective(self, context: Context) -> Objective:
        return SoftmaxObjective(context.network)

    def _from_network(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-odds of the softmax probabilities, so that sigmoid(logit) is the probability."""
        if self.single_label_:
            return logits
        log_p = log_softmax(logits, axis=1)
        # log(1−p) from log p without cancellation; p = 1 to the last bit is capped instead of infinite.
        return np.asarray(log_p - np.log(np.maximum(-np.expm1(log_p), np.finfo(np.float64).tiny)))
