"""Hill and SPLC: smaller losses for unknown labels that look present (Zhang et al., 2021)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from onepos._utils.parameters import AT_LEAST_ONE, COUNT_OR_ZERO, NUMBER, POSITIVE_OR_ZERO, PROBABILITY, Constraints
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import LossObjective, Objective


def focal_margin_entries(logits: Tensor, positive: Tensor, shifted: Tensor, margin: float, focusing: float) -> Tensor:
    """−(1−p_t)^γ log p_t, p_t the probability of a target; logits of ``shifted`` entries are lowered by the margin."""
    logits = torch.where(shifted, logits - margin, logits)
    signed = torch.where(positive, logits, -logits)
    return torch.exp(focusing * functional.logsigmoid(-signed)) * functional.softplus(-signed)


def hill(logits: Tensor, observed: Tensor, *, margin: float, focusing: float, height: float) -> Tensor:
    """Hill loss: focal margin where something is known, (λ − p)·p² where not; λ is ``height``, γ ``focusing``."""
    positive, unknown = observed > 0, observed == 0
    known = focal_margin_entries(logits, positive, positive, margin, focusing)
    p = torch.sigmoid(logits)
    return torch.where(unknown, (height - p) * p.square(), known).sum() / logits.shape[0]


@dataclass(kw_only=True, eq=False, repr=False)
class HillClassifier(NeuralClassifier):
    """Hill loss: the gradient of an unknown label has the shape of a hill over its probability. Key: ``hill``.

    Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", arXiv 2112.07368, 2021.

    Parameters
    ----------
    margin : float
        m, by which the logit of an observed label is lowered in its loss; the authors suggest ½ to 1.
    focusing : float
        γ, the power of (1 − p) in the loss of an observed label.
    height : float
        λ of (λ − p)·p²; below 3/2 the surest unknown labels are pushed up, above it they are pushed down.
        Other parameters: ``NeuralClassifier``.
    """

    margin: float = 1.0
    focusing: float = 2.0
    height: float = 1.5

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
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
    """SPLC: focal margin in which unknown entries with p > ``threshold`` count as positive, without the margin."""
    seen = observed > 0
    corrected = (observed == 0) & (torch.sigmoid(logits.detach()) > threshold)
    return focal_margin_entries(logits, seen | corrected, seen, margin, focusing).sum() / logits.shape[0]


@dataclass(kw_only=True, eq=False, repr=False)
class SPLCClassifier(NeuralClassifier):
    """Self-paced label correction: an unknown label that the network finds likely is taken for observed. Key: ``splc``.

    From the paper of ``HillClassifier``. The authors' cycle of the learning rate and their averaged weights belong to
    training rather than to the loss and are left out.

    Parameters
    ----------
    threshold : float
        τ, the probability from which an unknown label counts as positive, for the step at hand.
    warm_up_epochs : int
        Epochs without correction.
    margin : float
        m, by which the logit of an observed label is lowered in its loss.
    focusing : float
        γ, the power of the focal weight. Other parameters: ``NeuralClassifier``.
    """

    threshold: float = 0.6
    warm_up_epochs: int = 1
    margin: float = 1.0
    focusing: float = 2.0

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "threshold": [PROBABILITY],
        "warm_up_epochs": [COUNT_OR_ZERO],
        "margin": [NUMBER],
        "focusing": [POSITIVE_OR_ZERO],
    }

    def _make_objective(self, context: Context) -> Objective:
        def threshold(epoch: int) -> dict[str, float]:
            return {"threshold": 1.0 if epoch < self.warm_up_epochs else self.threshold}

        loss = partial(self_paced_correction, margin=self.margin, focusing=self.focusing)
        return LossObjective(context.network, "correction", loss, threshold)
