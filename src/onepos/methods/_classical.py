"""What the classical missing-label methods share: one fit that scales, chooses one strength, and keeps the winner."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos import metrics
from onepos._random import seed_from
from onepos.memory import recall
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._holdout import hold_out
from onepos.scaling import FeatureScaler, fit_scaler
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
