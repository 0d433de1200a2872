"""GLOCAL's objective and gradients, in row layout: X (n, q), V (n, k), U (c, k), W (q, k), Z_m (c, k₂)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos.methods._weighted_labels import WeightedLabels

#: Up to this many features the Gram matrices XᵀX and X_mᵀX_m are formed; above, products with X take their place.
GRAM_LIMIT = 4096


class Coefficients(NamedTuple):
    """The weights of the terms, after the published normalisation."""

    latent: float  # λ: V against its prediction XW
    local: float  # λ₁
    overall: float  # λ₂: the global correlations
    latent_ridge: float  # λ₃
    label_ridge: float  # λ₄
    feature_ridge: float  # λ₅


class Factors(NamedTuple):
    """The unknowns: V (n, k), U (c, k), W (q, k) and one Z_m (c, k₂) with unit rows for each group."""

    latent: NDArray[np.float64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    correlations: tuple[NDArray[np.float64], ...]


def normalise(raw: Coefficients, targets: WeightedLabels, n_features: int, rank: int, n_groups: int) -> Coefficients:
    """Scale the coefficients as published, with o = Σ J: so that they mean the same for any n, c, q and k.

    λ·o/(kn), λ₁·o/(n/g)², λ₂·o/n², λ₃·o/(nk), λ₄·o/(ck), λ₅·o/(qk).
    """
    n, c = targets.shape
    o = targets.total_weight
    return Coefficients(
        raw.latent * o / (rank * n),
        raw.local * o / (n / n_groups) ** 2,
        raw.overall * o / n**2,
        raw.latent_ridge * o / (n * rank),
        raw.label_ridge * o / (c * rank),
        raw.feature_ridge * o / (n_features * rank),
    )


@dataclass
class Design:
    """The features as the solver sees them: all rows X, the rows X_m of each group, and products with their Grams."""

    features: Any
    groups: list[NDArray[np.intp]]

    def __post_init__(self) -> None:
        self.n_samples, self.n_features = self.features.shape
        self.shares = [len(rows) / self.n_samples for rows in self.groups]  # β_m
        self._grams: list[NDArray[np.float64]] | None = None
        if self.n_features <= GRAM_LIMIT:
            self._grams = [_gram(self.features[rows]) for rows in self.groups]

    @property
    def gram(self) -> NDArray[np.float64] | None:
        """XᵀX, or None when there are too many features to form it."""
        return None if self._grams is None else np.sum(self._grams, axis=0)

    def gram_times(self, weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """X_mᵀX_m W for every group; the groups' sum is XᵀX W."""
        if self._grams is not None:
            return [gram @ weights for gram in self._grams]
        return [np.asarray(part.T @ (part @ weights)) for part in (self.features[rows] for rows in self.groups)]

    def mixtures(self, weights: NDArray[np.float64], coefficients: Coefficients) -> list[NDArray[np.float64]]:
        """A_m = λ₂β_m WᵀXᵀXW + λ₁ WᵀX_mᵀX_mW for every group, k×k."""
        parts = [weights.T @ part for part in self.gram_times(weights)]
        total = np.sum(parts, axis=0)
        return [
            coefficients.overall * share * total + coefficients.local * part
            for share, part in zip(self.shares, parts, strict=True)
        ]


def _gram(features: Any) -> NDArray[np.float64]:
    gram = features.T @ features
    return np.asarray(gram.toarray() if not isinstance(gram, np.ndarray) else gram)


def objective(design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors) -> float:
    """Evaluate ½‖√J∘(Y − VUᵀ)‖² + ½λ‖V − XW‖² + ½ Σ_m tr(Z_mᵀ U A_m Uᵀ Z_m) + ½(λ₃‖V‖² + λ₄‖U‖² + λ₅‖W‖²)."""
    latent, labels, weights, correlations = factors
    value = targets.factored_loss(latent, labels)
    value += 0.5 * coefficients.latent * _square(latent - design.features @ weights)
    for z, mixture in zip(correlations, design.mixtures(weights, coefficients), strict=True):
        projected = labels.T @ z
        value += 0.5 * float(np.vdot(projected, mixture @ projected))
    value += 0.5 * coefficients.latent_ridge * _square(latent)
    value += 0.5 * coefficients.label_ridge * _square(labels)
    return value + 0.5 * coefficients.feature_ridge * _square(weights)


def gradients(design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors) -> Factors:
    """Return the Euclidean gradients of ``objective`` in V, U, W and Z_m.

    The solver uses closed forms; these are what its steps must make zero. Forms n×c arrays.
    """
    latent, labels, weights, correlations = factors
    weight, listed = targets.weight, targets.listed.toarray()
    residual = (weight + (1 - weight) * listed) * (latent @ labels.T) - targets.times(np.eye(targets.shape[1]))
    error = latent - design.features @ weights
    in_latent = residual @ labels + coefficients.latent * error + coefficients.latent_ridge * latent
    in_labels = residual.T @ latent + coefficients.label_ridge * labels
    in_weights = coefficients.feature_ridge * weights - coefficients.latent * (design.features.T @ error)
    parts = design.gram_times(weights)
    total = np.sum(parts, axis=0)
    in_correlations = []
    for z, mixture, part, share in zip(
        correlations, design.mixtures(weights, coefficients), parts, design.shares, strict=True
    ):
        projected = labels.T @ z
        in_labels += z @ projected.T @ mixture
        in_weights += (coefficients.overall * share * total + coefficients.local * part) @ (projected @ projected.T)
        in_correlations.append(labels @ (mixture @ projected))
    return Factors(in_latent, in_labels, np.asarray(in_weights), tuple(in_correlations))


def _square(matrix: NDArray[np.float64]) -> float:
    return float(np.vdot(matrix, matrix))
