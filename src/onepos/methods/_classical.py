"""What the classical missing-label methods share: one fit that scales, chooses one strength, and keeps the winner."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos import metrics
from onepos._utils.private_names import Interval, StrOptions
from onepos._utils.random import seed_from
from onepos._utils.result_cache import recall
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._rows import hold_out
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.training import History

#: Training rows that label sets are cut by where none are held out.
_CUT_ROWS = 2000


class _Held(NamedTuple):
    """Scaled rows to choose on, and their labels."""

    features: Any
    truth: NDArray[np.int8]


class ClassicalClassifier(OnePositiveClassifier):
    """Base of methods without a network.

    Subclasses implement ``_solve``, which returns a solution and a history, ``_scores`` of a solution on scaled rows,
    and ``_keep``, and name their one parameter that may be a sequence in ``_candidates``.
    """

    scale: str
    validation_fraction: float
    random_state: Any
    scaler_: FeatureScaler
    history_: History
    n_iter_: int
    validation_scores_: dict[float, float]

    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
        y : indicator (n_samples, n_labels), or vector of classes (n_samples,)
            1 observed, 0 unknown, −1 known absent. DataFrame columns name the labels.
        validation : (X_val, Y_val), optional
            Rows to choose a strength on when a sequence of them was given; otherwise it is checked and not needed.
            Without it ``validation_fraction`` of the rows is held out and the winner refitted on all rows.
        validation_labels : {"single", "full"}
            Whether ``Y_val`` shows one positive per row or all of them.
        """
        X, labels = self._check_training(X, y)
        given = self._check_validation(validation, validation_labels, labels)
        seed = seed_from(self.random_state)
        candidates = sorted({float(value) for value in np.atleast_1d(self._candidates())}, reverse=True)
        if not candidates or not all(np.isfinite(value) and value >= 0 for value in candidates):
            raise ValueError(f"{type(self).__name__} needs at least one strength, all finite and >= 0: {candidates}.")
        self.scaler_ = fit_scaler(X, self.scale)
        features = self.scaler_.transform(X)
        self.validation_scores_ = {}
        held = None if given is None else _Held(self.scaler_.transform(given[0]), given[1])
        if len(candidates) == 1:
            judged, history = self._solve_once(features, labels.observed, candidates[0], seed)
            solution = judged
        elif held is not None:
            _, judged, history = self._search(features, labels.observed, candidates, held, seed)
            solution = judged
        else:
            generator = np.random.default_rng(seed)
            _, out = hold_out(labels.observed, np.flatnonzero(labels.labelled), self.validation_fraction, generator)
            kept = np.setdiff1d(np.arange(X.shape[0]), out, assume_unique=True)
            held = _Held(features[out], labels.observed[out])
            best, judged, _ = self._search(features[kept], labels.observed[kept], candidates, held, seed)
            solution, history = self._solve_once(features, labels.observed, best, seed)
        self.history_ = History(list(history.records), history.facts | {"scale": self.scaler_.kind})
        self.n_iter_ = max(1, len(history))
        # By the solution that did not see the held-out rows.
        scores = self._scores(judged, features[:_CUT_ROWS] if held is None else held.features)
        self._keep(solution)
        complete = given[1] if given is not None and validation_labels == "full" else None
        rows = "training rows" if held is None else "held-out rows"
        self._cut_at(LOGIT_SLOPE * scores, complete=complete, rows=rows)
        return self

    def _search(
        self, features: Any, observed: NDArray[np.int8], candidates: list[float], held: _Held, seed: int
    ) -> tuple[float, Any, History]:
        """Fit every candidate; return the best one with its solution and history."""
        best: tuple[float, Any, History] | None = None
        for value in candidates:
            solution, history = self._solve_once(features, observed, value, seed)
            score = metrics.average_precision(held.truth, self._scores(solution, held.features))
            if best is None or score > max(self.validation_scores_.values()):
                best = (value, solution, history)
            self.validation_scores_[value] = score
        assert best is not None
        return best

    def _solve_once(self, features: Any, observed: NDArray[np.int8], strength: float, seed: int) -> tuple[Any, History]:
        """``_solve``, unless the same was solved before within ``remember_work``."""
        settings = {name: value for name, value in self.get_params().items() if name != "random_state"}
        return recall(
            lambda: self._solve(features, observed, strength, np.random.default_rng(seed)),
            type(self).__name__,
            features,
            observed,
            strength,
            seed,
            settings,
        )

    def _candidates(self) -> Any:
        """Return the strength, or the strengths to choose from."""
        raise NotImplementedError(f"{type(self).__name__} must say how to name its strengths.")

    def _solve(
        self, features: Any, observed: NDArray[np.int8], strength: float, generator: np.random.Generator
    ) -> tuple[Any, History]:
        """Fit scaled features with one strength."""
        raise NotImplementedError(f"{type(self).__name__} must say how to solve for one strength.")

    def _scores(self, solution: Any, features: Any) -> NDArray[np.float64]:
        """Score scaled rows, shape (n_samples, n_labels): about −1 for absent, +1 for present."""
        raise NotImplementedError(f"{type(self).__name__} must say how to score rows.")

    def _keep(self, solution: Any) -> None:
        """Set the fitted attributes."""
        raise NotImplementedError(f"{type(self).__name__} must say how to keep its solution.")

    def _common_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        if self.scaler_.shift is not None and self.scaler_.factor is not None:
            arrays = {"scaler.shift": self.scaler_.shift, "scaler.factor": self.scaler_.factor}
        history = {"records": self.history_.records, "facts": self.history_.facts}
        return arrays, {"scale": self.scaler_.kind, "n_iter": self.n_iter_, "history": history}

    def _common_restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self.scaler_ = FeatureScaler(facts["scale"], arrays.get("scaler.shift"), arrays.get("scaler.factor"))
        self.history_ = History(facts["history"]["records"], facts["history"]["facts"])
        self.n_iter_ = facts["n_iter"]
        self.validation_scores_ = {}


