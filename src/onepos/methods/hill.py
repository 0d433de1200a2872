"""Hill: a negative loss that goes easy on unknown labels which look present (Zhang et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from onepos.methods._base import AT_LEAST_ONE, NUMBER, POSITIVE_OR_ZERO, Constraints
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective


def focal_margin_entries(logits: Tensor, positive: Tensor, shifted: Tensor, margin: float, focusing: float) -> Tensor:
    """−(1−p_t)^γ log p_t of every entry, p_t the probability of its target.

    ``positive`` marks entries with target 1, ``shifted`` those whose logit is first lowered by the ``margin``;
    ``focusing`` is γ.
    """
    logits = torch.where(shifted, logits - margin, logits)
    signed = torch.where(positive, logits, -logits)
    return torch.exp(focusing * functional.logsigmoid(-signed)) * functional.softplus(-signed)


def focal_margin(logits: Tensor, observed: Tensor, *, margin: float, focusing: float) -> Tensor:
    """Focal loss with a margin at the observed labels; what is unknown counts as negative."""
    positive = observed > 0
    return focal_margin_entries(logits, positive, positive, margin, focusing).sum() / logits.shape[0]


def hill(logits: Tensor, observed: Tensor, *, margin: float, focusing: float, height: float) -> Tensor:
    """Hill loss: focal margin where something is known, (λ − p)·p² where not (Zhang et al., 2021).

    The derivative of the unknown part by the logit is p²(1−p)(2λ − 3p), for λ = 3/2 the hill 3p²(1−p)²: an unknown
    label that the network is sure of is left alone. ``height`` is λ, ``margin`` m, ``focusing`` γ.
    """
    positive, unknown = observed > 0, observed == 0
    known = focal_margin_entries(logits, positive, positive, margin, focusing)
    p = torch.sigmoid(logits)
    return torch.where(unknown, (height - p) * p.square(), known).sum() / logits.shape[0]


class HillObjective(Objective):
    """Focal loss with a margin at what is known, (λ − p)·p² at what is not."""

    def __init__(self, network: nn.Module, **shape: float) -> None:
        super().__init__(network)
        self.shape = shape

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        yield "hill", hill(self.network(batch.features), batch.observed, **self.shape)


@dataclass(kw_only=True, eq=False, repr=False)
class HillClassifier(NeuralClassifier):
    """Hill loss: the gradient of an unknown label has the shape of a hill over its probability. Key: ``hill``.

    Parameters
    ----------
    margin : float
        m, by which the logit of an observed label is lowered in its loss; the authors suggest ½ to 1.
    focusing : float
        γ, the power of (1 − p) in the loss of an observed label.
    height : float
        λ of (λ − p)·p²; below 3/2 the surest unknown labels are pushed up, above it they are pushed down.
    network, learning_rate, … :
        See ``NeuralClassifier``.

    References
    ----------
    Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", arXiv 2112.07368, 2021.
    """

    margin: float = 1.0
    focusing: float = 2.0
    height: float = 1.5

    _parameter_constraints: ClassVar[Constraints] = {
        "margin": [NUMBER],
        "focusing": [POSITIVE_OR_ZERO],
        "height": [AT_LEAST_ONE],
    }

    def _make_objective(self, context: Context) -> Objective:
        return HillObjective(context.network, margin=self.margin, focusing=self.focusing, height=self.height)
