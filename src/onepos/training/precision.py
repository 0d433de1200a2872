"""In which numbers a network's forward passes are computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

#: Type of the forward passes; weights, losses and the optimiser's steps are float32 in either case.
PRECISIONS: tuple[str, ...] = ("float32", "bfloat16")


@contextmanager
def forward_precision(network: nn.Module, precision: str, device: str) -> Iterator[None]:
    """Run the network's forward passes of the body under autocast, with logits in float32; float32 changes nothing.

    Losses see float32: sums over labels and logarithms of small probabilities have no digits left in eight bits.

    Examples
    --------
    >>> network = nn.Linear(1, 1)
    >>> with forward_precision(network, "bfloat16", "cpu"):
    ...     network(torch.ones(1, 1)).dtype
    torch.float32
    """
    if precision == "float32":
        yield
        return
    forward, kind = network.forward, torch.device(device).type

    def cast(*inputs: Any) -> Tensor:
        with torch.autocast(kind, dtype=getattr(torch, precision)):
            logits: Tensor = forward(*inputs)
        return logits.float()

    # On the object, not around it: names of parameters and what methods know of the network stay as they are.
    network.forward = cast
    try:
        yield
    finally:
        del network.forward
