"""MLML: observed labels spread over a graph of rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.context import warn
from onepos._utils.parameters import COUNT, POSITIVE, POSITIVE_OR_ZERO, Constraints, one_of
from onepos.exceptions import LabelWarning
from onepos.graph.neighbors import Metric
from onepos.training import History
from onepos_studies.methods import _mlml_solver as solver
from onepos_studies.methods._classical import ClassicalClassifier, Matrix, StoredMatrix


class _RowGraph(NamedTuple):
    """The scaled rows it was made of, rows as compared, L_X, σ, the neighbours in the graph and the metric."""

    source: Any
    features: Any
    laplacian: Any
    scales: Matrix
    n_neighbors: int
    metric: Metric


class _Solution(NamedTuple):
    """Training rows as compared with σ and Z, λ_X, the neighbours in the graph and the metric."""

    features: Any
    scales: Matrix
    soft: NDArray[np.float32]
    instance_smoothness: float
    n_neighbors: int
    metric: Metric


@dataclass(kw_only=True, eq=False, repr=False)
class MLMLClassifier(ClassicalClassifier):
    """Labels smoothed over near rows. Key: ``mlml``.

    Minimises ‖Z − Y‖² + λ_X tr(Zᵀ L_X Z) over soft labels Z of the training rows, exactly; a new row gets the
    kernel-weighted mean of its nearest training rows' soft labels. The published term for the graph of labels is left
    out: with one observed label per row that graph joins all labels alike. ``docs/methods/mlml.md`` explains the
    parameters.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        Z.
    history_ : onepos.training.History
        The ``objective`` at the solution.
    """

    about: ClassVar[dict[str, Any]] = {
        "name": "MLML",
        "paper": "Wu et al., Multi-label Learning with Missing Labels, ICPR",
        "year": 2014,
        "assumptions": "near rows share labels",
        "needs": "the training rows at prediction",
        "revision": 1,
    }
    instance_smoothness: Any = (100.0, 10.0, 3.0, 1.0, 0.3)
    n_neighbors: int = 20
    scale_neighbor: int = 7
    graph_metric: str = "auto"
    tol: float = 1e-7

    _parameter_constraints: ClassVar[Constraints] = {
        **ClassicalClassifier._parameter_constraints,
        "instance_smoothness": ["array-like", POSITIVE_OR_ZERO],
        "n_neighbors": [COUNT],
        "scale_neighbor": [COUNT],
        "graph_metric": [one_of("auto", "euclidean", "cosine")],
        "tol": [POSITIVE],
    }

    _strength: ClassVar[str] = "instance_smoothness"
    _solution_type: ClassVar[Any] = _Solution
    _stored: ClassVar[storage.Rules] = {
        "metric_": storage.one_of("euclidean", "cosine"),
        "features_": StoredMatrix("rows columns"),
        "scales_": storage.Array("rows", low=0),
        "soft_": storage.Array("rows labels"),
        "instance_smoothness_": storage.NOT_NEGATIVE,
        "n_neighbors_": storage.SIZE,
    }

    def _solve(
        self, features: Any, observed: NDArray[np.int8], strength: float, generator: np.random.Generator
    ) -> tuple[_Solution, History]:
        graph = self._row_graph(features)
        targets = observed.astype(np.float64)
        targets[~(observed > 0).any(axis=1)] = 0.0  # rows without a positive are unknown altogether
        soft = solver.solve(targets, graph.laplacian, strength, self.tol)
        history = History([{"objective": solver.objective(soft, targets, graph.laplacian, strength)}])
        history.facts["graph_metric"] = graph.metric
        kept = (graph.features, graph.scales, soft.astype(np.float32))
        return _Solution(*kept, strength, graph.n_neighbors, graph.metric), history

    def _row_graph(self, features: Any) -> _RowGraph:
        """Build the graph of rows, once for all strengths that are tried on the same features."""
        graph: _RowGraph | None = getattr(self, "_graph", None)
        if graph is None or graph.source is not features:
            n_rows = features.shape[0]
            n_neighbors = min(self.n_neighbors, n_rows - 1)
            if n_neighbors < self.n_neighbors:
                text = f"n_neighbors={self.n_neighbors} needs more than {n_rows} rows; {n_neighbors} are used."
                warn(text, LabelWarning, stacklevel=6)
            metric = solver.chosen_metric(self.graph_metric, features.shape[1])
            placed = solver.on_sphere(features, metric)
            weights, scales = solver.instance_weights(placed, n_neighbors, self.scale_neighbor, metric)
            graph = _RowGraph(features, placed, solver.laplacian(weights), scales, n_neighbors, metric)
            self._graph: _RowGraph | None = graph
        return graph

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        # Rows of zeros have a column of their own where directions are compared.
        n_columns = fields["n_features_in_"] + (fields["metric_"] == "cosine")
        if fields["features_"].shape[1] != n_columns:
            raise ValueError(f"features_ must have {n_columns:,} columns, not {fields['features_'].shape[1]:,}")
        return super()._from_stored(fields)

    def _scores(self, solution: _Solution, features: Any) -> Matrix:
        # One more neighbour than the graph has: a training row finds itself.
        average = solver.kernel_average(
            solver.on_sphere(features, solution.metric),
            *solution[:3],
            n_neighbors=solution.n_neighbors + 1,
            scale_neighbor=self.scale_neighbor,
            metric=solution.metric,
        )
        return 2.0 * average - 1.0

    def _keep(self, solution: _Solution) -> None:
        super()._keep(solution)
        self._graph = None
        self.soft_labels_, self.graph_metric_ = solution.soft, solution.metric
