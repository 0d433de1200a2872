"""MLML's convex problem for fixed graphs: (I + λ_X L_X) Z + Z (λ_C L_C) = Y, in row layout Z (n, c).

Both solvers are exact. The Sylvester one is dense in n; the decoupled one turns the labels into the eigenbasis of L_C,
where every column is a sparse positive-definite system of its own.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_sylvester

#: Columns solved at once: enough for the sparse product to reuse the graph, few enough for the arrays to stay in cache.
_COLUMNS_AT_ONCE = 16

#: The condition is at most 1 + 2λ_X, so even λ_X = 1000 takes fewer steps for any tolerance that float64 can reach.
_MAX_STEPS = 1000


def objective(
    soft: NDArray[np.float64],
    targets: NDArray[np.float64],
    rows: Any,
    labels: NDArray[np.float64] | None,
    instance: float,
    label: float,
) -> float:
    """Evaluate ‖Z − Y‖² + λ_X tr(Zᵀ L_X Z) + λ_C tr(Z L_C Zᵀ), a block of rows at a time."""
    value = 0.0
    for start in range(0, len(soft), 4096):
        part = slice(start, start + 4096)
        block = soft[part].astype(np.float64)
        value += float(np.sum((block - targets[part]) ** 2))
        value += instance * float(np.vdot(block, rows[part] @ soft))
        if labels is not None and label:
            value += label * float(np.vdot(block, block @ labels))
    return value


def solve_dense(
    targets: NDArray[np.float64],
    rows: Any,
    labels: NDArray[np.float64] | None,
    instance: float,
    label: float,
) -> NDArray[np.float64]:
    """Solve the Sylvester equation with dense matrices: O(n³ + c³), for small n."""
    n, c = targets.shape
    left = np.eye(n) + instance * rows.toarray()
    right = np.zeros((c, c)) if labels is None else label * labels
    return np.asarray(solve_sylvester(left, right, np.asarray(targets, dtype=np.float64)))


def solve_decoupled(
    targets: NDArray[np.float64],
    rows: Any,
    labels: NDArray[np.float64] | None,
    instance: float,
    label: float,
    tolerance: float,
) -> NDArray[np.float64]:
    """L_C = QΛQᵀ; then ((1 + λ_C Λ_j) I + λ_X L_X) z̃_j = (YQ)_j for every j, and Z = Z̃Qᵀ.

    The systems share L_X, so conjugate gradients run on many columns at once, each with its own shift and step. Their
    condition is at most 1 + 2λ_X. No preconditioner: the diagonal of a normalised Laplacian is constant.
    """
    rotated = labels is not None and label > 0
    if rotated and labels is not None:
        values, vectors = np.linalg.eigh(labels)
        shifts = 1.0 + label * np.maximum(values, 0.0)
        solution = np.asarray(targets @ vectors)
    else:
        shifts = np.ones(targets.shape[1])
        solution = np.array(targets, dtype=np.float64)
    scaled = sparse.csr_array(instance * rows)
    for start in range(0, len(shifts), _COLUMNS_AT_ONCE):
        part = slice(start, start + _COLUMNS_AT_ONCE)
        solution[:, part] = _solve_columns(solution[:, part], scaled, shifts[part], tolerance)
    if not rotated:
        return solution
    for start in range(0, len(solution), 4096):  # in place: n×c is the largest array there is
        solution[start : start + 4096] = solution[start : start + 4096] @ vectors.T
    return solution


def _solve_columns(
    right: NDArray[np.float64], matrix: Any, shifts: NDArray[np.float64], tolerance: float
) -> NDArray[np.float64]:
    """Conjugate gradients from zero for (s_j I + M) z_j = y_j, every column j with its own step lengths.

    Written out here, in place, because the vector operations cost as much as the product with a sparse M.
    """
    residual = np.array(right, order="C")
    direction = residual.copy()
    solution, scratch = np.zeros_like(residual), np.empty_like(residual)
    squares = _column_products(residual, residual)
    limit = tolerance**2 * squares
    for _ in range(_MAX_STEPS):
        if np.all(squares <= limit):
            break
        image = matrix @ direction
        image += np.multiply(direction, shifts, out=scratch)
        curvature = _column_products(direction, image)
        # A column of zeros, or one solved to the last bit, stays where it is.
        step = np.divide(squares, curvature, out=np.zeros_like(squares), where=curvature > 0)
        solution += np.multiply(direction, step, out=scratch)
        residual -= np.multiply(image, step, out=scratch)
        previous, squares = squares, _column_products(residual, residual)
        direction *= np.divide(squares, previous, out=np.zeros_like(squares), where=previous > 0)
        direction += residual
    return solution


def _column_products(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.einsum("ij,ij->j", left, right))
