"""The rows that a graph network reads for a batch, and how it pools them."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Neighborhood:
    """The neighbourhood of a batch of B different rows.

    Parameters
    ----------
    table : int64 array of shape (n_samples, 1 + k)
        Row i: i itself, then its k neighbours.
    rows : int64 array of shape (B,)

    Attributes
    ----------
    needed : int64 array
        The different rows among those of the batch and their neighbours, ascending.
    places : int64 array of shape (B, 1 + k)
        Where each row and its neighbours are in ``needed``.

    Examples
    --------
    >>> found = Neighborhood(np.array([[0, 1], [1, 0], [2, 1]]), np.array([2, 1]))
    >>> found.needed.tolist(), found.places.tolist(), found.linked.tolist()
    ([0, 1, 2], [[2, 1], [1, 0]], [[0.0, 0.0], [1.0, 0.0]])
    """

    def __init__(self, table: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        around = table[rows]
        self.needed, places = np.unique(around, return_inverse=True)
        self.places: NDArray[Any] = places.reshape(around.shape)

    @cached_property
    def linked(self) -> Tensor:
        """A within the batch (Eq. 7), (B, B): a_ij = 1 if row i is among the neighbours of row j."""
        size = len(self.places)
        in_batch = np.full(len(self.needed), -1)
        in_batch[self.places[:, 0]] = np.arange(size)
        neighbors = in_batch[self.places[:, 1:]]
        column, slot = np.nonzero(neighbors >= 0)
        linked = torch.zeros(size, size)
        linked.numpy()[neighbors[column, slot], column] = 1.0
        return linked
