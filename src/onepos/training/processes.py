"""The other processes of a torchrun, and what a training run asks of them.

torchrun starts the same program several times. Every process holds the same weights and computes the loss of its own
portion of each batch. The gradients are averaged by ``torch.distributed.all_reduce``, so that all processes take the
same step. DistributedDataParallel is no option: it expects one backward pass through one module, and an objective may
yield several losses, each for its own parameters. Without torchrun there is one process and no communication.
"""

import atexit
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, distributed, nn

from onepos._utils.machine import launched, launched_rank
from onepos.exceptions import LostProcessError

_Value = TypeVar("_Value")

#: How long a process waits for an answer. A process that ends is noticed at once; this is for a machine that vanishes.
PATIENCE = timedelta(minutes=30)
#: How long it waits for work that process 0 does for all.
_ENDLESS = timedelta(days=3650)


class Processes:
    """One process without others."""

    rank = 0
    size = 1

    def sum(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the sum of each tensor over the processes."""
        return tensors

    def agree(self, value: _Value) -> _Value:
        """Return process 0's value in all processes."""
        return value

    def gather_values(self, value: _Value) -> list[_Value]:
        """Return the values of all processes, in the order of their ranks."""
        return [value]

    def first(self, make: Callable[[], _Value]) -> _Value:
        """Let process 0 make a value while the others wait; return it in all processes."""
        return make()

    def same_state(self, module: nn.Module) -> None:
        """Give all processes process 0's parameters and buffers."""


#: What there is without torchrun.
ALONE = Processes()


class _Together(Processes):
    """A process and the others of its torchrun."""

    def __init__(self, device: str) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        with _answers():
            distributed.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=PATIENCE)
            self._endless = distributed.new_group(backend="gloo", timeout=_ENDLESS)
        atexit.register(distributed.destroy_process_group)

    def sum(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        # One message for all of them: the number of messages costs more than their size.
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        with _answers():
            distributed.all_reduce(flat)
        pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
        return [piece.view_as(tensor).to(tensor.dtype) for piece, tensor in zip(pieces, tensors, strict=True)]

    def agree(self, value: _Value) -> _Value:
        return self._broadcast(value, None)

    def gather_values(self, value: _Value) -> list[_Value]:
        values: list[Any] = [None] * self.size
        with _answers():
            distributed.all_gather_object(values, value)
        return values

    def first(self, make: Callable[[], _Value]) -> _Value:
        made, failure = None, None
        if self.rank == 0:
            try:
                # The others of this machine wait, so their threads are free.
                with threadpool_limits(int(os.environ["LOCAL_WORLD_SIZE"]) * torch.get_num_threads()):
                    made = make()
            except Exception as error:
                failure = error
        said = None if failure is None else f"{type(failure).__name__}: {failure}"
        value, failed = self._broadcast((made, said), self._endless)
        if failure is not None:
            raise failure
        if failed is not None:
            raise LostProcessError(f"process 0 could not make what all processes need: {failed}")
        return value  # type: ignore[return-value]

    def same_state(self, module: nn.Module) -> None:
        for value in module.state_dict().values():
            with _answers():
                distributed.broadcast(value, 0)

    def _broadcast(self, value: _Value, group: Any) -> _Value:
        values = [value]
        with _answers():
            distributed.broadcast_object_list(values, 0, group)
        return values[0]


#: The connection and its device. torch connects processes once in the life of a program.
_joined: list[tuple[_Together, str]] = []


def join(device: str = "cpu") -> Processes:
    """Return the processes that torchrun started, connected for training on ``device``, or this one alone."""
    if not launched():
        return ALONE
    if device not in ("cpu", "cuda"):
        raise ValueError(f"with several processes device must be 'cpu', or 'cuda' for a GPU each; got {device!r}.")
    if not _joined:
        if device == "cuda":
            _take_gpu()
        _joined.append((_Together(device), device))
    joined, of_device = _joined[0]
    if device != of_device:
        raise ValueError(
            f"these processes were connected for device={of_device!r}; got device={device!r}: start them again for "
            "another device."
        )
    return joined


def _take_gpu() -> None:
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.cuda.device_count() < here:
        raise ValueError(
            f"expected a GPU for each of the {here} processes on this machine; found {torch.cuda.device_count()}: "
            "lower --nproc-per-node, or train with device='cpu'."
        )
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


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
