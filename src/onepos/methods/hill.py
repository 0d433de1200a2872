"""Hill: a negative loss that goes easy on unknown labels which look present (Zhang et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from onepos.methods._context import Context
from onepos.methods._neural import NeuralClassifier
from onepos.methods._robust_losses import hill
from onepos.training import Batch, Objective


class HillObjective(Objective):
    """Focal loss with a margin at what is known, (λ − p)·p² at what is not."""

    def __init__(self, network: nn.Module, margin: float, focusing: float, height: float) -> None:
        super().__init__(network)
        self.margin = margin
        self.focusing = focusing
        self.height = height

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        yield (
            "hill",
            hill(logits, batch.observed, margin=self.margin, focusing=self.focusing, height=self.height),
        )


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

    Examples
    --------
    >>> from onepos.methods.hill import HillClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> HillClassifier(max_epochs=3, random_state=0).fit(data.X, data.observed).predict_proba(data.X).shape
    (200, 4)
    """

    margin: float = 1.0
    focusing: float = 2.0
    height: float = 1.5

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralClassifier._parameter_constraints,
        "margin": [Interval(Real, None, None, closed="neither")],
        "focusing": [Interval(Real, 0, None, closed="left")],
        "height": [Interval(Real, 1, None, closed="left")],
    }

    def _make_objective(self, context: Context) -> Objective:
        return HillObjective(context.network, self.margin, self.focusing, self.height)
