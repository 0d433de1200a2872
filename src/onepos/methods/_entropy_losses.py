"""Entropy maximisation on unknown labels, as pure functions of logits (Zhou et al., ECCV 2022).

As in ``onepos.losses`` everything sums over labels and averages over rows: c times the published mean over entries.
"""

import torch
from torch import Tensor
from torch.nn import functional


def binary_entropy(logits: Tensor) -> Tensor:
    """H(p) = −p log p − (1−p) log(1−p) of every entry, in nats; p = σ(logits). Exact zero at the far ends."""
    return torch.sigmoid(logits) * functional.softplus(-logits) + torch.sigmoid(-logits) * functional.softplus(logits)


def entropy_maximization(
    logits: Tensor,
    observed: Tensor,
    entropy_weight: float,
    *,
    pseudo_labels: Tensor | None = None,
    pseudo_label_weight: float = 0.0,
) -> Tensor:
    """EM: −log p where observed, −α·H(p) where unknown. EM+APL: β·BCE(p, ŷ) where there is a pseudo-label ŷ.

    Entries known to be absent add −log(1−p); the paper has none. Without entropy (α = 0) unknown entries are ignored.

    Parameters
    ----------
    logits : Tensor of shape (batch, n_labels)
    observed : Tensor of shape (batch, n_labels)
        1 observed, 0 unknown, −1 known absent.
    entropy_weight : float
        α.
    pseudo_labels : Tensor of shape (batch, n_labels), optional
        ŷ in [0, 1], NaN where an unknown entry has none; what is known goes before it.
    pseudo_label_weight : float
        β.

    Examples
    --------
    >>> loss = entropy_maximization(torch.zeros(1, 3), torch.tensor([[1, 0, 0]]), entropy_weight=0.25)
    >>> round(float(loss / torch.log(torch.tensor(2.0))), 6)
    0.5
    """
    known, unknown = observed != 0, observed == 0
    targets = (observed > 0).to(logits.dtype)
    weights = known.to(logits.dtype)
    if pseudo_labels is not None:
        guessed = unknown & ~torch.isnan(pseudo_labels)
        targets = torch.where(guessed, pseudo_labels.to(logits.dtype), targets)
        weights = torch.where(guessed, pseudo_label_weight, weights)
        unknown = unknown & ~guessed
    cross_entropy = functional.binary_cross_entropy_with_logits(logits, targets, weights, reduction="sum")
    return (cross_entropy - entropy_weight * (binary_entropy(logits) * unknown).sum()) / logits.shape[0]
