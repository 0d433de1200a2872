"""One forward pass by several processes: each computes its rows of the batch, all get the logits of the whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from onepos.networks import Dropout
from onepos.training.parts import WHOLE, Part


@contextmanager
def shared_forward(network: nn.Module, *, several: bool) -> Iterator[Callable[[Part], None]]:
    """Let the network return the logits of the whole batch while it is in training mode, as one process would see them.

    A loss may look at its batch as a whole (the number of positives, the largest losses, a running mean): computed from
    all logits in every process, it is what a single process computes, and so is what the method keeps from it. It costs
    little beside the network.

    Yields a function that is told the part before each batch. With one process nothing is changed.
    """
    if not several:
        yield lambda part: None
        return
    # What forward_precision has put there, if anything.
    before = network.__dict__.get("forward")
    forward = network.forward
    dropouts = [module for module in network.modules() if isinstance(module, Dropout)]
    present = WHOLE

    def told(part: Part) -> None:
        nonlocal present
        present = part
        for dropout in dropouts:
            dropout.rows = part.draw_rows()

    def whole(*inputs: Any) -> Tensor:
        logits: Tensor = forward(*inputs)
        return present.gather(logits) if network.training else logits

    network.forward = whole
    try:
        yield told
    finally:
        told(WHOLE)
        if before is None:
            del network.forward
        else:
            network.forward = before
