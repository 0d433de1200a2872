"""How a training run uses the processor: number of threads, denormal numbers, precision."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from threadpoolctl import threadpool_info, threadpool_limits
from torch import Tensor, nn

#: Below this many floating-point operations per step, a second thread costs more than it computes. Two epochs on 6,287
#: rows of 10,000 words in batches of 128 (2.5e9 operations), on two cores with other work: ``smile`` 4.7 s of CPU time
#: with one thread and 28.6 s with two, ``capped`` 1.0 s and 7.6 s.
SERIAL_WORK = 1e10
#: How often a network of the user's own is taken to use each weight: convolutions use theirs many times.
_REUSE = 10


def useful_threads(batch_size: int, n_parameters: int, *, own: bool = False) -> int:
    """One thread for small steps, torch's own number for large ones; ``own``: the user brought the network.

    A forward and backward pass of a dense network costs about six operations per parameter and row.
    """
    work = 6.0 * batch_size * n_parameters * (_REUSE if own else 1)
    return 1 if work < SERIAL_WORK else torch.get_num_threads()


def usable_device(name: str) -> str:
    """Return "cpu" if ``name`` is a device that torch knows and this machine lacks, else ``name``.

    Examples
    --------
    >>> usable_device("cpu"), usable_device("cuda:99"), usable_device("meta")
    ('cpu', 'cpu', 'cpu')
    """
    kind = name.partition(":")[0]
    if kind not in ("cuda", "mps", "xpu"):
        return "cpu" if kind in ("cpu", "meta") else name
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):  # no driver, no such number, or torch was built without it
        return "cpu"
    return name


def check_device(name: str) -> None:
    """Raise ValueError unless torch can compute on this device here.

    Examples
    --------
    >>> check_device("cpu")
    >>> check_device("meta")
    Traceback (most recent call last):
    ValueError: device must be one that torch can use on this machine, such as 'cpu'; got 'meta'.
    """
    if name == "cpu":
        return
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError):  # torch has no one error for it
        usable = "'cpu' or 'cuda'" if torch.cuda.is_available() else "'cpu'"
        raise ValueError(
            f"device must be one that torch can use on this machine, such as {usable}; got {name!r}."
        ) from None


class _Bodies:
    """The bodies of ``limited_threads`` that run now, in all Python threads."""

    lock = threading.Lock()
    running = 0
    overlapped = False
    usual: ClassVar[list[dict[str, Any]]] = []


@contextmanager
def limited_threads(number: int) -> Iterator[None]:
    """Run the body with ``number`` threads of torch, and of NumPy and SciPy, and put back what was set before.

    NumPy and SciPy have one number for all Python threads. A body that begins beside another would take the other's
    number for the usual one, so the last to end sets the usual one again.
    """
    before = torch.get_num_threads()
    with _Bodies.lock:
        if not _Bodies.running:
            _Bodies.usual = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        _Bodies.overlapped |= _Bodies.running > 0
        _Bodies.running += 1
    try:
        with threadpool_limits(number, user_api="blas"):
            # After the others: what they say to a library that torch uses too must not be the last word.
            torch.set_num_threads(number)
            yield
    finally:
        torch.set_num_threads(before)
        with _Bodies.lock:
            _Bodies.running -= 1
            if not _Bodies.running and _Bodies.overlapped:
                _Bodies.overlapped = False
                threadpool_limits(_Bodies.usual)
                with threadpool_limits(_Bodies.usual):  # its end lets other threads set limits again
                    pass


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
