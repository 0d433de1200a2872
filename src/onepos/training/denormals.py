"""Numbers too small for the usual form of floating point count as zero while training.

Adam's means of parameters whose gradient is zero for some hundred steps, those of a rare word's weights, shrink to
such denormal numbers, on which a processor takes many times as long: with sparse features and small batches the
optimiser soon takes most of a step. No result depends on whether a mean is 10⁻⁴⁰ or 0.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Run the body with denormal numbers taken as zero, and put back what was set before.

    It holds for the calling thread, which is the one that trains small networks; threads that torch keeps for large
    ones go on as they were. Processors that cannot do it do nothing.

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
