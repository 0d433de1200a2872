"""Which rows of a batch a process computes, and how the processes put theirs together."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from onepos.training.processes import Processes


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
