"""The other processes: who they are, and what a training run says to them.

torchrun starts the same program several times. Each process holds the same weights, computes its rows of every batch,
and the sum of their gradients makes the same step everywhere. Lightning Fabric joins the processes, over gloo or nccl
as the device asks for; nothing here starts one. Without torchrun there is one process, and none of this costs anything.
"""

import atexit
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from onepos._utils.launch import launched, launched_rank
from onepos._utils.optional import require
from onepos.exceptions import LostProcessError

# Which rows of a batch a process computes, and how the processes put theirs together.


class Part:
    """All rows of a batch: there is one process. Its methods return what they are given.

    A method whose losses look at the network's logits alone needs none of this: with several processes the network
    returns the logits of the whole batch. A method with further models calls them for ``Batch.own_rows``.
    """

    #: Whether other processes compute other rows.
    shared = False

    def own(self, whole: Tensor) -> Tensor:
        """Rows of this process, of a tensor with one entry for each row of the batch."""
        return whole

    def gather(self, own: Tensor) -> Tensor:
        """Rows of the whole batch from those of each process; the gradient goes to the process's own."""
        return own

    def total(self, partial: Tensor) -> Tensor:
        """Sum of all processes' numbers; the gradient is that of the process's own."""
        return partial

    def mean(self, own: Tensor) -> Tensor:
        """Mean over the whole batch, from the mean over the rows of each process; the gradient is of its own share."""
        return own

    def draw_rows(self) -> tuple[int, int, int] | None:
        """Return (first, last, of how many) for what is drawn for the whole batch; None: for all."""
        return None


#: The part of a process without others.
WHOLE = Part()


