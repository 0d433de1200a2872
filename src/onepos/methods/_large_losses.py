"""Large-loss rejection and correction, as pure functions of logits (Kim et al., CVPR 2022)."""

import math

import torch
from torch import Tensor

from onepos.losses import assume_negative, binary_cross_entropy


def n_large(n_entries: int, rate: float) -> int:
    """K = ⌈rate · entries⌉; the product's rounding error does not count."""
    return max(0, math.ceil(rate * n_entries - 1e-9))


def largest_unknown(logits: Tensor, observed: Tensor, number: int) -> Tensor:
    """Mark the unknown entries with the ``number`` largest assume-negative losses, at most all of them.

    The loss of an unknown entry, log(1 + e^z), rises with its logit z, so the largest logits are looked for. Exactly
    that many are marked, whatever the ties; observed and known entries never are.

    Parameters
    ----------
    logits, observed : Tensor of shape (batch, n_labels)
    number : int

    Returns
    -------
    bool Tensor of shape (batch, n_labels)
    """
    unknown = (observed == 0).flatten()
    marked = torch.zeros_like(unknown)
    number = min(number, int(unknown.sum()))
    if number:
        candidates = logits.detach().flatten().masked_fill(~unknown, -torch.inf)
        marked[torch.topk(candidates, number).indices] = True
    return marked.view_as(observed)


def reject(logits: Tensor, observed: Tensor, marked: Tensor) -> Tensor:
    """LL-R: assume-negative loss, 0 at the marked entries."""
    return binary_cross_entropy(logits, observed.clamp(min=0).to(logits.dtype), (~marked).to(logits.dtype))


def correct(logits: Tensor, observed: Tensor, marked: Tensor) -> Tensor:
    """LL-Ct, and LL-Cp in the step that marks: assume-negative loss, the marked entries taken for observed."""
    return assume_negative(logits, observed.masked_fill(marked, 1))
