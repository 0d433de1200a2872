"""D2ML (DM2L): predictions of low rank within each label's rows and of high rank over all rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.parameters import COUNT, POSITIVE, POSITIVE_OR_ZERO, Constraints, one_of
from onepos.training import History
from onepos.training.machine import limited_threads
from onepos_studies.methods import _d2ml_solver as solver
from onepos_studies.methods._classical import (
    CONSTANT,
    ClassicalClassifier,
    Matrix,
    StoredMatrix,
    with_constant,
)

#: XᵀX is formed and factorised; above this many features that no longer fits.
_MAX_FEATURES = 8192


class _Solution(NamedTuple):
    """Weights, intercepts, the kernel's landmarks and γ (None when linear), λ_d and ε."""

    coef: Matrix
    intercept: Matrix
    landmarks: Any
    gamma: float | None
    rank_weight: float
    ridge: float


@dataclass(kw_only=True, eq=False, repr=False)
class D2MLClassifier(ClassicalClassifier):
    """Discriminant learning by ranks: shrink within a label's rows, expand over all. Key: ``d2ml``.

    Minimises ½‖XW − Y‖² + λ_d (Σ_k ‖X_k W‖_* − ‖XW‖_*) + ½ε‖W‖², X_k the rows with observed label k, by the
    concave-convex procedure; each convex problem by ADMM with singular-value thresholding. The authors say DM2L.
    ``docs/methods/d2ml.md`` explains the parameters.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_features, n_labels) and (n_labels,)
        With a kernel ``coef_`` has a row for each landmark.
    rank_weight_, ridge_ : float
        λ_d and ε that were chosen.
    history_ : onepos.training.History
        ``objective`` after each step, and the ``inner_iterations`` it took.
    """

    about: ClassVar[dict[str, Any]] = {
        "name": "D2ML",
        "paper": "Ma & Chen, Expand Globally, Shrink Locally, Pattern Recognition",
        "year": 2021,
        "assumptions": "predictions have low rank among rows that share a label, high rank over all rows",
        "needs": "nothing",
        "revision": 1,
    }
    rank_weight: Any = (3.0, 1.0, 0.3, 0.1)
    ridge: float | None = None
    kernel: str = "linear"
    gamma: float | None = None
    n_landmarks: int = 1000
    max_iter: int = 20
    inner_iter: int = 50
    tol: float = 1e-2

    _parameter_constraints: ClassVar[Constraints] = {
        **ClassicalClassifier._parameter_constraints,
        "rank_weight": ["array-like", POSITIVE_OR_ZERO],
        "ridge": [POSITIVE, None],
        "kernel": [one_of("linear", "rbf")],
        "gamma": [POSITIVE, None],
        "n_landmarks": [COUNT],
        "max_iter": [COUNT],
        "inner_iter": [COUNT],
        "tol": [POSITIVE_OR_ZERO],
    }

    _strength: ClassVar[str] = "rank_weight"
    _solution_type: ClassVar[Any] = _Solution
    _stored: ClassVar[storage.Rules] = {
        "landmarks_": storage.Maybe(StoredMatrix("inputs features")),
        "coef_": storage.Array("inputs labels"),
        "intercept_": storage.Array("labels"),
        "gamma_": storage.Maybe(storage.POSITIVE),
        "rank_weight_": storage.NOT_NEGATIVE,
        "ridge_": storage.NOT_NEGATIVE,
    }

    def _solve(
        self, features: Any, observed: NDArray[np.int8], strength: float, generator: np.random.Generator
    ) -> tuple[_Solution, History]:
        if self.kernel == "linear" and features.shape[1] > _MAX_FEATURES:
            raise ValueError(
                f"kernel='linear' factorises an n_features × n_features matrix, up to {_MAX_FEATURES} features; got "
                f"{features.shape[1]}. Reduce the features, or use kernel='rbf', whose size is n_landmarks."
            )
        labelled = np.flatnonzero((observed > 0).any(axis=1))
        # Rows that share a label then lie together.
        labelled = labelled[np.argsort(observed[labelled].argmax(axis=1), kind="stable")]
        features, observed = features[labelled], observed[labelled]
        # Hundreds of small decompositions per step: BLAS threads wait for each other longer than they compute.
        with limited_threads(1):
            landmarks = gamma = projection = None
            design = features
            if self.kernel == "rbf":
                gamma = self.gamma or solver.default_gamma(features)
                landmarks, projection = solver.choose_landmarks(features, gamma, self.n_landmarks, generator)
                design = solver.kernel_product(features, landmarks, gamma, projection)
            design = with_constant(design)
            ridge = self.ridge
            if ridge is None:
                ridge = solver.cross_validated_ridge(design[:, :-1], observed > 0)
            ridges = np.append(np.full(design.shape[1] - 1, ridge), 0.0)
            problem = solver.Problem(design, observed, strength, ridges)
            limits: Any = {"max_iter": self.max_iter, "inner_iter": self.inner_iter}
            weights, history = solver.fit_d2ml(problem, **limits, tolerance=self.tol)
        coef = weights[:-1] if projection is None else projection @ weights[:-1]
        return _Solution(coef, CONSTANT * weights[-1], landmarks, gamma, strength, ridge), history

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        n_features = fields["n_features_in_"]
        if (fields["landmarks_"] is None) != (fields["gamma_"] is None):
            raise ValueError("landmarks_ and gamma_ must come together")
        if fields["gamma_"] is None and len(fields["coef_"]) != n_features:
            raise ValueError(f"coef_ must have {n_features:,} rows, one for each feature, not {len(fields['coef_']):,}")
        return super()._from_stored(fields)

    def _scores(self, solution: _Solution, features: Any) -> Matrix:
        if solution.gamma is None:
            return super()._scores(solution, features)
        return solver.kernel_product(features, solution.landmarks, solution.gamma, solution.coef) + solution.intercept
