"""GLOCAL's step for the latent labels V: a k×k ridge system for every row."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from onepos.methods._glocal_model import Coefficients, Design, Factors
from onepos.methods._weighted_labels import WeightedLabels

_ROWS_AT_ONCE = 4096


def latent_step(
    design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors
) -> NDArray[np.float64]:
    """V: every row v_i solves (Uᵀ diag(J_i) U + (λ + λ₃) I) v_i = Uᵀ(J_i∘y_i) + λ Wᵀx_i.

    The matrix is A + (1 − w) Σ_j u_j u_jᵀ over the row's listed labels j, with A = wUᵀU + (λ + λ₃)I the same for all
    rows. One factor of A serves the rows with no listed label and, by the Sherman–Morrison formula, those with one;
    rows with several are solved each on its own.
    """
    labels = factors.labels
    extra = 1.0 - targets.weight
    shared = targets.weight * (labels.T @ labels)
    shared += (coefficients.latent + coefficients.latent_ridge) * np.eye(labels.shape[1])
    right = targets.times(labels) + coefficients.latent * np.asarray(design.features @ factors.weights)
    factor = cho_factor(shared)
    latent = np.ascontiguousarray(cho_solve(factor, right.T).T)
    if extra == 0.0:
        return latent
    counts = np.bincount(targets.rows, minlength=len(right))
    single = counts[targets.rows] == 1
    rows, columns = targets.rows[single], targets.columns[single]
    solved = cho_solve(factor, labels.T).T  # A⁻¹u_j
    scale = extra / (1.0 + extra * np.einsum("jk,jk->j", labels, solved))
    along = np.einsum("ik,ik->i", labels[columns], latent[rows])
    latent[rows] -= (scale[columns] * along)[:, None] * solved[columns]
    _solve_several(latent, right, shared, targets, labels, np.flatnonzero(counts > 1))
    return latent


def _solve_several(
    latent: NDArray[np.float64],
    right: NDArray[np.float64],
    shared: NDArray[np.float64],
    targets: WeightedLabels,
    labels: NDArray[np.float64],
    rows: NDArray[np.intp],
) -> None:
    """Overwrite the rows given, a batch of k×k systems at a time."""
    if not len(rows):
        return
    outer = (labels[:, :, None] * labels[:, None, :]).reshape(len(labels), -1)
    listed = targets.listed[rows]
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        own = (listed[part] @ outer).reshape(-1, *shared.shape)
        systems = shared + (1.0 - targets.weight) * own
        latent[rows[part]] = np.linalg.solve(systems, right[rows[part], :, None])[:, :, 0]
