"""How a training run uses the processor: number of threads, denormal numbers, precision."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

#: Below this many floating-point operations per step, waking a second thread costs more than it computes. On a machine
#: that is busy with other work the threads of a small step wait for each other: a fit took 18 times as long with two.
SERIAL_WORK = 1e9


def useful_threads(batch_size: int, n_parameters: int) -> int:
    """One thread for small steps, torch's own number for large ones.

    A forward and backward pass of a dense network costs about six operations per parameter and row.
    """
    return 1 if 6.0 * batch_size * n_parameters < SERIAL_WORK else torch.get_num_threads()


@contextmanager
def limited_threads(number: int) -> Iterator[None]:
    """Run the body with ``number`` threads of torch, and of NumPy and SciPy, and put back what was set before."""
    before = torch.get_num_threads()
    with threadpool_limits(number, user_api="blas"):
        # After the others: what they say to a library that torch uses too must not be the last word.
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Run the body with denormal numbers taken as zero, and put back what was set before.

    It applies to the calling thread, which is the one that trains small networks. Processors that cannot do it do
    nothing.

    Examples
    --------
    >>> small = torch.tensor([1e-30])
    >>> with flushed_denormals():
    ...     inside = float(small * 1e-10)
    >>> inside, float(small * 1e-10) > 0.0  # on processors that can
    (0.0, True)
    """
    if torch.get_num_threads() > 1:
        torch.zeros(1 << 17).add_(1.0)  # starts torch's threads: started in the body, they would keep it for good
    if _are_flushed() or not torch.set_flush_denormal(True):
        yield
        return
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _are_flushed() -> bool:
    return float(torch.tensor(1e-30, dtype=torch.float32, device="cpu") * 1e-10) == 0.0


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
