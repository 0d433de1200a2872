"""How a training run uses the machine: devices, threads, precision, and the other processes of a torchrun.

torchrun starts the same program several times. Every process holds the same weights and computes the loss of its own
portion of each batch; ``all_reduce`` averages the gradients, so that all take the same step. DistributedDataParallel is
no option: an objective may yield several losses, each for its own parameters.
"""

import atexit
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, distributed, nn

from onepos._utils.machine import launched, launched_rank
from onepos.exceptions import LostProcessError

#: Below this many floating-point operations per step, a second thread costs more than it computes: at 2.5e9, ``smile``
#: takes 4.7 s of CPU time with one thread and 28.6 s with two.
SERIAL_WORK = 1e10
#: How often a network of the user's own is taken to use each weight: convolutions use theirs many times.
_REUSE = 10


def useful_threads(batch_size: int, n_parameters: int, *, own: bool = False) -> int:
    """One thread for small steps, torch's own number for large ones; ``own``: the user brought the network."""
    # A forward and backward pass of a dense network costs about six operations per parameter and row.
    work = 6.0 * batch_size * n_parameters * (_REUSE if own else 1)
    return 1 if work < SERIAL_WORK else torch.get_num_threads()


def usable_device(name: str) -> str:
    """Return "cpu" if ``name`` is a device that torch knows and this machine lacks, else ``name``, which must exist."""
    kind = name.partition(":")[0]
    if kind in ("cpu", "meta") or (kind in ("cuda", "mps", "xpu") and not _computes(name)):
        return "cpu"
    check_device(name)
    return name


def check_device(name: str) -> None:
    """Raise ValueError unless torch can compute on this device here."""
    if name != "cpu" and not _computes(name):
        usable = "'cpu' or 'cuda'" if torch.cuda.is_available() else "'cpu'"
        raise ValueError(f"device must be one that torch can use on this machine, such as {usable}; got {name!r}.")


def _computes(device: str) -> bool:
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError):  # torch has no one error for it
        return False
    return True


@contextmanager
def limited_threads(number: int) -> Iterator[None]:
    """Run the body with ``number`` threads of torch, NumPy and SciPy, and restore the numbers."""
    before = torch.get_num_threads()
    try:
        with threadpool_limits(number, user_api="blas"):
            # After the others, which may set a library that torch uses too.
            torch.set_num_threads(number)
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Run the body with denormal numbers, to which Adam's means fade, taken as zero in this thread, where possible."""
    if torch.get_num_threads() > 1:
        torch.zeros(1 << 17).add_(1.0)  # starts torch's threads: started in the body, they would keep it for good
    flushed = float(torch.tensor(1e-30, dtype=torch.float32, device="cpu") * 1e-10) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


#: Type of the forward passes; weights, losses and the optimiser's steps are float32 in either case.
PRECISIONS: tuple[str, ...] = ("float32", "bfloat16")


@contextmanager
def forward_precision(network: nn.Module, precision: str, device: str) -> Iterator[None]:
    """Run the network's forward passes of the body under autocast, with logits in float32; float32 changes nothing.

    Losses see float32: sums over labels and logarithms of small probabilities have no digits left in eight bits.
    """
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


_Value = TypeVar("_Value")

#: How long a process waits for an answer. A process that ends is noticed at once; this is for a machine that vanishes.
_PATIENCE = timedelta(minutes=30)


@dataclass(eq=False)
class Processes:
    """A process and the others of its torchrun, if there are any."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    def sum(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the sum of each tensor over the processes."""
        if self.size == 1:
            return tensors
        # One message for all of them: the number of messages costs more than their size.
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        with _answers():
            distributed.all_reduce(flat)
        pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
        return [piece.view_as(tensor).to(tensor.dtype) for piece, tensor in zip(pieces, tensors, strict=True)]

    def agree(self, value: _Value) -> _Value:
        """Return process 0's value in all processes."""
        values = [value]
        if self.size > 1:
            with _answers():
                distributed.broadcast_object_list(values, 0)
        return values[0]

    def gather_values(self, value: _Value) -> list[_Value]:
        """Return the values of all processes, in the order of their ranks."""
        values = [value] * self.size
        if self.size > 1:
            with _answers():
                distributed.all_gather_object(values, value)
        return values

    def same_state(self, module: nn.Module) -> None:
        """Give all processes process 0's parameters and buffers."""
        for value in module.state_dict().values():
            with _answers():
                distributed.broadcast(value, 0)


#: The one process of a program that torchrun did not start.
ALONE = Processes()
#: The connection. torch connects processes once in the life of a program.
_joined: list[Processes] = []


def join(device: str = "cpu") -> Processes:
    """Return the processes that torchrun started, connected for training on ``device``, or this one alone."""
    if not launched():
        return ALONE
    if device not in ("cpu", "cuda"):
        raise ValueError(f"with several processes device must be 'cpu', or 'cuda' for a GPU each; got {device!r}.")
    if not _joined:
        if device == "cuda":
            here = int(os.environ["LOCAL_WORLD_SIZE"])
            if torch.cuda.device_count() < here:
                raise ValueError(
                    f"expected a GPU for each of the {here} processes on this machine; found "
                    f"{torch.cuda.device_count()}: lower --nproc-per-node, or train with device='cpu'."
                )
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        with _answers():
            distributed.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
        atexit.register(distributed.destroy_process_group)
        _joined.append(Processes(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device))
    if device != _joined[0].device:
        raise ValueError(
            f"these processes were connected for device={_joined[0].device!r}; got device={device!r}: start them again "
            "for another device."
        )
    return _joined[0]


@contextmanager
def _answers() -> Iterator[None]:
    """Turn an error of the connection into one that says what to do."""
    try:
        yield
    except RuntimeError as error:
        # Without the place in gloo's source, with which it begins.
        reason = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip().splitlines()[0])[:80]
        raise LostProcessError(
            f"process {launched_rank()} lost the others: one of them ended or does not answer ({reason}). Look for its "
            "own message, then start the run again with the same arguments; with a checkpoint it goes on after the "
            "last complete epoch."
        ) from error
