"""What the classical missing-label methods share: one fit that scales, chooses one strength, and keeps the winner."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos import metrics
from onepos._utils import storage
from onepos._utils.context import recall
from onepos._utils.validation import all_or_nothing, seed_from, to_dense
from onepos.methods._base import OnePositiveClassifier
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.rows.splits import hold_out
from onepos.training import History

Matrix = NDArray[np.float64]

#: Training rows that label sets are cut by where none are held out.
_CUT_ROWS = 2000

#: The value of the constant feature: the ridge on its weight is a hundredth of the others'.
CONSTANT = 10.0

#: A score F about ±1 stands for the probability (1 + F)/2; the logit of that has slope 2 at F = 0. Unlike the logit
#: itself, 2F is finite everywhere, so it never ties or reorders labels.
LOGIT_SLOPE = 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class ClassicalClassifier(OnePositiveClassifier):
    """Base of methods without a network.

    Subclasses implement ``_solve``, which returns a solution and a history. A solution is a NamedTuple whose fields are
    arrays, stored as they are, and facts. With ``coef`` and ``intercept`` it scores rows; others override ``_scores``.
    """

    #: Name of the parameter that may be a sequence.
    _strength: ClassVar[str]
    _solution_type: ClassVar[Any]
    _stored: ClassVar[storage.Rules] = {
        "scaler_": storage.Part(FeatureScaler),
        "n_iter_": storage.COUNT,
        "history_": storage.Part(History),
    }

    validation_fraction: float = 0.1
    scale: str = "auto"
    random_state: Any = None

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; arguments as in ``NeuralClassifier.fit``.

        Rows of ``validation`` choose among several strengths. Without them ``validation_fraction`` of the rows is held
        out and the winner refitted on all rows.
        """
        X, labels, given, complete = self._check_fit(X, y, validation, validation_labels)
        seed = seed_from(self.random_state)
        strengths = sorted({float(value) for value in np.atleast_1d(getattr(self, self._strength))}, reverse=True)
        if not strengths or not all(np.isfinite(value) and value >= 0 for value in strengths):
            raise ValueError(f"{self._strength} must be one or several numbers, finite and >= 0; got {strengths}.")
        self.scaler_ = fit_scaler(X, self.scale)
        features, observed = self.scaler_.transform(X), labels.observed
        held = None if given is None else (self.scaler_.transform(given[0]), given[1])
        self.validation_scores_ = {}
        judged: Any = None
        if held is None and len(strengths) > 1:
            generator = np.random.default_rng(seed)
            kept, out = hold_out(observed, self.validation_fraction, generator)
            held = features[out], observed[out]
            best, judged, _ = self._search(features[kept], observed[kept], strengths, held, seed)
            strengths = [best]
        _, solution, history = self._search(features, observed, strengths, held, seed)
        self.history_ = History(list(history.records), history.facts | {"scale": self.scaler_.kind})
        self.n_iter_ = max(1, len(history))
        # Held-out rows are scored by the solution that did not see them.
        scores = self._scores(solution if judged is None else judged, features[:_CUT_ROWS] if held is None else held[0])
        self._keep(solution)
        self._cut_at(LOGIT_SLOPE * scores, complete=complete, rows="training rows" if held is None else "held-out rows")
        return self

    def _search(
        self,
        features: Any,
        observed: NDArray[np.int8],
        strengths: list[float],
        held: tuple[Any, NDArray[np.int8]] | None,
        seed: int,
    ) -> tuple[float, Any, History]:
        """Fit every strength; return the best one on held-out rows, its solution and history."""
        best: Any = None
        for value in strengths:
            found = (value, *self._solve_once(features, observed, value, seed))
            if len(strengths) == 1 or held is None:
                return found
            score = metrics.average_precision(held[1], self._scores(found[1], held[0]))
            if best is None or score > max(self.validation_scores_.values()):
                best = found
            self.validation_scores_[value] = score
        return best  # type: ignore[no-any-return]

    def _solve_once(self, features: Any, observed: NDArray[np.int8], strength: float, seed: int) -> tuple[Any, History]:
        """``_solve``, unless the same was solved before within ``remember_work``."""
        settings = {name: value for name, value in self.get_params().items() if name != "random_state"}
        inputs = (type(self).__name__, features, observed, strength, seed, settings)
        return recall(lambda: self._solve(features, observed, strength, np.random.default_rng(seed)), *inputs)

    def _solve(
        self, features: Any, observed: NDArray[np.int8], strength: float, generator: np.random.Generator
    ) -> tuple[Any, History]:
        """Fit scaled features with one strength."""
        raise NotImplementedError(f"{type(self).__name__} must solve for one strength.")

    def _scores(self, solution: Any, features: Any) -> Matrix:
        """Score scaled rows, shape (n_samples, n_labels): about −1 for absent, +1 for present."""
        return np.asarray(features.astype(np.float64) @ solution.coef + solution.intercept)

    def _keep(self, solution: Any) -> None:
        """Set the fitted attributes: ``coef_`` of ``coef``, and so on."""
        self._solution = solution
        for name, value in solution._asdict().items():
            setattr(self, f"{name}_", value)

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        made = super()._from_stored(fields)
        made._keep(cls._solution_type(*(fields[f"{name}_"] for name in cls._solution_type._fields)))
        return made

    def _logits(self, X: Any) -> Matrix:
        return LOGIT_SLOPE * self._scores(self._solution, self.scaler_.transform(X))


