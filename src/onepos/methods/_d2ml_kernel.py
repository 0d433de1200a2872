"""The kernel variant as a feature map: exact when every training row is a landmark, Nyström's otherwise."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos.methods._stored_features import products, squared_lengths

_CHUNK = 4096


class FeatureMap(NamedTuple):
    """φ(x) = k(x, landmarks) · projection, so that φ(x)·φ(x') = k(x, x') on the landmarks' span.

    K = k(landmarks, landmarks) = EΓEᵀ and projection = EΓ^{-1/2}.
    """

    landmarks: Any
    projection: NDArray[np.float64]
    gamma: float

    def __call__(self, features: Any) -> NDArray[np.float64]:
        """φ of every row, shape (n_samples, rank)."""
        mapped = np.empty((features.shape[0], self.projection.shape[1]))
        for start in range(0, features.shape[0], _CHUNK):
            part = slice(start, start + _CHUNK)
            mapped[part] = rbf(features[part], self.landmarks, self.gamma) @ self.projection
        return mapped


def rbf(left: Any, right: Any, gamma: float) -> NDArray[np.float64]:
    """k(x, x') = exp(−γ‖x − x'‖²), shape (n_left, n_right)."""
    squared = squared_lengths(left)[:, None] + squared_lengths(right)[None, :] - 2.0 * products(left, right)
    return np.asarray(np.exp(-gamma * np.maximum(squared, 0.0)))


def make_feature_map(features: Any, gamma: float, n_landmarks: int, generator: np.random.Generator) -> FeatureMap:
    """Choose landmarks, all rows if there are no more than ``n_landmarks``, else that many at random."""
    n = features.shape[0]
    chosen = np.arange(n) if n <= n_landmarks else np.sort(generator.choice(n, n_landmarks, replace=False))
    landmarks = features[chosen]
    values, vectors = np.linalg.eigh(rbf(landmarks, landmarks, gamma))
    kept = values > 1e-10 * values[-1]
    return FeatureMap(landmarks, vectors[:, kept] / np.sqrt(values[kept]), gamma)


def default_gamma(features: Any) -> float:
    """Return 1 / (q · variance of all entries), scikit-learn's "scale"."""
    n_entries = features.shape[0] * features.shape[1]
    mean = float(features.sum(dtype=np.float64)) / n_entries
    variance = float(squared_lengths(features).sum()) / n_entries - mean**2
    return 1.0 / (features.shape[1] * variance) if variance > 0 else 1.0
