"""SMILE's graph over the training rows, and its inference model w₁: a graph network on the batch's neighbourhood.

Over the whole graph the network is ``P · ReLU(P X W₁) · W₂``, with P sparse, (n_samples, n_samples). Few entries of a
row of P are not zero, so a batch needs (PX) only at the rows that its own rows of P name, not a pass over all n nodes.
If PX is mostly zeros, its product with W₁ is sparse.
"""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos._utils.context import time_left
from onepos.graph.neighbors import NeighborGraph, SearchKind, aggregated_rows, neighbor_graph, usable_neighbors
from onepos.training import Rows
from onepos.training.networks import embedder, linear, outputs_of_all
from onepos.training.objective import as_features, gather, on_device

#: Up to this share of stored entries, the sparse product is the faster one.
SPARSE_BELOW = 0.2
#: Share of a row itself in Â; its neighbours have the rest together.
SELF_WEIGHT = 0.5
#: Width of the hidden layer.
_HIDDEN = 128


def smile_graph(neighbors: NDArray[np.int64]) -> Any:
    """Return Â = s·I + (1−s)·N as CSR in float32, with N the row-normalised matrix of the neighbours, (n, k).

    Examples
    --------
    >>> smile_graph(np.array([[1], [2], [0]])).toarray().tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]
    """
    n, k = neighbors.shape
    indices = np.column_stack([np.arange(n), neighbors]).ravel()
    row = np.array([SELF_WEIGHT, *[(1.0 - SELF_WEIGHT) / k] * k], dtype=np.float32)
    return sparse.csr_array((np.tile(row, n), indices, np.arange(0, n * (k + 1) + 1, k + 1)), shape=(n, n))


class CSRRows(NamedTuple):
    """Rows of a CSR matrix: values and columns of the entries that are not zero, and where each row begins."""

    values: NDArray[Any]
    columns: NDArray[Any]
    offsets: NDArray[Any]

    @classmethod
    def of(cls, matrix: Any, rows: NDArray[Any]) -> Self:
        """Return some rows of a CSR array. ``matrix[rows]`` takes four times as long for 16 rows.

        Examples
        --------
        >>> [part.tolist() for part in CSRRows.of(sparse.csr_array(np.array([[0, 7], [5, 6]])), np.array([1, 0]))]
        [[5, 6, 7], [0, 1, 1], [0, 2, 3]]
        """
        starts = matrix.indptr[rows]
        counts = matrix.indptr[rows + 1] - starts
        offsets = np.zeros(len(rows) + 1, dtype=matrix.indptr.dtype)
        np.cumsum(counts, out=offsets[1:])
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
        return cls(matrix.data[places], matrix.indices[places], offsets)


class Neighborhood:
    """The entries of P in the rows of a batch of B different rows: E in all.

    Parameters
    ----------
    graph : CSR array of shape (n_samples, n_samples)
        P.
    rows : int64 array of shape (B,)

    Attributes
    ----------
    weights : array of shape (E,)
        The entries, row by row.
    columns : int array of shape (E,)
        Which row of X each of them takes in.
    owners : int64 array of shape (E,)
        For which row of the batch.

    Examples
    --------
    >>> found = Neighborhood(smile_graph(np.array([[1], [0], [1]])), np.array([2, 1]))
    >>> found.weights.tolist(), found.columns.tolist(), found.owners.tolist(), found.linked.tolist()
    ([0.5, 0.5, 0.5, 0.5], [2, 1, 1, 0], [0, 0, 1, 1], [[0.0, 0.0], [1.0, 0.0]])
    """

    def __init__(self, graph: Any, rows: NDArray[np.int64]) -> None:
        self.weights, self.columns, offsets = CSRRows.of(graph, rows)
        self.owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
        self._rows = rows

    @cached_property
    def linked(self) -> Tensor:
        """A within the batch (Eq. 7), (B, B): a_ij = 1 if P names row i for row j, a neighbour."""
        size, order = len(self._rows), np.argsort(self._rows)
        place = order[np.searchsorted(self._rows, self.columns, sorter=order).clip(max=size - 1)]
        is_link = (self._rows[place] == self.columns) & (place != self.owners)
        linked = torch.zeros(size, size)
        linked.numpy()[place[is_link], self.owners[is_link]] = 1.0
        return linked


class _Read(NamedTuple):
    """What the network reads for a batch: (PX) of the rows needed, and how P sums what it makes of them."""

    inputs: Tensor | CSRRows  # (E, n_features)
    weights: Tensor  # (E, 1)
    owners: Tensor  # (E,)
    around: Neighborhood