def with_constant(features: Any) -> Any:
    """Scaled features in float64 and a last column of ``CONSTANT``: the ridge hardly shrinks the intercept."""
    if sparse.issparse(features):
        constant = sparse.csr_array(np.full((features.shape[0], 1), CONSTANT))
        return sparse.csr_array(sparse.hstack([features.astype(np.float64), constant]))
    return np.column_stack([features.astype(np.float64), np.full(features.shape[0], CONSTANT)])


@dataclass(frozen=True)
class WeightedLabels:
    """J and Y of ½ Σ_ij J_ij (Y_ij − F_ij)²: listed entries have J = 1 and Y = ±1, all others J = w and Y = −1."""

    weight: float  # w
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    values: Matrix  # targets of the listed entries
    shape: tuple[int, int]

    @classmethod
    def from_observed(cls, observed: NDArray[np.int8], weight: float) -> "WeightedLabels":
        """Read the library's int8 matrix: 1 observed, 0 unknown, −1 known absent."""
        rows, columns = np.nonzero(observed)
        values = observed[rows, columns].astype(np.float64)
        return cls(weight, rows, columns, values, (observed.shape[0], observed.shape[1]))

    @property
    def total_weight(self) -> float:
        """Return o = Σ_ij J_ij."""
        n_listed = len(self.values)
        return n_listed + self.weight * (self.shape[0] * self.shape[1] - n_listed)

    @property
    def listed(self) -> Any:
        """S, the 0/1 CSR matrix of listed entries; J = w + (1 − w) S."""
        return self._at_listed(np.ones(len(self.values)))

    def times(self, matrix: Matrix) -> Matrix:
        """Return (J∘Y) B for B of shape (n_labels, k)."""
        return np.asarray(self._excess @ matrix - self.weight * matrix.sum(axis=0))

    def transposed_times(self, matrix: Any) -> Matrix:
        """Return (J∘Y)ᵀ B for B of shape (n_samples, k), dense or CSR."""
        return to_dense(self._excess.T @ matrix) - self.weight * np.asarray(matrix.sum(axis=0)).ravel()

    def loss(self, scores: Matrix) -> float:
        """½ Σ_ij J_ij (Y_ij − F_ij)² for F given in full."""
        everywhere = np.vdot(scores, scores) + 2.0 * scores.sum() + scores.size if self.weight else 0.0
        return self._loss(float(everywhere), scores[self.rows, self.columns])

    def factored_loss(self, left: Matrix, right: Matrix) -> float:
        """½ Σ_ij J_ij (Y_ij − F_ij)² for F = A Bᵀ, A (n_samples, k), B (n_labels, k); F is not formed."""
        everywhere = np.vdot(left.T @ left, right.T @ right) + 2.0 * left.sum(axis=0) @ right.sum(axis=0)
        at_listed = np.einsum("ij,ij->i", left[self.rows], right[self.columns])
        return self._loss(float(everywhere) + self.shape[0] * self.shape[1], at_listed)

    def _loss(self, everywhere: float, at_listed: Matrix) -> float:
        correction = (self.values - at_listed) ** 2 - self.weight * (1.0 + at_listed) ** 2
        return float(0.5 * (self.weight * everywhere + correction.sum()))

    @property
    def _excess(self) -> Any:
        """J∘Y + w, which is zero outside the listed entries."""
        return self._at_listed(self.values + self.weight)

    def _at_listed(self, values: Matrix) -> Any:
        return sparse.csr_array((values, (self.rows, self.columns)), shape=self.shape)


@dataclass(frozen=True)
class StoredMatrix(storage.Rule):
    """Training rows in a model file: an array, or a CSR matrix. The shape has two words, as for ``Array``."""

    shape: str

    def write(self, value: Any, at: storage.Place) -> Any:
        """Add the array or the parts of the CSR matrix to the file."""
        if not sparse.issparse(value):
            return storage.Array(self.shape).write(value, at)
        parts = {name: getattr(value, name) for name in ("data", "indices", "indptr")}
        return {"shape": list(value.shape)} | {
            name: storage.Array("").write(part, at.at(name)) for name, part in parts.items()
        }

    def read(self, entry: Any, at: storage.Place) -> Any:
        """Return the matrix; compiled code reads it, so that all indices are checked."""
        if not isinstance(entry, dict):
            return storage.Array(self.shape).read(entry, at)
        inner = replace(at, sizes={name: size for name, size in at.sizes.items() if name != "entries"})
        words = self.shape.split()
        parts = {
            "shape": storage.List(storage.SIZE, least=2, most=2),
            "data": storage.Array("entries"),
            "indices": storage.Array("entries", "i4 i8", 0, below=words[1]),
            "indptr": storage.Array(f"{words[0]}+1", "i4 i8"),
        }
        for word, size in zip(words, parts["shape"].read(entry.get("shape"), at), strict=True):
            at.set_size(word, size)
            inner.set_size(word, size)
        entry = storage.Record(parts).read(entry, inner)
        storage.check_starts(entry["indptr"], len(entry["indices"]), f"{at.path}.indptr")
        return sparse.csr_array((entry["data"], entry["indices"], entry["indptr"]), shape=entry["shape"])
