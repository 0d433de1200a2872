"""SMILE's graph over the training rows and ÂX: sought once, whatever the number of processes, and read by all."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._deadline import time_left
from onepos.aggregation import aggregated_rows, fill_aggregated
from onepos.disk import DiskRows
from onepos.graph import Metric, mean_aggregate
from onepos.neighbor_search import NeighborGraph, Search, neighbor_graph
from onepos.training import Processes
from onepos.training.shared_arrays import filled_together, made_once, own_rows


@dataclass(frozen=True)
class SharedGraph:
    """How a graph is made, where its files are, and who reads them.

    Attributes
    ----------
    metric, search, self_weight
        As for ``SMILEClassifier``.
    folder : str or None
        For files; None: ÂX is in memory, and what processes share where temporary files are.
    processes : Processes
    """

    metric: Metric
    search: Search
    self_weight: float
    folder: str | None
    processes: Processes

    def neighborhoods(self, matrix: Any, n_neighbors: int) -> NeighborGraph:
        """Every row of a matrix and its k neighbours, (n_samples, 1 + k), with the facts of the search.

        Without time for a search each row is its own neighbour; there is no time to train with them either.
        """
        if self.processes.agree(time_left() <= 0):
            own = np.arange(matrix.shape[0], dtype=np.int64)
            return NeighborGraph(np.tile(own[:, None], (1, 1 + n_neighbors)), {"search": "no time"})
        facts: dict[str, Any] = {}
        if self.processes.size > 1 and find_spec("faiss") is not None:
            # Loaded before process 0 gets the threads of those that wait: it would not notice them later.
            import_module("faiss")

        def seek() -> NDArray[np.int64]:
            graph = neighbor_graph(matrix, n_neighbors, metric=self.metric, search=self.search)
            facts.update(graph.facts)
            return np.column_stack([np.arange(len(graph.neighbors)), graph.neighbors])

        return NeighborGraph(made_once(seek, self.processes, self.folder), self.processes.agree(facts))

    def neighbors(self, matrix: Any, n_neighbors: int) -> NeighborGraph:
        """The same without the row itself, (n_samples, k)."""
        graph = self.neighborhoods(matrix, n_neighbors)
        return NeighborGraph(graph.neighbors[:, 1:], graph.facts)

    def aggregated(self, matrix: Any, neighbors: NDArray[np.int64]) -> Any:
        """ÂX; for rows on disk, or when it shall be there, block by block, with several processes in a file."""
        if isinstance(matrix, DiskRows) or (self.folder is not None and not sparse.issparse(matrix)):
            if self.processes.size == 1:
                return aggregated_rows(matrix, neighbors, self.self_weight, self.folder)
            rows = own_rows(len(neighbors), self.processes)

            def fill(values: NDArray[Any]) -> None:
                fill_aggregated(matrix, neighbors, self.self_weight, values, rows)

            return DiskRows(filled_together(matrix.shape, np.float32, fill, self.processes, self.folder))
        nearby = mean_aggregate(matrix, neighbors, self_loop=False)
        return self.self_weight * matrix + (1.0 - self.self_weight) * nearby