class OwnPart(Part):
    """Equal, consecutive parts of the batch, in the order of the processes; the last may be shorter, or empty.

    Parameters
    ----------
    processes : Processes
    n_rows : int
        Rows of the whole batch.
    """

    shared = True

    def __init__(self, processes: "Processes", n_rows: int) -> None:
        self.processes, self.n_rows = processes, n_rows
        self.step = -(-n_rows // processes.size)
        first = min(processes.rank * self.step, n_rows)
        self.rows = slice(first, min(first + self.step, n_rows))

    def own(self, whole: Tensor) -> Tensor:
        """Rows of this process."""
        return whole[self.rows]

    def gather(self, own: Tensor) -> Tensor:
        """Rows of all processes, in order."""
        gathered: Tensor = _Gather.apply(own, self)  # type: ignore[no-untyped-call]
        return gathered

    def total(self, partial: Tensor) -> Tensor:
        """Sum over processes."""
        total: Tensor = _Total.apply(partial, self)  # type: ignore[no-untyped-call]
        return total

    def mean(self, own: Tensor) -> Tensor:
        """Weighted by rows; a process without any has no mean, and adds nothing."""
        size = self.rows.stop - self.rows.start
        return self.total(own * (size / self.n_rows) if size else torch.nan_to_num(own) * 0.0)

    def draw_rows(self) -> tuple[int, int, int] | None:
        """Own rows among those of the batch."""
        return self.rows.start, self.rows.stop, self.n_rows


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, part: OwnPart) -> Tensor:
        ctx.rows = part.rows
        if len(own) < part.step:
            padded = own.new_zeros((part.step, *own.shape[1:]))
            padded[: len(own)] = own
            own = padded
        return part.processes.stack(own).flatten(0, 1)[: part.n_rows]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        # Every process computes the same loss of the whole; each differentiates it by its own rows, and the sum over
        # processes of what follows is the gradient.
        return gradients[0][ctx.rows], None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, partial: Tensor, part: OwnPart) -> Tensor:
        return part.processes.sum([partial])[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


_Value = TypeVar("_Value")

#: How long a process waits for an answer from the others. One that ends is noticed at once; this is for a machine that
#: vanishes. Waiting for work that process 0 does for all has no limit.
PATIENCE = timedelta(minutes=30)


class Processes:
    """One process without others: everything it asks of them, it answers itself."""

    rank = 0
    size = 1
    #: Whether all processes are on this machine.
    near = True

    def part(self, n_rows: int) -> Part:
        """Return which rows this process computes of a batch of ``n_rows``."""
        return WHOLE

    def sum(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Add up each tensor over the processes, in one message."""
        return tensors

    def stack(self, own: Tensor) -> Tensor:
        """Return the tensors of all processes, which have equal shapes, as (size, …)."""
        return own[None]

    def agree(self, value: _Value) -> _Value:
        """Return process 0's value in all of them."""
        return value

    def gather_values(self, value: _Value) -> list[_Value]:
        """Return the values of all processes in all of them, in order."""
        return [value]

    def same_start(self, module: nn.Module) -> None:
        """Give all processes process 0's weights."""

    def first(self, do: Callable[[], None]) -> None:
        """Let process 0 do something that all need while the others wait, for as long as it takes."""
        do()

    def wait(self) -> None:
        """Wait until all processes are here."""


#: What there is without torchrun.
ALONE = Processes()


class Together(Processes):
    """A process and the others of its torchrun; see ``Processes`` for what the methods mean."""

    def __init__(self, fabric: Any) -> None:
        from torch import distributed

        self._fabric, self._distributed = fabric, distributed
        self.rank, self.size = int(fabric.global_rank), int(fabric.world_size)
        self._near_size = int(os.environ["LOCAL_WORLD_SIZE"])
        self.near = self._near_size == self.size

    def part(self, n_rows: int) -> Part:
        """An equal share of the rows, in order."""
        return OwnPart(self, n_rows)

    def sum(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """One flat message for all of them: most of its cost is that it is sent at all."""
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        flat = self._sent(flat)
        with _answers():
            self._distributed.all_reduce(flat)
        flat = flat.to(tensors[0].device)
        sizes = [tensor.numel() for tensor in tensors]
        return [piece.view_as(tensor) for piece, tensor in zip(torch.split(flat, sizes), tensors, strict=True)]

    def stack(self, own: Tensor) -> Tensor:
        """All processes' tensors."""
        sent = self._sent(own.detach().contiguous())
        whole = sent.new_empty((self.size, *sent.shape))
        with _answers():
            self._distributed.all_gather(list(whole.unbind()), sent)
        return whole.to(own.device)

    def agree(self, value: _Value) -> _Value:
        """Process 0's value."""
        with _answers():
            agreed: _Value = self._fabric.broadcast(value)
        return agreed

    def gather_values(self, value: _Value) -> list[_Value]:
        """Everybody's value."""
        values: list[Any] = [None] * self.size
        with _answers():
            self._distributed.all_gather_object(values, value)
        return values

    def same_start(self, module: nn.Module) -> None:
        """Process 0's parameters and stored buffers."""
        for value in module.state_dict().values():
            sent = self._sent(value)
            with _answers():
                self._distributed.broadcast(sent, 0)
            if sent is not value:
                value.copy_(sent)

    def first(self, do: Callable[[], None]) -> None:
        """In process 0, with the threads of all that wait on its machine; if it fails there, it has failed for all."""
        failure: Exception | None = None
        with _answers(), self._fabric.rank_zero_first():
            if self.rank == 0:
                try:
                    with threadpool_limits(self._near_size * torch.get_num_threads()):
                        do()
                except Exception as error:
                    failure = error
        failed = self.agree(None if failure is None else f"{type(failure).__name__}: {failure}")
        if failure is not None:
            raise failure
        if failed is not None:
            raise LostProcessError(f"process 0 could not make what all processes need: {failed}")

    def _sent(self, tensor: Tensor) -> Tensor:
        """Where the connection takes it from: nccl sends from GPUs alone."""
        return tensor.to(self._fabric.device)

    def wait(self) -> None:
        """Barrier."""
        with _answers():
            self._fabric.barrier()


#: The processes that were joined, and for which device; empty before.
_joined: list[tuple[Together, str]] = []


def join(device: str = "cpu") -> Processes:
    """Return the processes that torchrun started, which ``device`` is where they train, or this one alone."""
    if not launched():
        return ALONE
    if device not in ("cpu", "cuda"):
        raise ValueError(f"with several processes device must be 'cpu', or 'cuda' for a GPU each; got {device!r}.")
    joined, of_device = _join(device)
    if device != of_device:
        raise ValueError(
            f"these processes have trained on device={of_device!r} and are joined for that; got device={device!r}: "
            "start them again for another device."
        )
    return joined


def _join(device: str) -> tuple[Together, str]:
    """Connect in the first call, for good: torch joins processes once."""
    if not _joined:
        _joined.append((_connect(device), device))
    return _joined[0]


def _connect(device: str) -> Together:
    fabric = require("lightning_fabric", extra="distributed", purpose="training in several processes")
    environments = require("lightning_fabric.plugins.environments", extra="distributed", purpose="the same")
    strategies = require("lightning_fabric.strategies", extra="distributed", purpose="the same")
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    if device == "cuda" and torch.cuda.device_count() < here:
        raise ValueError(
            f"expected a GPU for each of the {here} processes on this machine; found {torch.cuda.device_count()}: "
            "lower --nproc-per-node, or train with device='cpu'."
        )
    # It announces itself on standard error, in every process.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    # The rank's environment is named: within a Slurm job Fabric could take that for what started the processes.
    strategy = strategies.DDPStrategy(timeout=PATIENCE, cluster_environment=environments.TorchElasticEnvironment())
    made = fabric.Fabric(
        accelerator=device, devices=here, num_nodes=int(os.environ["WORLD_SIZE"]) // here, strategy=strategy
    )
    with _answers():
        made.launch()
    together = Together(made)
    atexit.register(_leave)
    return together


def _leave() -> None:
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def _answers() -> Iterator[None]:
    """Take an error of the connection for what it is: somebody is gone."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, LostProcessError):
            raise
        # Without the place in gloo's source, with which it begins.
        reason = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip().splitlines()[0])[:80]
        raise LostProcessError(
            f"process {launched_rank()} lost the others: one of them ended or does not answer ({reason}). Look for its "
            "own message, then start the run again with the same arguments; with a checkpoint it goes on after the "
            "last complete epoch."
        ) from error


# One forward pass by several processes: each computes its rows of the batch, all get the logits of the whole.


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
    present = WHOLE

    def told(part: Part) -> None:
        nonlocal present
        present = part

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
