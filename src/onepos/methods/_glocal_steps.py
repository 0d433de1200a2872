"""GLOCAL's steps for U, W and Z_m: each solves, or lowers, the objective in one unknown with the others fixed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onepos.methods._conjugate_gradient import Map, conjugate_gradient
from onepos.methods._glocal_model import Coefficients, Design, Factors
from onepos.methods._weighted_labels import WeightedLabels


def label_step(
    design: Design, targets: WeightedLabels, coefficients: Coefficients, factors: Factors, tolerance: float
) -> NDArray[np.float64]:
    """U: (J∘(UVᵀ))V + λ₄U + Σ_m Z_m Z_mᵀ U A_m = (J∘Y)ᵀV, by conjugate gradients.

    The preconditioner inverts the diagonal blocks, which are exact because diag(Z_m Z_mᵀ) = 1; without
    correlations it is the solution.
    """
    latent, labels, weights, correlations = factors
    mixtures = design.mixtures(weights, coefficients)
    rank = labels.shape[1]
    hessians = np.broadcast_to(
        targets.weight * (latent.T @ latent) + coefficients.label_ridge * np.eye(rank), (len(labels), rank, rank)
    )
    if targets.weight < 1.0:
        hessians = hessians + (1.0 - targets.weight) * _label_outers(targets, latent)
    inverses = np.linalg.inv(hessians + np.sum(mixtures, axis=0))

    def operator(candidate: NDArray[np.float64]) -> NDArray[np.float64]:
        image: NDArray[np.float64] = np.einsum("jk,jkl->jl", candidate, hessians)
        for z, mixture in zip(correlations, mixtures, strict=True):
            image += z @ ((z.T @ candidate) @ mixture)
        return image

    def precondition(residual: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.einsum("jk,jkl->jl", residual, inverses))

    solution, _ = conjugate_gradient(
        operator, targets.transposed_times(latent), labels, precondition, tolerance=tolerance
    )
    return solution


def weight_step(
    design: Design,
    coefficients: Coefficients,
    factors: Factors,
    spectrum: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    tolerance: float,
) -> NDArray[np.float64]:
    """W: λXᵀXW + λ₅W + Σ_m (λ₂β_m XᵀX + λ₁X_mᵀX_m) W B_m = λXᵀV with B_m = UᵀZ_mZ_mᵀU, by conjugate gradients.

    With X_mᵀX_m ≈ β_m XᵀX the equation is XᵀX W S + λ₅W = R for a k×k matrix S, solved exactly in the eigenbases of
    XᵀX and S: that is the preconditioner, and the solution itself when there is one group or λ₁ = 0.
    """
    latent, labels, weights, correlations = factors
    projections = [labels.T @ z for z in correlations]
    inner = [p @ p.T for p in projections]  # B_m
    share_weighted = _weighted_sum(inner, design.shares, weights.shape[1])
    everywhere = coefficients.latent * np.eye(weights.shape[1]) + coefficients.overall * share_weighted

    def operator(candidate: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = design.gram_times(candidate)
        image = np.sum(parts, axis=0) @ everywhere + coefficients.feature_ridge * candidate
        if coefficients.local:
            for part, b in zip(parts, inner, strict=True):
                image += coefficients.local * (part @ b)
        return np.asarray(image)

    precondition = _two_sided(design, everywhere + coefficients.local * share_weighted, coefficients, spectrum)
    right = coefficients.latent * np.asarray(design.features.T @ latent)
    solution, _ = conjugate_gradient(operator, right, weights, precondition, tolerance=tolerance)
    return solution


def correlation_step(
    mixture: NDArray[np.float64],
    labels: NDArray[np.float64],
    correlation: NDArray[np.float64],
    max_iter: int,
    tolerance: float,
) -> NDArray[np.float64]:
    """Z_m: lower ½ tr(ZᵀNZ), N = U A_m Uᵀ, over rows of unit length.

    With L ≥ ‖N‖ and ‖Z‖² = c fixed, the objective is ½ tr(Zᵀ(N − L I)Z) plus a constant, concave, so its tangent is
    an upper bound, whose minimiser is Z ← (LZ − NZ) with rows normalised: a gradient step retracted, which never
    raises the objective. N is never formed.
    """
    values, vectors = np.linalg.eigh((mixture + mixture.T) / 2)
    root = labels @ (vectors * np.sqrt(np.maximum(values, 0.0)))  # N = root rootᵀ
    largest = float(np.linalg.eigvalsh(root.T @ root)[-1])
    if largest <= 0.0:
        return correlation
    previous = np.inf
    for _ in range(max_iter):
        projected = root.T @ correlation
        value = 0.5 * float(np.vdot(projected, projected))
        if previous - value <= tolerance * abs(previous) and np.isfinite(previous):
            break
        previous = value
        correlation = unit_rows(largest * correlation - root @ projected, correlation)
    return correlation


def unit_rows(matrix: NDArray[np.float64], fallback: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by their length; a row of zeros, for which every direction is as good, keeps ``fallback``'s."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, None]
    if lengths.all():
        return np.asarray(matrix / lengths)
    return np.where(lengths > 0, matrix / np.where(lengths > 0, lengths, 1.0), fallback)


def _label_outers(targets: WeightedLabels, latent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ v_i v_iᵀ over the rows i that list label j, for every j, shape (c, k, k)."""
    n_labels, rank = targets.shape[1], latent.shape[1]
    order = np.argsort(targets.columns, kind="stable")
    bounds = np.searchsorted(targets.columns[order], np.arange(n_labels + 1))
    total = np.empty((n_labels, rank, rank))
    for label in range(n_labels):
        part = latent[targets.rows[order[bounds[label] : bounds[label + 1]]]]
        total[label] = part.T @ part
    return total


def _weighted_sum(matrices: Sequence[NDArray[np.float64]], weights: Sequence[float], size: int) -> NDArray[np.float64]:
    total = np.zeros((size, size))
    for matrix, weight in zip(matrices, weights, strict=True):
        total += weight * matrix
    return total


def _two_sided(
    design: Design,
    right: NDArray[np.float64],
    coefficients: Coefficients,
    spectrum: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
) -> Map:
    """Return the inverse of W ↦ XᵀX W S + λ₅W; with too many features for XᵀX, the identity over its scale."""
    if spectrum is None:
        return lambda residual: residual
    gram_values, gram_vectors = spectrum
    right_values, right_vectors = np.linalg.eigh((right + right.T) / 2)
    scale = gram_values[:, None] * right_values[None, :] + coefficients.feature_ridge
    scale = np.maximum(scale, 1e-12 * scale.max())

    def apply(residual: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(gram_vectors @ ((gram_vectors.T @ residual @ right_vectors) / scale) @ right_vectors.T)

    return apply
