"""GR: the generalised robust loss (Chen et al., IJCAI 2024)."""

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from onepos._utils.parameters import POSITIVE_OR_ZERO, Constraints
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import LossObjective, Objective


def generalized_cross_entropy(log_probability: Tensor, power: float) -> Tensor:
    """(1 − p^q)/q of every entry, and its limit −log p at q = 0; ``power`` is q."""
    return -torch.expm1(power * log_probability) / power if power else -log_probability


def generalized_robust(
    logits: Tensor,
    observed: Tensor,
    *,
    slope: float,
    offset: float,
    center: float,
    width: float,
    positive_power: float,
    negative_power: float,
) -> Tensor:
    """GR: −log p where observed, V·[ K·(1−p^q2)/q2 + (1−K)·(1−(1−p)^q3)/q3 ] where unknown (Chen et al., IJCAI 2024).

    K = σ(w p + b) and V = exp(−(p−μ)²/(2σ²)) carry no gradient. The numbers w, b, μ, σ, q2 and q3 come in this order.
    Entries known to be absent add −log(1−p); the paper has none.
    """
    with torch.no_grad():
        p = torch.sigmoid(logits)
        label = torch.sigmoid(slope * p + offset)
        trust = torch.exp(-(((p - center) / width) ** 2) / 2.0)
    log_there, log_absent = functional.logsigmoid(logits), functional.logsigmoid(-logits)
    unknown = label * generalized_cross_entropy(log_there, positive_power)
    unknown = unknown + (1.0 - label) * generalized_cross_entropy(log_absent, negative_power)
    known = -torch.where(observed > 0, log_there, log_absent)
    return torch.where(observed == 0, trust * unknown, known).sum() / logits.shape[0]


Ends = tuple[float, float]


def scheduled(ends: dict[str, Ends], epoch: int, max_epochs: int) -> dict[str, float]:
    """Numbers of the loss in a 0-based epoch: w and b have gone epoch/T of their way, μ and σ (epoch + 1)/T."""
    progress = {"slope": epoch, "offset": epoch, "center": epoch + 1, "width": epoch + 1}
    return {name: first + progress[name] / max_epochs * (last - first) for name, (first, last) in ends.items()}


@dataclass(kw_only=True, eq=False, repr=False)
class GeneralizedRobustClassifier(NeuralClassifier):
    """Generalised robust loss: unknown labels get a soft label and a weight from the network's own p. Key: ``gr``.

    The soft label is K = σ(w p + b), the weight V = exp(−(p − μ)²/(2σ²)). Each of the four numbers goes from a first to
    a last value over the epochs. Chen et al., "Boosting Single Positive Multi-label Classification with Generalized
    Robust Loss", IJCAI 2024.

    Parameters
    ----------
    slope, offset : (float, float)
        w and b at the beginning and the end.
    center, width : (float, float)
        μ and σ at the beginning and the end.
    positive_power, negative_power : float
        q2 and q3 of the generalised cross-entropies (1 − p^q)/q; 0 is the cross-entropy itself. Other parameters:
        ``NeuralClassifier``.
    """

    slope: Ends = (0.0, 2.0)
    offset: Ends = (-2.0, -2.0)
    center: Ends = (0.5, 0.8)
    width: Ends = (2.0, 0.5)
    positive_power: float = 0.01
    negative_power: float = 1.0

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "slope": ["array-like"],
        "offset": ["array-like"],
        "center": ["array-like"],
        "width": ["array-like"],
        "positive_power": [POSITIVE_OR_ZERO],
        "negative_power": [POSITIVE_OR_ZERO],
    }

    _learns_likelihood: ClassVar[bool] = False

    def _make_objective(self, context: Context) -> Objective:
        ends = {name: _ends(name, getattr(self, name)) for name in ("slope", "offset", "center", "width")}
        if min(ends["width"]) <= 0:
            raise ValueError(f"width must be above 0 at both ends; got {self.width!r}.")
        loss = partial(generalized_robust, positive_power=self.positive_power, negative_power=self.negative_power)
        return LossObjective(context.network, "robust", loss, partial(scheduled, ends, max_epochs=self.max_epochs))


def _ends(name: str, value: Any) -> Ends:
    if len(value) != 2 or not all(isinstance(number, Real) for number in value):
        raise ValueError(f"{name} must be two numbers, its first and its last value; got {value!r}.")
    return float(value[0]), float(value[1])