class _FirstLayer(nn.Module):
    """x → xW₁ + b₁ for dense or sparse rows; the weight is (inputs, outputs), as the sparse product needs it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().T.contiguous())
        self.bias = layer.bias

    def forward(self, inputs: Tensor | CSRRows) -> Tensor:
        if isinstance(inputs, Tensor):
            return torch.addmm(self.bias, inputs, self.weight)
        return sparse_product(inputs, self.weight) + self.bias


class GraphNetwork(nn.Module):
    """Rows → P · ReLU(PX W₁ + b₁) · W₂ + b₂, by the two given layers.

    Parameters
    ----------
    aggregated : Tensor, CSR array or DiskRows of shape (n_samples, n_features)
        PX, computed once.
    graph : CSR array of shape (n_samples, n_samples)
        P.
    """

    def __init__(self, aggregated: Any, graph: Any, first: nn.Linear, second: nn.Linear) -> None:
        super().__init__()
        self.use_graph(aggregated, graph)
        self.first, self.second = _FirstLayer(first), second

    def use_graph(self, aggregated: Any, graph: Any) -> None:
        """Replace the graph by another one over the same rows; the weights stay."""
        self.aggregated, self.graph = _sparse_if_it_pays(aggregated), graph
        self._last: tuple[Tensor, _Read] | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """Return the outputs of the given rows, shape (batch, outputs of the second layer)."""
        inputs, weights, owners, _ = self._read(rows)
        hidden = torch.relu(self.first(inputs)) * weights
        output: Tensor = self.second(hidden.new_zeros(len(rows), hidden.shape[1]).index_add(0, owners, hidden))
        return output

    def linked(self, rows: Tensor) -> Tensor:
        """Return A among the given rows, all different: a_ij = 1 if row i is among the neighbours of row j."""
        return self._read(rows).around.linked

    def _read(self, rows: Tensor) -> _Read:
        # A step asks several times for the same batch: for the loss, and with new weights for the soft labels.
        if self._last is None or self._last[0] is not rows:
            around = Neighborhood(self.graph, rows.cpu().numpy())
            if sparse.issparse(self.aggregated):
                inputs: Tensor | CSRRows = CSRRows.of(self.aggregated, around.columns)
            else:
                inputs = gather(self.aggregated, torch.from_numpy(around.columns).to(rows.device))
            weights = torch.from_numpy(around.weights).to(self.first.weight).unsqueeze(1)
            self._last = rows, _Read(inputs, weights, torch.from_numpy(around.owners).to(rows.device), around)
        return self._last[1]


class GraphEncoder(GraphNetwork):
    """Rows → (log α, log β) of the Beta posterior over their soft labels, both within ± ``log_bound``.

    The parameters ``aggregated`` and ``graph`` are those of ``GraphNetwork``.
    """

    log_bound = 6.0

    def __init__(self, aggregated: Any, graph: Any, n_labels: int, generator: torch.Generator | None = None) -> None:
        first = linear(aggregated.shape[1], _HIDDEN, generator)
        super().__init__(aggregated, graph, first, linear(_HIDDEN, 2 * n_labels, generator))

    def forward(self, rows: Tensor) -> Tensor:
        """Return log α and log β of the given rows beside each other, shape (batch, 2 · n_labels)."""
        return super().forward(rows).clamp(-self.log_bound, self.log_bound)


def _sparse_if_it_pays(aggregated: Any) -> Any:
    """Return a CSR array with indices of 32 bits for a matrix that is mostly zeros, else what was given."""
    if isinstance(aggregated, Tensor):
        stored = int(torch.count_nonzero(aggregated))
        if aggregated.device.type != "cpu" or stored > SPARSE_BELOW * aggregated.numel():
            return aggregated
        aggregated = sparse.csr_array(aggregated.numpy())
    if not sparse.issparse(aggregated):
        return aggregated
    place = np.int32 if aggregated.nnz < 2**31 else np.int64
    parts = (aggregated.data, aggregated.indices.astype(place), aggregated.indptr.astype(place))
    return sparse.csr_array(parts, shape=aggregated.shape)


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, rows: CSRRows) -> Tensor:
        ctx.rows, ctx.n_columns = rows, len(dense)
        return _weighted_sums(rows, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        # The arrays of the CSC form are those of the transpose in CSR form.
        transposed = sparse.csr_array(tuple(ctx.rows), shape=(len(gradients[0]), ctx.n_columns)).tocsc()
        parts = CSRRows(transposed.data, transposed.indices, transposed.indptr)
        return _weighted_sums(parts, gradients[0].contiguous()), None


def _weighted_sums(rows: CSRRows, dense: Tensor) -> Tensor:
    columns, offsets = (torch.from_numpy(part).to(dense.device) for part in rows[1:])
    values = torch.from_numpy(rows.values).to(dense)
    # 0: the sum. Arguments by position are fastest.
    return torch.embedding_bag(dense, columns, offsets, False, 0, False, values, True)[0]


def sparse_product(rows: CSRRows, dense: Tensor) -> Tensor:
    """Return the product of rows of a CSR matrix and a dense matrix, differentiable in the dense one.

    Examples
    --------
    >>> rows = CSRRows.of(sparse.eye_array(3, format="csr", dtype=np.float32), np.array([2, 0]))
    >>> sparse_product(rows, torch.arange(6.0).reshape(3, 2)).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """
    product: Tensor = _SparseProduct.apply(dense, rows)  # type: ignore[no-untyped-call]
    return product


def find_graph(matrix: Any, n_neighbors: int, search: SearchKind = "exact") -> NeighborGraph:
    """The k neighbours of every row of a matrix, (n_samples, k), with the facts of the search.

    Without time for a search each row is its own neighbour; there is no time to train with them either.
    """
    k = usable_neighbors(n_neighbors, matrix.shape[0])
    if time_left() <= 0:
        own = np.arange(matrix.shape[0], dtype=np.int64)
        return NeighborGraph(np.tile(own[:, None], (1, k)), {"search": "no time"})
    return neighbor_graph(matrix, k, search=search)


def aggregated_features(matrix: Any, neighbors: NDArray[np.int64], folder: str | None) -> Any:
    """Return ÂX as features."""
    return as_features(aggregated_rows(matrix, neighbors, SELF_WEIGHT, folder))


class GraphRefresh(nn.Module):
    """Puts a new graph into the encoder when one is due, and the right one when an earlier epoch is restored.

    Parameters
    ----------
    network : Module
        What embeds the rows.
    neighbors : int array of shape (n_samples, k)
        The graph to begin with.
    rows : Rows
    search : function of a matrix
        Finds the neighbours of its rows.
    aggregate : function of neighbours, int array of shape (n_samples, k)
        Returns ÂX for them, as features.
    start : int
        0-based epoch before which the first graph from embeddings is built.
    every : int or None
        Epochs from one to the next; None: there is one.
    """

    number: Tensor

    def __init__(
        self,
        network: nn.Module,
        neighbors: NDArray[np.int64],
        rows: Rows,
        search: Callable[[NDArray[np.float32]], NeighborGraph],
        aggregate: Callable[[NDArray[np.int64]], Any],
        start: int,
        every: int | None,
    ) -> None:
        super().__init__()
        self._embed, self._rows, self._search, self._aggregate = embedder(network), rows, search, aggregate
        self.start, self.every = start, every
        #: Neighbours of every graph so far, shape (n_samples, k) each.
        self.graphs = [neighbors]
        #: One record for each graph from embeddings.
        self.facts: list[dict[str, Any]] = []
        #: Which graph is in use: part of the state, so that the restored epoch has its own.
        self.register_buffer("number", torch.zeros((), dtype=torch.int64))
        self._used = 0

    def begin_epoch(self, epoch: int, network: nn.Module, encoder: GraphEncoder) -> None:
        """Build a graph from the network's present embeddings if one is due."""
        since = epoch - self.start
        if since < 0 or (since > 0 and (self.every is None or since % self.every)):
            return
        embeddings = outputs_of_all(network, self._rows, self._embed).cpu().numpy()
        neighbors, facts = self._search(embeddings)
        kept = float((neighbors[:, :, None] == self.graphs[-1][:, None, :]).any(axis=2).mean())
        self.facts.append({"epoch": epoch + 1, "size": embeddings.shape[1], "kept": kept, **facts})
        self.graphs.append(neighbors)
        self.number.fill_(len(self.graphs) - 1)
        self.put_into(encoder)

    def running_state(self) -> dict[str, Tensor]:
        """All graphs so far, and what is known of them as text in bytes."""
        graphs = {f"graph.{number}": torch.from_numpy(graph) for number, graph in enumerate(self.graphs)}
        return graphs | {"facts": torch.frombuffer(bytearray(json.dumps(self.facts).encode()), dtype=torch.uint8)}

    def resume(self, state: Mapping[str, Tensor], encoder: GraphEncoder) -> None:
        """Take the graphs back, after ``number``, and give the encoder the one in use."""
        self.graphs = [state[f"graph.{number}"].numpy() for number in range(len(state) - 1)]
        self.facts = json.loads(bytes(state["facts"].tolist()))
        self.put_into(encoder)

    def put_into(self, encoder: GraphEncoder) -> None:
        """Give the encoder the graph that ``number`` names."""
        if int(self.number) == self._used:
            return
        self._used = int(self.number)
        neighbors = self.graphs[self._used]
        aggregated = on_device(self._aggregate(neighbors), str(self._rows.observed.device))
        encoder.use_graph(aggregated, smile_graph(neighbors))