def with_constant(features: Any) -> Any:
    """Scaled features in float64 with a constant last column: the intercept is one more row of the weights.

    The constant is ``CONSTANT``, not 1: the ridge on its weight is then a hundredth of the others', as an intercept
    should hardly be shrunk.
    """
    if sparse.issparse(features):
        constant = sparse.csr_array(np.full((features.shape[0], 1), CONSTANT))
        return sparse.csr_array(sparse.hstack([features.astype(np.float64), constant]))
    return np.column_stack([features.astype(np.float64), np.full(features.shape[0], CONSTANT)])


#: The value of the constant feature.
CONSTANT = 10.0

#: A score F about ±1 stands for the probability (1 + F)/2; the logit of that has slope 2 at F = 0. Unlike the logit
#: itself, 2F is finite everywhere, so it never ties or reorders labels.
LOGIT_SLOPE = 2.0


# Targets ±1 and their weights J without ever forming an n×c array of floats.


#: What ``unobserved`` may be, for ``_parameter_constraints``.
UNOBSERVED: list[Any] = [StrOptions({"negative", "ignore"}), Interval(Real, 0, 1, closed="both")]


def unobserved_weight(unobserved: str | float) -> float:
    """Turn "negative", "ignore" or a number into w, the weight of an unobserved entry.

    Examples
    --------
    >>> unobserved_weight("negative"), unobserved_weight("ignore"), unobserved_weight(0.25)
    (1.0, 0.0, 0.25)
    """
    if isinstance(unobserved, str):
        return {"negative": 1.0, "ignore": 0.0}[unobserved]
    return float(unobserved)


@dataclass(frozen=True)
class WeightedLabels:
    """J and Y of ½ Σ_ij J_ij (Y_ij − F_ij)², in row layout (n_samples, n_labels).

    Attributes
    ----------
    weight : float
        w, the weight of an entry that is not listed; its target is −1.
    rows, columns : int arrays of shape (n_listed,)
        Where the listed entries are, row by row.
    values : float64 array of shape (n_listed,)
        Their targets, +1 or −1; their weight is 1.
    shape : (n_samples, n_labels)
    """

    weight: float
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    values: NDArray[np.float64]
    shape: tuple[int, int]

    @classmethod
    def from_observed(cls, observed: NDArray[np.int8], unobserved: str | float) -> "WeightedLabels":
        """Read the library's int8 matrix: 1 observed, 0 unknown, −1 known absent."""
        rows, columns = np.nonzero(observed)
        values = observed[rows, columns].astype(np.float64)
        return cls(unobserved_weight(unobserved), rows, columns, values, (observed.shape[0], observed.shape[1]))

    @property
    def total_weight(self) -> float:
        """Return o = Σ_ij J_ij."""
        n_listed = len(self.values)
        return n_listed + self.weight * (self.shape[0] * self.shape[1] - n_listed)

    @property
    def listed(self) -> Any:
        """S, the 0/1 CSR matrix of listed entries; J = w + (1 − w) S."""
        return self._at_listed(np.ones(len(self.values)))

    def times(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (J∘Y) B for B of shape (n_labels, k)."""
        return np.asarray(self._excess @ matrix - self.weight * matrix.sum(axis=0))

    def transposed_times(self, matrix: Any) -> NDArray[np.float64]:
        """Return (J∘Y)ᵀ B for B of shape (n_samples, k), dense or CSR."""
        product = self._excess.T @ matrix
        dense = product.toarray() if sparse.issparse(product) else np.asarray(product)
        return np.asarray(dense - self.weight * np.asarray(matrix.sum(axis=0)).ravel())

    def masked(self, scores: NDArray[np.float64]) -> Any:
        """Return S∘F as CSR for F of shape (n_samples, n_labels)."""
        return self._at_listed(scores[self.rows, self.columns])

    def loss(self, scores: NDArray[np.float64]) -> float:
        """½ Σ_ij J_ij (Y_ij − F_ij)² for F given in full."""
        everywhere = np.vdot(scores, scores) + 2.0 * scores.sum() + scores.size if self.weight else 0.0
        return self._loss(float(everywhere), scores[self.rows, self.columns])

    def factored_loss(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
        """½ Σ_ij J_ij (Y_ij − F_ij)² for F = A Bᵀ, A (n_samples, k), B (n_labels, k); F is not formed."""
        everywhere = np.vdot(left.T @ left, right.T @ right) + 2.0 * left.sum(axis=0) @ right.sum(axis=0)
        at_listed = np.einsum("ij,ij->i", left[self.rows], right[self.columns])
        return self._loss(float(everywhere) + self.shape[0] * self.shape[1], at_listed)

    def _loss(self, everywhere: float, at_listed: NDArray[np.float64]) -> float:
        correction = (self.values - at_listed) ** 2 - self.weight * (1.0 + at_listed) ** 2
        return float(0.5 * (self.weight * everywhere + correction.sum()))

    @property
    def _excess(self) -> Any:
        """J∘Y + w, which is zero outside the listed entries."""
        return self._at_listed(self.values + self.weight)

    def _at_listed(self, values: NDArray[np.float64]) -> Any:
        return sparse.csr_array((values, (self.rows, self.columns)), shape=self.shape)
