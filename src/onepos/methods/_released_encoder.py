"""The graph encoder of SMILE as released, computed on a batch's two-hop neighbourhood only.

Row u lists its k nearest neighbours and sends to them: node v receives from the rows that list it. With
P_vu = 1/(√deg_out(u)·√deg_in(v)) for u → v and 0 otherwise, the encoder over the whole graph is

    logits = ( P · ReLU( P X W₁ + b₁ ) · W₂ + b₂ ) · W₃ + b₃.

PX is computed once. A batch then needs ReLU(·) at its in-neighbours alone, k a row on average, instead of all n rows.
In-degrees differ, so the in-neighbours are a CSR list; a node that nobody lists has an empty one and receives only the
biases.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos.features import gather
from onepos.graph import adjacency
from onepos.networks import linear


def in_edges(neighbors: NDArray[np.int64]) -> Any:
    """P of shape (n, n), CSR in float64: row v holds 1/(√k·√deg_in(v)) at the rows u that list v as a neighbour.

    Examples
    --------
    >>> in_edges(np.array([[1], [0], [1]])).toarray().round(3).tolist()
    [[0.0, 1.0, 0.0], [0.707, 0.0, 0.707], [0.0, 0.0, 0.0]]
    """
    n_samples, n_neighbors = neighbors.shape
    listed_by = adjacency(neighbors, n_samples)
    in_degree = np.diff(listed_by.indptr)
    weights = np.repeat(1.0 / np.sqrt(n_neighbors * np.maximum(in_degree, 1.0)), in_degree)
    return sparse.csr_array((weights, listed_by.indices, listed_by.indptr), shape=listed_by.shape)


class GraphConvolution(nn.Linear):
    """The weight and bias of a graph convolution: Glorot-uniform weights and a bias of zero, as DGL starts it."""

    def __init__(self, n_inputs: int, n_outputs: int, generator: torch.Generator | None) -> None:
        super().__init__(n_inputs, n_outputs, device="meta")
        self.to_empty(device="cpu")
        bound = (6.0 / (n_inputs + n_outputs)) ** 0.5
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()


class ReleasedEncoder(nn.Module):
    """Rows → logits of their soft labels d: graph convolution, ReLU, graph convolution, linear layer.

    Parameters
    ----------
    aggregated : Tensor or CSR array of shape (n_samples, n_features)
        PX.
    edges : CSR array of shape (n_samples, n_samples)
        P, from ``in_edges``.
    n_hidden, n_labels : int
    """

    aggregated: Any
    starts: Tensor
    sources: Tensor
    weights: Tensor

    def __init__(
        self, aggregated: Any, edges: Any, n_hidden: int, n_labels: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        # Not persistent: the graph belongs to the training set, not to the saved state.
        if isinstance(aggregated, Tensor):
            self.register_buffer("aggregated", aggregated, persistent=False)
        else:
            self.aggregated = aggregated
        self.register_buffer("starts", torch.from_numpy(edges.indptr.astype(np.int64)), persistent=False)
        self.register_buffer("sources", torch.from_numpy(edges.indices.astype(np.int64)), persistent=False)
        self.register_buffer("weights", torch.from_numpy(edges.data.astype(np.float32)), persistent=False)
        self.first = GraphConvolution(aggregated.shape[1], n_hidden, generator)
        self.second = GraphConvolution(n_hidden, n_labels, generator)
        self.last = linear(n_labels, n_labels, generator)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of d for the given rows, shape (batch, n_labels)."""
        start = self.starts[rows]
        in_degree = self.starts[rows + 1] - start
        targets = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), in_degree)  # (edges,)
        # The e-th edge is its target's (e − edges before that target)-th one.
        before = in_degree.cumsum(0) - in_degree
        edges = torch.arange(len(targets), device=rows.device) + (start - before)[targets]
        hidden = torch.relu(self.first(gather(self.aggregated, self.sources[edges])))  # (edges, h)
        received = hidden * self.weights[edges, None]
        pooled = received.new_zeros(len(rows), hidden.shape[1]).index_add(0, targets, received)  # (batch, h)
        logits: Tensor = self.last(self.second(pooled))
        return logits
