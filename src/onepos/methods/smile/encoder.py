"""SMILE's graph over the training rows, and its inference model w₁: a graph network on the batch's neighbourhood.

Over the whole graph the encoder is ``Â · ReLU(Â X W₁) · W₂`` with Â = s·I + (1−s)·N, N the row-normalised neighbour
matrix and s the weight of the self-loop. Every node has k neighbours, so a batch of B rows only needs (ÂX) of these
rows and their neighbours, not a pass over all n nodes. A row that is a neighbour of several rows of the batch is read
once. If ÂX is mostly zeros, its product with W₁ is sparse.
"""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from onepos._utils.context import time_left
from onepos.graph.neighbors import (
    Metric,
    NeighborGraph,
    Search,
    aggregated_rows,
    neighbor_graph,
    usable_neighbors,
)
from onepos.training import Rows
from onepos.training.networks import embedder, linear, outputs_of_all
from onepos.training.objective import as_features, gather, on_device

#: Up to this share of stored entries, the sparse product is the faster one.
SPARSE_BELOW = 0.2
#: Whether kernels compute the encoder in single precision on the CPU; False: torch always does.
USE_KERNEL = True


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


class _Read(NamedTuple):
    """What the encoder reads for a batch: (ÂX) of the rows needed, where they are, and what each counts in Â."""

    inputs: Any  # Tensor or CSR array
    around: Neighborhood
    places: Tensor
    shares: Tensor


class _FirstLayer(nn.Module):
    """x → xW₁ for dense or sparse rows; the weight is (inputs, outputs), as the sparse product needs it."""

    def __init__(self, n_inputs: int, n_outputs: int, generator: torch.Generator | None) -> None:
        super().__init__()
        layer = linear(n_inputs, n_outputs, generator)
        self.weight = nn.Parameter(layer.weight.detach().T.contiguous())
        self.bias = layer.bias

    def forward(self, inputs: Any) -> Tensor:
        product: Tensor = sparse_product(inputs, self.weight) if sparse.issparse(inputs) else inputs @ self.weight
        return product


