"""How many threads a training run gets: chosen from the work in a step, not inherited from the machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import scipy.linalg  # noqa: F401  # so that its BLAS, with which kernels multiply, is loaded when it is limited
import torch
from threadpoolctl import threadpool_limits

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
