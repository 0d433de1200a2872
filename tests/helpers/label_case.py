"""Logits and labels of every kind to compare losses on."""

import torch


def label_case(seed=0):
    """Return float64 logits of five rows and six labels, and labels: one observed a row, one known to be absent."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(5, 6, dtype=torch.float64, generator=generator)
    observed = torch.eye(6, dtype=torch.int8)[[0, 2, 3, 5, 1]]
    observed[0, 4] = -1
    return logits, observed, generator
