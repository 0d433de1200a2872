"""Hill: a negative loss that goes easy on unknown labels which look present (Zhang et al., 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from onepos._utils.private_names import Interval
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective

# Losses that forgive what may be a missing positive, as pure functions of logits: focal margin, Hill, SPLC, GR.


def focal_margin_entries(logits: Tensor, positive: Tensor, shifted: Tensor, margin: float, focusing: float) -> Tensor:
    """−(1−p_t)^γ log p_t of every entry, p_t the probability of its target.

    Parameters
    ----------
    logits : Tensor of shape (batch, n_labels)
    positive : bool Tensor of shape (batch, n_labels)
        Entries with target 1.
    shifted : bool Tensor of shape (batch, n_labels)
        Entries whose logit is lowered by the margin m first.
    margin, focusing : float
        m and γ.
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


def self_paced_correction(
    logits: Tensor, observed: Tensor, *, threshold: float, margin: float, focusing: float
) -> Tensor:
    """SPLC: focal margin in which unknown entries with p > τ (``threshold``) count as positive (Zhang et al., 2021).

    Entries corrected so get no margin: that is for labels that were observed.
    """
    seen = observed > 0
    corrected = (observed == 0) & (torch.sigmoid(logits.detach()) > threshold)
    return focal_margin_entries(logits, seen | corrected, seen, margin, focusing).sum() / logits.shape[0]


def generalized_cross_entropy(log_probability: Tensor, power: float) -> Tensor:
    """(1 − p^q)/q of every entry, and its limit −log p at q = 0; ``power`` is q."""
    return -torch.expm1(power * log_probability) / power if power else -log_probability


@dataclass(frozen=True)
class RobustShape:
    """The numbers of the GR loss in one epoch: w and b of K = σ(w p + b), μ and σ of V = exp(−(p−μ)²/(2σ²))."""

    slope: float
    offset: float
    center: float
    width: float


def generalized_robust(
    logits: Tensor,
    observed: Tensor,
    shape: RobustShape,
    *,
    positive_power: float,
    negative_power: float,
) -> Tensor:
    """GR: −log p where observed, V·[ K·(1−p^q2)/q2 + (1−K)·(1−(1−p)^q3)/q3 ] where unknown (Chen et al., IJCAI 2024).

    K = σ(w p + b), the probability that an unknown label is there, and V, the trust in it, are made of p without
    gradient. With K = 0, V = 1, q3 → 0 it is assume-negative. Entries known to be absent add −log(1−p); the paper has
    none.

    Parameters
    ----------
    logits, observed : Tensor of shape (batch, n_labels)
    shape : RobustShape
    positive_power, negative_power : float
        q2 and q3.
    """
    with torch.no_grad():
        p = torch.sigmoid(logits)
        label = torch.sigmoid(shape.slope * p + shape.offset)
        trust = torch.exp(-(((p - shape.center) / shape.width) ** 2) / 2.0)
    log_there, log_absent = functional.logsigmoid(logits), functional.logsigmoid(-logits)
    unknown = label * generalized_cross_entropy(log_there, positive_power)
    unknown = unknown + (1.0 - label) * generalized_cross_entropy(log_absent, negative_power)
    known = -torch.where(observed > 0, log_there, log_absent)
    return torch.where(observed == 0, trust * unknown, known).sum() / logits.shape[0]


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