class GraphEncoder(nn.Module):
    """Rows → (log α, log β) of the Beta posterior over their soft labels.

    Parameters
    ----------
    aggregated : Tensor or CSR array of shape (n_samples, n_features)
        ÂX, computed once.
    neighborhoods : int64 Tensor of shape (n_samples, 1 + n_neighbors)
        Row i: i itself, then its nearest neighbours.
    n_hidden, n_labels : int
        Width of the hidden layer; number of labels c.
    self_weight : float
        Share s of a row itself in Â; its neighbours have 1 − s together.
    log_bound : float
        Both outputs are clamped to ± this bound, so that α, β stay within [e⁻ᵇ, eᵇ].
    """

    aggregated: Any
    neighborhoods: Tensor

    def __init__(
        self,
        aggregated: Any,
        neighborhoods: Tensor,
        n_hidden: int,
        n_labels: int,
        *,
        self_weight: float,
        log_bound: float = 6.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.use_graph(aggregated, neighborhoods)
        self.first = _FirstLayer(aggregated.shape[1], n_hidden, generator)
        self.second = linear(n_hidden, 2 * n_labels, generator)
        self.self_weight = self_weight
        self.log_bound = log_bound

    def use_graph(self, aggregated: Any, neighborhoods: Tensor) -> None:
        """Replace the graph by another one over the same rows; the weights stay."""
        for name in ("aggregated", "neighborhoods"):
            if hasattr(self, name):
                delattr(self, name)
        # Not persistent: the graph belongs to the training set, not to the saved state.
        aggregated = _sparse_if_it_pays(aggregated)
        if isinstance(aggregated, Tensor):
            self.register_buffer("aggregated", aggregated, persistent=False)
        else:
            self.aggregated = aggregated
        self.register_buffer("neighborhoods", neighborhoods, persistent=False)
        self._table = neighborhoods.cpu().numpy()
        self._last: tuple[Tensor, _Read] | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """Return log α and log β of the given rows beside each other, shape (batch, 2 · n_labels)."""
        inputs, _, places, shares = self._read(rows)
        product = self.first(inputs)  # (rows needed, h)
        bias, second = self.first.bias, self.second
        if USE_KERNEL and product.dtype == torch.float32 and product.device.type == "cpu":
            known = places.numpy(), shares.numpy(), np.float32(self.log_bound)
            found: Tensor = _Compiled.apply(product, bias, second.weight, second.bias, *known)  # type: ignore[no-untyped-call]
            return found
        hidden = torch.relu(product + bias)
        # The second Â.
        pooled = embedding_bag(places, hidden, mode="sum", per_sample_weights=shares.to(hidden).expand(places.shape))
        log_parameters: Tensor = second(pooled)
        return log_parameters.clamp(-self.log_bound, self.log_bound)

    def linked(self, rows: Tensor) -> Tensor:
        """Return A among the given rows, all different: a_ij = 1 if row i is among the neighbours of row j."""
        return self._read(rows).around.linked

    def _read(self, rows: Tensor) -> _Read:
        # A step asks several times for the same batch: for the loss, and with new weights for the soft labels.
        if self._last is None or self._last[0] is not rows:
            around = Neighborhood(self._table, rows.cpu().numpy())
            if sparse.issparse(self.aggregated):
                inputs = self.aggregated[around.needed]
            else:
                inputs = gather(self.aggregated, torch.from_numpy(around.needed).to(rows.device))
            k = self._table.shape[1] - 1
            shares = torch.full((1 + k,), (1.0 - self.self_weight) / max(k, 1), dtype=self.second.weight.dtype)
            shares[0] = self.self_weight
            places = torch.from_numpy(around.places).to(rows.device)
            self._last = rows, _Read(inputs, around, places, shares)
        return self._last[1]


class _Compiled(torch.autograd.Function):
    """The encoder behind its first product, by kernels."""

    @staticmethod
    def forward(
        ctx: Any,
        product: Tensor,
        bias: Tensor,
        weight: Tensor,
        second_bias: Tensor,
        places: Any,
        shares: Any,
        bound: Any,
    ) -> Tensor:
        from onepos.methods.smile._kernels import encoder_forwards

        hidden, second = product.numpy().copy(), weight.numpy()
        pooled, output = encoder_forwards(hidden, bias.numpy(), places, shares, second, second_bias.numpy(), bound)
        ctx.known = output, bound, second, pooled, hidden, places, shares
        return torch.from_numpy(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        from onepos.methods.smile._kernels import encoder_backwards

        by_hidden = torch.empty(ctx.known[4].shape)
        others = encoder_backwards(gradients[0].contiguous().numpy(), *ctx.known, by_hidden.numpy())
        return by_hidden, *map(torch.from_numpy, others), None, None, None


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
    def forward(ctx: Any, dense: Tensor, rows: Any) -> Tensor:
        ctx.rows = rows
        return _weighted_sums(rows, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        # The arrays of the CSC form are those of the transpose in CSR form.
        return _weighted_sums(ctx.rows.tocsc(), gradients[0].contiguous()), None


def _weighted_sums(rows: Any, dense: Tensor) -> Tensor:
    """Return the product of a CSR array, or of the transpose of a CSC array, with ``dense``."""
    columns, offsets = (torch.from_numpy(part).to(dense.device) for part in (rows.indices, rows.indptr))
    values = torch.from_numpy(rows.data).to(dense)
    # 0: the sum. Arguments by position are fastest.
    return torch.embedding_bag(dense, columns, offsets, False, 0, False, values, True)[0]


def sparse_product(rows: Any, dense: Tensor) -> Tensor:
    """Return the product of a CSR array and a dense matrix, differentiable in the dense one.

    Examples
    --------
    >>> sparse_product(sparse.csr_array(np.eye(3, dtype=np.float32)[[2, 0]]), torch.arange(6.0).reshape(3, 2)).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """
    product: Tensor = _SparseProduct.apply(dense, rows)  # type: ignore[no-untyped-call]
    return product


def find_graph(matrix: Any, n_neighbors: int, metric: Metric = "euclidean", search: Search = "exact") -> NeighborGraph:
    """The k neighbours of every row of a matrix, (n_samples, k), with the facts of the search.

    Without time for a search each row is its own neighbour; there is no time to train with them either.
    """
    k = usable_neighbors(n_neighbors, matrix.shape[0])
    if time_left() <= 0:
        own = np.arange(matrix.shape[0], dtype=np.int64)
        return NeighborGraph(np.tile(own[:, None], (1, k)), {"search": "no time"})
    return neighbor_graph(matrix, k, metric=metric, search=search)


def aggregated_features(matrix: Any, neighbors: NDArray[np.int64], self_weight: float, folder: str | None) -> Any:
    """Return ÂX as features."""
    return as_features(aggregated_rows(matrix, neighbors, self_weight, folder))


def with_self(neighbors: NDArray[np.int64]) -> Tensor:
    """Every row and its neighbours, (n_samples, 1 + k)."""
    return torch.from_numpy(np.column_stack([np.arange(len(neighbors)), neighbors]))


class GraphRefresh(nn.Module):
    """Puts a new graph into the encoder when one is due, and the right one when an earlier epoch is restored.

    Parameters
    ----------
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
        neighbors, device = self.graphs[self._used], self._rows.observed.device
        encoder.use_graph(on_device(self._aggregate(neighbors), str(device)), with_self(neighbors).to(device))
