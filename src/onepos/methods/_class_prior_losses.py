"""CRISP's risk: the absolute loss of all labels from observed ones and class priors (Liu et al., NeurIPS 2025)."""

import torch
from torch import Tensor


def class_prior_risk(
    logits: Tensor, observed: Tensor, priors: Tensor, weights: Tensor, means: Tensor | None = None
) -> Tensor:
    """R̂ = Σ_j [ (2π_j/n_j) Σ_{i∈S_j} (1 − f_ij) + | mean_i f_ij − π_j | ], on a batch; f = σ(logits).

    With the absolute loss |y − f| the risk of a label is π E₊[1−f] + (E[f] − π E₊[f]) = 2π E₊[1−f] + (E[f] − π). The
    bracket is (1−π) E₋[f] − π E₊[1−f]; by its modulus it cannot be driven below zero by a network that forgets. Entries
    known to be absent add their own absolute loss f; the paper has none.

    Parameters
    ----------
    logits, observed : Tensor of shape (batch, n_labels)
    priors : Tensor of shape (n_labels,)
        π̂.
    weights : Tensor of shape (batch, n_labels)
        Weight of 1 − f at the observed entries, 0 elsewhere: 2π̂_j·n/n_j, so that the mean over all rows is the
        first sum.
    means : Tensor of shape (n_labels,), optional
        Mean of f over all rows, without gradient. If given, it says on which side of π̂ the mean is, and the batch only
        in which direction it moves: the modulus of a small batch's own mean has another minimum than that of
        the set's, since a rare label is in few batches.

    Examples
    --------
    >>> observed, half = torch.tensor([[1, 0]]), torch.tensor([0.5, 0.25])
    >>> class_prior_risk(torch.zeros(1, 2), observed, half, 2 * half * observed).item()
    0.75
    """
    scores = torch.sigmoid(logits)
    found = (weights * torch.sigmoid(-logits)).sum() / logits.shape[0]
    mean = scores.mean(dim=0)
    if means is not None:
        mean = means + (mean - mean.detach())
    absent = (scores * (observed < 0)).sum() / logits.shape[0]
    return found + (mean - priors).abs().sum() + absent
