"""Single-label softmax used as a ranking, and capped softmax: the likelihood of the observed label among m."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor
from torch.nn import functional

from onepos._utils import storage
from onepos.label_sets.pooling import marginal_logits
from onepos.methods._neural import Context, GraphClassifier, NeuralClassifier
from onepos.training import LossObjective, Objective
from onepos.training.losses import cardinality_shift, softmax_cross_entropy


@dataclass(kw_only=True, eq=False, repr=False)
class SoftmaxClassifier(NeuralClassifier):
    """Learn which label would be *observed*, and rank the others by the same scores. Key: ``softmax``.

    It models P(observed = j | x), which is all that single positives determine. The ranking is good; the
    "probabilities" sum to one over the labels, so that sets cut at ½ hold at most one label. Parameters are those of
    ``NeuralClassifier``.

    Examples
    --------
    >>> from onepos import SoftmaxClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = SoftmaxClassifier(max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> bool(abs(model.predict_proba(data.X).sum(axis=1) - 1).max() < 1e-9)
    True
    """

    _graph_output: ClassVar[str] = "Softmax"
    _takes_sparse_labels: ClassVar[bool] = True

    def _graph_logits(self, graph: Any) -> str:
        return super()._graph_logits(graph)  # the softmax of what the network gives, as in _from_network

    def _make_objective(self, context: Context) -> Objective:
        return LossObjective(context.network, "cross_entropy", softmax_cross_entropy)

    def _from_network(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-odds of the softmax probabilities, so that sigmoid(logit) is the probability."""
        if self.single_label_:
            return logits
        log_p = log_softmax(logits, axis=1)
        # log(1−p) from log p without cancellation; p = 1 to the last bit is capped instead of infinite.
        return np.asarray(log_p - np.log(np.maximum(-np.expm1(log_p), np.finfo(np.float64).tiny)))


def capped_likelihood(logits: Tensor, observed: Tensor, n_positives: float) -> Tensor:
    """L = −1/B Σ_i log f_iγ(i), with f = σ(z + b(z)) and Σ_j f_ij = m; a row's several observed labels share it.

    Labels known to be absent have no part in the sum. ``n_positives`` is m, at least half a label less than a row has.
    """
    positives = observed.clamp(min=0).to(logits.dtype)
    share = positives / positives.sum(dim=1, keepdim=True).clamp(min=1.0)
    possible = observed >= 0
    with torch.no_grad():
        shift = cardinality_shift(logits, possible, n_positives)
        # ∂b/∂z_j = −f_j(1−f_j) / Σ_k f_k(1−f_k); in logarithms it has no 0/0.
        doubt = functional.logsigmoid(logits + shift) + functional.logsigmoid(-logits - shift)
        slopes = -torch.softmax(doubt.masked_fill_(~possible, -torch.inf), dim=1)
    shift = shift + (slopes * (logits - logits.detach())).sum(dim=1, keepdim=True)
    return -(share * functional.logsigmoid(logits + shift)).sum() / len(logits)


@dataclass(kw_only=True, eq=False, repr=False)
class CappedSoftmaxClassifier(GraphClassifier):
    """A softmax whose shares cannot exceed 1/m: learn which of m labels was observed. Key: ``capped``.

    Every row is taken to have m labels, of which one was observed, each as likely as the other. The probabilities of a
    row add up to m, and none exceeds 1. A softmax lacks that bound, which matters more the more labels rows have.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        m, the mean number of positive labels per row; see ``ROLEClassifier``. Other parameters: ``NeuralClassifier``.

    Attributes
    ----------
    n_positives_ : float
        The m that was used; ``history_.facts`` says where it came from.

    Examples
    --------
    >>> from onepos import CappedSoftmaxClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = CappedSoftmaxClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> bool(abs(model.predict_proba(data.X).sum(axis=1) - 2).max() < 1e-9)
    True
    """

    _stored: ClassVar[storage.Rules] = {"n_positives_": storage.POSITIVE}

    _takes_sparse_labels: ClassVar[bool] = True

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        if fields["n_positives_"] > len(fields["classes_"]) - 0.5:
            raise ValueError("n_positives_ must be at least half a label below the number of labels")
        return super()._from_stored(fields)

    def _make_objective(self, context: Context) -> Objective:
        # With all labels there is nothing to learn.
        self.n_positives_ = min(self._set_n_positives(context), context.n_labels - 0.5)
        loss = partial(capped_likelihood, n_positives=self.n_positives_)
        return LossObjective(context.network, "capped_likelihood", loss)

    def _graph_logits(self, graph: Any) -> str:
        raise NotImplementedError(f"{type(self).__name__} finds the level of every row by iteration")

    def _from_network(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shifted so that the probabilities of a row add up to m."""
        return logits if self.single_label_ else marginal_logits(logits, self.n_positives_)
