"""GLOCAL: a low-rank latent label space with global and local label correlations."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.parameters import COUNT, COUNT_OR_ZERO, POSITIVE, POSITIVE_OR_ZERO, PROBABILITY, Constraints
from onepos.training import History
from onepos.training.machine import limited_threads
from onepos_studies.methods._classical import (
    CONSTANT,
    ClassicalClassifier,
    Matrix,
    WeightedLabels,
    with_constant,
)
from onepos_studies.methods._glocal_solver import Coefficients, Limits, fit_glocal, group_rows


class _Solution(NamedTuple):
    """W Uᵀ (q, c) and intercepts (c,), U (c, k), Z_m stacked, and the ridge that gave them."""

    coef: Matrix
    intercept: Matrix
    labels: Matrix
    correlations: Matrix
    feature_l2: float


@dataclass(kw_only=True, eq=False, repr=False)
class GLOCALClassifier(ClassicalClassifier):
    """Low-rank latent labels with global and local label correlations. Key: ``glocal``.

    Minimises ½‖√J∘(Y − VUᵀ)‖² + ½λ‖V − XW‖² + ½ Σ_m tr(Z_mᵀ U Wᵀ(λ₂β_m XᵀX + λ₁X_mᵀX_m)W Uᵀ Z_m) + ridge terms over V
    (latent labels), U (labels), W (features) and Z_m (correlations, rows of length one), in turn, each step in closed
    form or by conjugate gradients. Scores are x W Uᵀ. ``docs/methods/glocal.md`` explains the parameters.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_features, n_labels) and (n_labels,)
        Rank k at most, taken together.
    labels_, label_correlations_ : arrays of shape (n_labels, k) and (n_groups, n_labels, k)
        U and Z_m; −Z_m Z_mᵀ is positive where labels go together.
    history_ : onepos.training.History
        ``objective`` of each iteration.
    """

    about: ClassVar[dict[str, Any]] = {
        "name": "GLOCAL",
        "paper": "Zhu et al., Multi-Label Learning with Global and Local Label Correlation, TKDE",
        "year": 2018,
        "assumptions": "labels are mixtures of few latent labels and correlate, globally and within groups of rows",
        "needs": "nothing",
        "revision": 1,
    }
    rank: int = 20
    n_groups: int = 3
    latent_weight: float = 1.0
    local_weight: float = 1e-5
    global_weight: float = 1e-3
    l2: float = 0.125
    feature_l2: Any = (10000.0, 1000.0, 100.0, 10.0, 1.0, 0.125)
    unobserved: float = 0.1
    warm_up_iter: int = 15
    max_iter: int = 15
    correlation_iter: int = 60
    tol: float = 1e-6

    _parameter_constraints: ClassVar[Constraints] = {
        **ClassicalClassifier._parameter_constraints,
        "unobserved": [PROBABILITY],
        "rank": [COUNT],
        "n_groups": [COUNT],
        "latent_weight": [POSITIVE],
        "local_weight": [POSITIVE_OR_ZERO],
        "global_weight": [POSITIVE_OR_ZERO],
        "l2": [POSITIVE],
        "feature_l2": ["array-like", POSITIVE],
        "warm_up_iter": [COUNT_OR_ZERO],
        "max_iter": [COUNT],
        "correlation_iter": [COUNT],
        "tol": [POSITIVE_OR_ZERO],
    }

    _strength: ClassVar[str] = "feature_l2"
    _solution_type: ClassVar[Any] = _Solution
    _stored: ClassVar[storage.Rules] = {
        "coef_": storage.Array("features labels"),
        "intercept_": storage.Array("labels"),
        "labels_": storage.Array("labels rank"),
        "correlations_": storage.Array("groups labels rank"),
        "feature_l2_": storage.NOT_NEGATIVE,
    }

    def _solve(
        self, features: Any, observed: NDArray[np.int8], strength: float, generator: np.random.Generator
    ) -> tuple[_Solution, History]:
        labelled = np.flatnonzero((observed > 0).any(axis=1))
        design = with_constant(features[labelled])
        rank = min(self.rank, observed.shape[1])
        # Thousands of small products: BLAS threads wait for each other longer than they compute.
        with limited_threads(1):
            groups = group_rows(features[labelled], self.n_groups, generator)
            factors, history = fit_glocal(
                design,
                WeightedLabels.from_observed(observed[labelled], self.unobserved),
                Coefficients(self.latent_weight, self.local_weight, self.global_weight, self.l2, self.l2, strength),
                rank=rank,
                groups=groups,
                limits=Limits(self.warm_up_iter, self.max_iter, self.correlation_iter, self.tol),
                generator=generator,
            )
        coef = factors.weights @ factors.labels.T
        z = np.stack(factors.correlations)
        return _Solution(coef[:-1], CONSTANT * coef[-1], factors.labels, z, strength), history

    def _keep(self, solution: _Solution) -> None:
        super()._keep(solution)
        self.label_correlations_ = solution.correlations
