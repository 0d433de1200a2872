"""A graph network of two layers on the batch's neighbourhood, for any sparse graph over the rows."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos.graph.neighbors import neighbor_means
from onepos.methods.smile.encoder import sparse_if_it_pays, sparse_product
from onepos.training.objective import gather


def adjacency(indices: NDArray[np.int64], n: int) -> Any:
    """Adjacency of Eq. 7, float32 CSR (n, n): a_ij = 1 if row j of ``indices``, (n, k), lists i, else 0.

    Examples
    --------
    >>> adjacency(np.array([[1], [0], [1]]), 3).toarray().astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    """
    lists = neighbor_means(indices, n)
    lists.data[:] = 1.0
    return lists.T.tocsr()


class GraphNetwork(nn.Module):
    """Rows → P · ReLU(PX W₁ + b₁) · W₂ + b₂, by the two given layers.

    Few entries of a row of P are not zero, so a batch needs (PX) only at the rows that its own rows of P name.

    Parameters
    ----------
    aggregated : Tensor, CSR array or DiskRows of shape (n_samples, n_features)
        PX, computed once.
    graph : CSR array of shape (n_samples, n_samples)
        P.
    """

    def __init__(self, aggregated: Any, graph: Any, first: nn.Linear, second: nn.Linear) -> None:
        super().__init__()
        self.aggregated, self.graph = sparse_if_it_pays(aggregated), graph
        self.first_weight = nn.Parameter(first.weight.detach().T.contiguous())  # as the sparse product needs it
        self.first_bias, self.second = first.bias, second

    def forward(self, rows: Tensor) -> Tensor:
        """Return the outputs of the given rows, shape (batch, outputs of the second layer)."""
        graph = self.graph[rows.cpu().numpy()]  # the batch's rows of P
        columns = torch.from_numpy(graph.indices.astype(np.int64))
        weights = torch.from_numpy(graph.data).to(self.first_weight).unsqueeze(1)
        owners = torch.from_numpy(np.repeat(np.arange(len(rows)), np.diff(graph.indptr))).to(rows.device)
        if sparse.issparse(self.aggregated) and rows.device.type == "cpu":
            hidden = sparse_product(self.aggregated[columns.numpy()], self.first_weight) + self.first_bias
        else:
            inputs = gather(self.aggregated, columns.to(rows.device))
            hidden = torch.addmm(self.first_bias, inputs, self.first_weight)
        hidden = torch.relu(hidden) * weights
        output: Tensor = self.second(hidden.new_zeros(len(rows), hidden.shape[1]).index_add(0, owners, hidden))
        return output

    def linked(self, rows: Tensor) -> Tensor:
        """Return A within the given rows, all different: a_ij = 1 if P names row i for row j, a neighbour."""
        places = rows.cpu().numpy()
        linked = (self.graph[places][:, places] != 0).toarray().T
        np.fill_diagonal(linked, False)
        return torch.from_numpy(linked.astype(np.float32))
