"""Losses that forgive what may be a missing positive, as pure functions of logits: focal margin, Hill, SPLC, GR.

As in ``onepos.losses`` everything sums over labels and averages over rows. The sources sum over the batch
(Hill, SPLC) or average over entries (GR): constant factors, which Adam does not see. Powers of probabilities are
exponentials of log-sigmoids, so that losses and gradients stay finite at any logit and exponent. ``observed`` is 1
observed, 0 unknown, −1 known to be absent.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


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
