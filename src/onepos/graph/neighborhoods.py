"""Which rows the graph network reads for a batch and how it pools them, looked up for several batches at once.

None of it depends on parameters, so it can be done ahead. At 16 rows a batch a look-up is two dozen calls on a few
hundred numbers each, and the calls are what it costs: for eight batches together they cost little more than for one.
Kernels, which make no calls, look up one batch at a time.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepos.graph.sparse_product import SparseBatch

Integers = NDArray[np.int64]
Numbers = NDArray[Any]

#: Up to so many entries the batch's block of Â is a dense matrix: mostly zeros, but one product is all it takes.
DENSE_POOLING = 20_000
#: Blocks of numbers begin at multiples of so many of them, which puts them on a cache line of their own.
_ALIGNED = 16


class Neighborhood(Protocol):
    """What is read for a batch of B rows.

    Attributes
    ----------
    needed : int64 array
        The different rows among those of the batch and their neighbours, ascending.
    pooling : Tensor of shape (B, len(needed)) or SparseBatch
        The batch's rows of Â, over the rows needed.
    linked : Tensor of shape (B, B)
        A within the batch: a_ij = 1 if row i is among the neighbours of row j; the rows are all different.
    """

    @property
    def needed(self) -> Integers:
        """The rows needed."""
        ...

    @property
    def pooling(self) -> Tensor | SparseBatch:
        """Rows of Â."""
        ...

    @property
    def linked(self) -> Tensor:
        """A within the batch."""
        ...


class LookedUp(NamedTuple):
    """A neighbourhood with its parts."""

    needed: Integers
    pooling: Tensor | SparseBatch
    linked: Tensor


class CompiledNeighborhood:
    """The neighbourhood of one batch, looked up by kernels, in single precision.

    Attributes
    ----------
    places : int64 array of shape (B, 1 + k)
        Where a row and its neighbours are among the rows needed.
    shares : float32 array of shape (1 + k,)
        What each of them counts in Â.

    Examples
    --------
    >>> table = np.array([[0, 1], [1, 0], [2, 1]])
    >>> found = CompiledNeighborhood(table, torch.tensor([2, 1]), 0.75, np.zeros(3, dtype=np.int32))
    >>> found.needed.tolist(), found.places.tolist(), found.linked.tolist()
    ([0, 1, 2], [[2, 1], [1, 0]], [[0.0, 0.0], [1.0, 0.0]])
    """

    def __init__(self, table: Integers, rows: Tensor, self_weight: float, seen: NDArray[np.int32]) -> None:
        from onepos.kernels.graph import distinct_rows

        self.needed, self.places = distinct_rows(table, rows.cpu().numpy(), seen)
        self.shares = _shares(table.shape[1] - 1, self_weight).astype(np.float32)

    @cached_property
    def linked(self) -> Tensor:
        """A within the batch, when somebody asks for it: for the last pass over thousands of rows nobody does."""
        from onepos.kernels.graph import links_within

        return torch.from_numpy(links_within(self.places, len(self.needed)))

    @property
    def pooling(self) -> SparseBatch:
        """Rows of Â."""
        return _sparse_pooling(self.places, len(self.needed), self.shares, torch.float32)


def look_up(
    table: Integers, batches: Sequence[Tensor], self_weight: float, dtype: torch.dtype = torch.float32
) -> list[LookedUp]:
    """Return the neighbourhood of each batch; row i of ``table`` is i itself and its neighbours.

    Examples
    --------
    >>> table = np.array([[0, 1], [1, 0], [2, 1]])
    >>> (found,) = look_up(table, [torch.tensor([2, 1])], 0.75)
    >>> found.needed.tolist(), found.pooling.tolist(), found.linked.tolist()
    ([0, 1, 2], [[0.0, 0.25, 0.75], [0.25, 0.75, 0.0]], [[0.0, 0.0], [1.0, 0.0]])
    """
    n, k = table.shape[0], table.shape[1] - 1
    sizes = np.array([len(rows) for rows in batches])
    numbers = np.arange(len(batches))
    around = table[torch.cat(list(batches)).cpu().numpy()]  # (all rows, 1 + k)
    batch = np.repeat(numbers, sizes)
    place = np.arange(len(batch)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # of a row in its batch
    # The same row counts as another one in another batch.
    needed, found = _distinct((around + (batch * n)[:, None]).reshape(-1))
    found = found.reshape(around.shape)
    firsts = np.searchsorted(needed, np.arange(len(batches) + 1) * n)
    widths = np.diff(firsts)
    needed -= np.repeat(numbers * n, widths)

    shares = _shares(k, self_weight)
    is_dense = sizes * widths <= DENSE_POOLING
    pooling, starts = _zeros(np.where(is_dense, sizes * widths, 0), dtype)
    dense = is_dense[batch]
    at = (starts[batch] + place * widths[batch] - firsts[batch])[:, None] + found
    pooling.numpy()[at if dense.all() else at[dense]] = shares

    linked, corners = _zeros(sizes * sizes, dtype)
    own = np.full(len(needed), -1)
    own[found[:, 0]] = place  # of a needed row in its batch, if it is there
    other = own[found[:, 1:]]
    column, slot = np.nonzero(other >= 0)
    linked.numpy()[corners[batch[column]] + other[column, slot] * sizes[batch[column]] + place[column]] = 1.0

    results = []
    ends = np.cumsum(sizes)
    for number, (size, width) in enumerate(zip(sizes.tolist(), widths.tolist(), strict=True)):
        first, start, corner = int(firsts[number]), int(starts[number]), int(corners[number])
        results.append(
            LookedUp(
                needed[first : first + width],
                pooling[start : start + size * width].view(size, width)
                if is_dense[number]
                else _sparse_pooling(found[ends[number] - size : ends[number]] - first, width, shares, dtype),
                linked[corner : corner + size * size].view(size, size),
            )
        )
    return results


def _shares(k: int, self_weight: float) -> Numbers:
    """What a row and each of its k neighbours count in Â."""
    shares = np.full(k + 1, (1.0 - self_weight) / max(k, 1))
    shares[0] = self_weight
    return shares


def _zeros(sizes: Integers, dtype: torch.dtype) -> tuple[Tensor, Integers]:
    """Zeros for blocks of the given sizes, and where each begins.

    In torch's memory, which is aligned, and so is each block: the last bits of a product may depend on where its
    factors lie.
    """
    ends = np.cumsum(-(-sizes // _ALIGNED) * _ALIGNED)
    starts = np.concatenate([[0], ends[:-1]])
    return torch.zeros(int(ends[-1]), dtype=dtype), starts


def _sparse_pooling(places: Integers, width: int, shares: Numbers, dtype: torch.dtype) -> SparseBatch:
    size, n_shares = places.shape
    values = np.tile(shares.astype(np.float64 if dtype == torch.float64 else np.float32), size)
    return SparseBatch(np.arange(size + 1) * n_shares, places.reshape(-1), values, width)


def _distinct(values: Integers) -> tuple[Integers, Integers]:
    """Sorted different values and the place of each value among them: ``numpy.unique``, without what it checks."""
    order = values.argsort()
    ordered = values[order]
    new = np.empty(len(values), dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    places = np.empty(len(values), dtype=np.int64)
    places[order] = new.cumsum() - 1
    return ordered[new], places
