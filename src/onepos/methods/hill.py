"""Hill and SPLC: smaller losses for unknown labels that look present (Zhang et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from onepos.methods._base import AT_LEAST_ONE, COUNT_OR_ZERO, NUMBER, POSITIVE_OR_ZERO, PROBABILITY, Constraints
from onepos.methods._neural import Context, LossObjective, NeuralClassifier
from onepos.training import Batch, Objective


def focal_margin_entries(logits: Tensor, positive: Tensor, shifted: Tensor, margin: float, focusing: float) -> Tensor:
    """−(1−p_t)^γ log p_t of every entry, p_t the probability of its target.

    ``positive`` marks entries with target 1, ``shifted`` those whose logit is first lowered by the ``margin``;
    ``focusing`` is γ.
    """
    logits = torch.where(shifted, logits - margin, logits)
    signed = torch.where(positive, logits, -logits)
    return torch.exp(focusing * functional.logsigmoid(-signed)) * functional.softplus(-signed)


def hill(logits: Tensor, observed: Tensor, *, margin: float, focusing: float, height: float) -> Tensor:
    """Hill loss: focal margin where something is known, (λ − p)·p² where not (Zhang et al., 2021).

    The derivative of the unknown part by the logit is p²(1−p)(2λ − 3p), for λ = 3/2 the hill 3p²(1−p)²: it vanishes
    where the network is sure. ``height`` is λ, ``margin`` m, ``focusing`` γ.
    """
    positive, unknown = observed > 0, observed == 0
    known = focal_margin_entries(logits, positive, positive, margin, focusing)
    p = torch.sigmoid(logits)
    return torch.where(unknown, (height - p) * p.square(), known).sum() / logits.shape[0]


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
        loss = partial(hill, margin=self.margin, focusing=self.focusing, height=self.height)
        return LossObjective(context.network, "hill", loss)


def self_paced_correction(
    logits: Tensor, observed: Tensor, *, threshold: float, margin: float, focusing: float
) -> Tensor:
    """SPLC: focal margin in which unknown entries with p > τ (``threshold``) count as positive (Zhang et al., 2021).

    Corrected entries get no margin: that is for labels that were observed. With τ = 1 nothing is corrected.
    """
    seen = observed > 0
    corrected = (observed == 0) & (torch.sigmoid(logits.detach()) > threshold)
    return focal_margin_entries(logits, seen | corrected, seen, margin, focusing).sum() / logits.shape[0]


class SelfPacedCorrectionObjective(Objective):
    """Focal loss with a margin; after the warm-up, unknown labels above a threshold count as positive."""

    def __init__(self, network: nn.Module, threshold: float, warm_up_epochs: int, **shape: float) -> None:
        super().__init__(network)
        self.threshold, self.warm_up_epochs, self.shape = threshold, warm_up_epochs, shape

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        threshold = 1.0 if self.epoch < self.warm_up_epochs else self.threshold
        yield "correction", self_paced_correction(logits, batch.observed, threshold=threshold, **self.shape)


@dataclass(kw_only=True, eq=False, repr=False)
class SPLCClassifier(NeuralClassifier):
    """Self-paced label correction: an unknown label that the network finds likely is taken for observed. Key: ``splc``.

    Parameters
    ----------
    threshold : float
        τ, the probability from which an unknown label counts as positive, for the step at hand.
    warm_up_epochs : int
        Epochs without correction.
    margin : float
        m, by which the logit of an observed label is lowered in its loss.
    focusing : float
        γ, the power of the focal weight.
    network, learning_rate, … :
        See ``NeuralClassifier``.

    Notes
    -----
    The authors train with one cycle of the learning rate and predict with averaged weights; both belong to training
    rather than to the loss and are left out.

    References
    ----------
    Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", arXiv 2112.07368, 2021.
    """

    threshold: float = 0.6
    warm_up_epochs: int = 1
    margin: float = 1.0
    focusing: float = 2.0

    _parameter_constraints: ClassVar[Constraints] = {
        "threshold": [PROBABILITY],
        "warm_up_epochs": [COUNT_OR_ZERO],
        "margin": [NUMBER],
        "focusing": [POSITIVE_OR_ZERO],
    }

    def _make_objective(self, context: Context) -> Objective:
        return SelfPacedCorrectionObjective(
            context.network, self.threshold, self.warm_up_epochs, margin=self.margin, focusing=self.focusing
        )
