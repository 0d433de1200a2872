"""ROLE's loss and its gradient by the label logits, as pure functions (Cole et al., CVPR 2021).

As in ``onepos.losses`` everything sums over labels and averages over rows: c times the published mean over entries.
"""

import torch
from torch import Tensor

from onepos.losses import binary_cross_entropy


def expected_positive(logits: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """EPR(a) = −Σ_{s=1} log a / B + λ·(k̂ − k)²/c, with a = σ(logits) and k̂ the batch's mean of Σ_j a_j.

    The published loss, (1/(Bc))·Σ + λ·((k̂ − k)/c)², times c. Entries known to be absent (s = −1) add −log(1 − a) as
    the positives add −log a; the paper has none.

    Parameters
    ----------
    logits : Tensor of shape (batch, n_labels)
    observed : Tensor of shape (batch, n_labels)
        1 observed, 0 unknown, −1 known absent.
    n_positives : float
        k, the expected number of positives of a row.
    weight : float
        λ.
    """
    known = observed.to(logits.dtype)
    seen = binary_cross_entropy(logits, known.clamp(min=0), known.abs())
    excess = torch.sigmoid(logits).sum() / logits.shape[0] - n_positives
    return seen + weight * excess.square() / logits.shape[1]


def agreement(logits: Tensor, targets: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """ℓ(a | b) = BCE(a, sg b) + EPR(a), with a = σ(logits) and b = ``targets``."""
    entropy = binary_cross_entropy(logits, targets.detach())
    return entropy + expected_positive(logits, observed, n_positives, weight)


def role(logits: Tensor, label_logits: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """L = ½·[ ℓ(p | sg ŷ) + ℓ(ŷ | sg p) ], with p = σ(logits) and ŷ = σ(label_logits).

    Examples
    --------
    >>> zeros, seen = torch.zeros(1, 2), torch.tensor([[1, 0]])
    >>> round(float(role(zeros, zeros, seen, n_positives=1.0, weight=1.0) / torch.log(torch.tensor(2.0))), 6)
    3.0
    """
    by_network = agreement(logits, torch.sigmoid(label_logits), observed, n_positives, weight)
    by_labels = agreement(label_logits, torch.sigmoid(logits), observed, n_positives, weight)
    return 0.5 * (by_network + by_labels)


def label_gradient(
    label_logits: Tensor, probabilities: Tensor, observed: Tensor, n_positives: float, weight: float
) -> Tensor:
    """∂L/∂Θ on the batch's rows, in closed form, shape (batch, n_labels).

    With ŷ = σ(Θ): ``½/B · [ (ŷ − p) + |s|·(ŷ − 1[s=1]) + 2λ(k̂ − k)/c · ŷ(1 − ŷ) ]``.
    """
    estimate = torch.sigmoid(label_logits)
    excess = estimate.sum() / estimate.shape[0] - n_positives
    gradient = estimate - probabilities
    gradient += torch.where(observed == 0, 0.0, estimate - (observed > 0).to(estimate.dtype))
    gradient += (2.0 * weight / estimate.shape[1]) * excess * estimate * (1.0 - estimate)
    return gradient.mul_(0.5 / estimate.shape[0])
