"""Targets ±1 and their weights J without ever forming an n×c array of floats.

Every entry is −1 with weight w ("unknown") except the few that the user listed: observed positives (+1) and known
absences (−1), both with weight 1. What the classical methods need of J and Y then costs as much as the listed entries.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

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
