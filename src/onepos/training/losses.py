"""Losses as pure functions of logits, (batch, labels) → ().

All sum over labels and average over rows, as the paper's risks do. ``observed`` is 1 observed, 0 unknown, −1 known to
be absent.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional


def binary_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_j w·[ t·(−log f) + (1−t)·(−log(1−f)) ], averaged over rows; f = sigmoid(logits)."""
    total = functional.binary_cross_entropy_with_logits(logits, targets, weights, reduction="sum")
    return total / logits.shape[0]


def assume_negative(
    logits: Tensor, observed: Tensor, *, unobserved_weight: float = 1.0, label_smoothing: float = 0.0
) -> Tensor:
    """AN: unknown counts as negative. With ``unobserved_weight`` 1/(c−1): WAN; with ``label_smoothing`` ε: AN-LS.

    Smoothed targets are 1−ε where observed and ε elsewhere. Entries known to be absent keep full weight.
    """
    targets = (observed > 0).to(logits.dtype)
    if label_smoothing:
        targets = targets * (1.0 - 2.0 * label_smoothing) + label_smoothing
    weights = (
        None if unobserved_weight == 1.0 else torch.ones_like(targets).masked_fill_(observed == 0, unobserved_weight)
    )
    return binary_cross_entropy(logits, targets, weights)


def softmax_cross_entropy(logits: Tensor, observed: Tensor) -> Tensor:
    """Single-label cross-entropy: −log softmax at the observed label (their mean if several), averaged over rows."""
    positives = observed.clamp(min=0).to(logits.dtype)
    share = positives / positives.sum(dim=1, keepdim=True).clamp(min=1.0)
    return -(share * torch.log_softmax(logits, dim=1)).sum() / logits.shape[0]


def risk_weights(logits: Tensor, observed: Tensor, bound: float) -> Tensor:
    """w_i = min( 1 / (f_γ(x_i) · c), κ ), shape (batch, 1), without gradient.

    f_γ, the classifier's own confidence in the observed label (the mean of several), stands for p(y^γ=1|x). Theorem 1
    needs the bound κ.
    """
    with torch.no_grad():
        positives = (observed > 0).to(logits.dtype)
        count = positives.sum(dim=1, keepdim=True).clamp_(min=1.0)
        confidence = logits.sigmoid().mul_(positives).sum(dim=1, keepdim=True).div_(count)
        return confidence.mul_(logits.shape[1]).reciprocal_().clamp_(max=bound)


def single_positive_risk(logits: Tensor, soft_labels: Tensor, weights: Tensor) -> Tensor:
    """R̂_sp, Eq. (6): mean over rows of w_i Σ_j [ d·(−log f) + (1−d)·(−log(1−f)) ]; d and w carry no gradient."""
    return binary_cross_entropy(logits, soft_labels.detach(), weights.detach())


def adjacency_reconstruction(soft_labels: Tensor, adjacency: Tensor) -> Tensor:
    """‖A − sigmoid(D Dᵀ)‖²_F on the batch's block of A, per row; A is (batch, batch), D (batch, labels)."""
    return (adjacency - torch.sigmoid(soft_labels @ soft_labels.T)).square().sum() / soft_labels.shape[0]


def feature_reconstruction(reconstruction: Tensor, features: Tensor) -> Tensor:
    """‖Ξ − X‖²_F per row: minus the Gaussian log-likelihood up to scale and constant."""
    return (reconstruction - features).square().sum() / features.shape[0]


_MOST_STEPS = 100


def cardinality_shift(logits: Tensor, possible: Tensor, n_positives: float) -> Tensor:
    """b with Σ_j σ(z_j + b) = m in every row, (batch, 1), by Newton's steps for log Σ σ = log m inside a bracket.

    ``possible`` marks the labels that count; rows without any get a shift that means nothing. Rows with fewer than
    m + ½ possible labels (``n_positives`` is m) get half a label less than they may have.
    """
    counts = possible.sum(dim=1, keepdim=True).clamp(min=1).to(logits.dtype)
    target = torch.clamp(counts - 0.5, max=n_positives)
    known = possible.all()
    low_logits = logits if known else logits.masked_fill(~possible, -torch.inf)
    high_logits = logits if known else logits.masked_fill(~possible, torch.inf)
    level = torch.log(target / (counts - target))
    # If all logits were the largest, or the smallest; and σ(u) < exp(u), which is close where all f are small.
    low = torch.maximum(level - low_logits.amax(1, keepdim=True), target.log() - low_logits.logsumexp(1, keepdim=True))
    high = level - high_logits.amin(1, keepdim=True)
    low = torch.minimum(low, high)
    tolerance = 16.0 * torch.finfo(logits.dtype).eps
    whole, rest = divmod(n_positives, 1.0)
    near = low_logits.topk(min(int(whole) + 1, logits.shape[1]), dim=1).values[:, -1:]
    shift = torch.clamp(math.log(max(rest, 0.01) / max(1.0 - rest, 0.01)) - near, low, high)
    f = torch.sigmoid(low_logits + shift)
    for _ in range(_MOST_STEPS):
        total = f.sum(dim=1, keepdim=True)
        excess = torch.log(total / target)
        if not bool((excess.abs() > tolerance).any()):
            break
        below = excess < 0
        low, high = torch.where(below, shift, low), torch.where(below, high, shift)
        newton = shift - excess * total / (total - f.square().sum(dim=1, keepdim=True))
        shift = torch.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        f = torch.sigmoid(low_logits + shift)
    return shift.nan_to_num(0.0, 0.0, 0.0)
