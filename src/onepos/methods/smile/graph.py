"""SMILE's graph over the training rows and ÂX; with ``graph_on="embeddings"``, built again during training."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos._utils.deadline import time_left
from onepos.graph.exact import Metric, mean_aggregate
from onepos.graph.search import NeighborGraph, Search, aggregated_rows, neighbor_graph
from onepos.methods._rows import embed, outputs_of_all
from onepos.methods.smile.encoder import GraphEncoder
from onepos.rows.stored import DiskRows
from onepos.rows.tensors import on_device
from onepos.training import Rows


@dataclass(frozen=True)
class GraphBuilder:
    """How the graph and ÂX are made; attributes as for ``SMILEClassifier``, ``folder`` its ``cache_folder``."""

    metric: Metric
    search: Search
    self_weight: float
    folder: str | None

    def neighbors(self, matrix: Any, n_neighbors: int) -> NeighborGraph:
        """The k neighbours of every row of a matrix, (n_samples, k), with the facts of the search.

        Without time for a search each row is its own neighbour; there is no time to train with them either.
        """
        if time_left() <= 0:
            own = np.arange(matrix.shape[0], dtype=np.int64)
            return NeighborGraph(np.tile(own[:, None], (1, n_neighbors)), {"search": "no time"})
        return neighbor_graph(matrix, n_neighbors, metric=self.metric, search=self.search)

    def aggregated(self, matrix: Any, neighbors: NDArray[np.int64]) -> Any:
        """Return ÂX. Rows on disk and results for disk are formed block by block."""
        if isinstance(matrix, DiskRows) or (self.folder is not None and not sparse.issparse(matrix)):
            return aggregated_rows(matrix, neighbors, self.self_weight, self.folder)
        nearby = mean_aggregate(matrix, neighbors, self_loop=False)
        return self.self_weight * matrix + (1.0 - self.self_weight) * nearby


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
        neighbors: NDArray[np.int64],
        rows: Rows,
        search: Callable[[NDArray[np.float32]], NeighborGraph],
        aggregate: Callable[[NDArray[np.int64]], Any],
        start: int,
        every: int | None,
    ) -> None:
        super().__init__()
        self._rows, self._search, self._aggregate = rows, search, aggregate
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
        embeddings = outputs_of_all(network, self._rows, partial(embed, network)).cpu().numpy()
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
