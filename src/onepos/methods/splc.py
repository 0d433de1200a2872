"""SPLC: self-paced label correction (Zhang et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from torch import Tensor, nn

from onepos._utils.private_names import Interval
from onepos.methods._neural import Context, NeuralClassifier
from onepos.methods.hill import focal_margin, self_paced_correction
from onepos.training import Batch, Objective


class SelfPacedCorrectionObjective(Objective):
    """Focal loss with a margin; after the warm-up, unknown labels above a threshold count as positive."""

    def __init__(
        self, network: nn.Module, threshold: float, warm_up_epochs: int, margin: float, focusing: float
    ) -> None:
        super().__init__(network)
        self.threshold = threshold
        self.warm_up_epochs = warm_up_epochs
        self.margin = margin
        self.focusing = focusing

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        shape = {"margin": self.margin, "focusing": self.focusing}
        if self.epoch < self.warm_up_epochs:
            yield "correction", focal_margin(logits, batch.observed, **shape)
        else:
            yield "correction", self_paced_correction(logits, batch.observed, threshold=self.threshold, **shape)


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

    Examples
    --------
    >>> from onepos.methods.splc import SPLCClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> SPLCClassifier(max_epochs=3, random_state=0).fit(data.X, data.observed).predict_proba(data.X).shape
    (200, 4)
    """

    threshold: float = 0.6
    warm_up_epochs: int = 1
    margin: float = 1.0
    focusing: float = 2.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralClassifier._parameter_constraints,
        "threshold": [Interval(Real, 0, 1, closed="both")],
        "warm_up_epochs": [Interval(Integral, 0, None, closed="left")],
        "margin": [Interval(Real, None, None, closed="neither")],
        "focusing": [Interval(Real, 0, None, closed="left")],
    }

    def _make_objective(self, context: Context) -> Objective:
        return SelfPacedCorrectionObjective(
            context.network, self.threshold, self.warm_up_epochs, self.margin, self.focusing
        )
