"""SPLC: self-paced label correction (Zhang et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from onepos.methods._base import COUNT_OR_ZERO, NUMBER, POSITIVE_OR_ZERO, PROBABILITY, Constraints
from onepos.methods._neural import Context, NeuralClassifier
from onepos.methods.hill import focal_margin, focal_margin_entries
from onepos.training import Batch, Objective


def self_paced_correction(
    logits: Tensor, observed: Tensor, *, threshold: float, margin: float, focusing: float
) -> Tensor:
    """SPLC: focal margin in which unknown entries with p > τ (``threshold``) count as positive (Zhang et al., 2021).

    Entries corrected so get no margin: that is for labels that were observed.
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
        if self.epoch < self.warm_up_epochs:
            yield "correction", focal_margin(logits, batch.observed, **self.shape)
        else:
            yield "correction", self_paced_correction(logits, batch.observed, threshold=self.threshold, **self.shape)


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
